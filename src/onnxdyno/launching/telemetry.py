"""A process on a GPU under watch: readings of the device from before it starts, and what they make of its answers."""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import replace

from onnxdyno.domain.assignments import Assignment, Pass
from onnxdyno.domain.devices import Device, DeviceKind
from onnxdyno.domain.errors import DeviceBusy, DeviceError
from onnxdyno.domain.outcomes import Measured, Skipped
from onnxdyno.domain.plan import Point, Protocol
from onnxdyno.domain.telemetry import TelemetrySample, event_names
from onnxdyno.launching.driving import Answer
from onnxdyno.launching.strangers import foreign, held_back, refusal, spoilt, starved, tried
from onnxdyno.measuring.telemetry import ALONE, company, invalidating, judge, stranger_on
from onnxdyno.ports import Recording, Sampler

FIRST_READING_S = 5.0
"""Until a driver that was not loaded answers; one that never does is not waited for longer."""
NEXT_READING_S = 1.0
WATCHED = frozenset({Pass.PROBE, Pass.TIMING, Pass.MEMORY, Pass.COLD, Pass.PROFILE, Pass.ARENA})
"""Passes whose answers somebody else on the device would spoil: of a probe and an arena, that memory ran out."""
_WHERE_LOAD_COUNTS = frozenset({Pass.TIMING, Pass.PROFILE})
"""Passes that wait until the device is idle: what ran before is in its utilisation for up to a second."""


class NoSampler:
    """For devices that nobody reads from outside: a CPU, whose neighbours its own clocks show."""

    def record(self, device: Device) -> Recording:  # noqa: ARG002  the port's
        """A recording without samples."""
        return _Nothing()


class _Nothing:
    def samples(self) -> tuple[TelemetrySample, ...]:
        return ()

    def wait_past(self, t_ns: int, timeout_s: float) -> TelemetrySample | None:  # noqa: ARG002  the port's
        return None

    def stop(self) -> None:
        return None


def watched(
    answers: Callable[[], Generator[Answer, None, None]], assignment: Assignment, sampler: Sampler
) -> Generator[Answer, None, None]:
    """The answers of a process, each judged by what its device said meanwhile; as they are on a CPU.

    Where somebody else uses the device, nothing is started. Raises `DeviceError` when the device is lost.
    """
    if assignment.device.kind is DeviceKind.CPU or assignment.kind not in WATCHED:
        yield from answers()
        return
    recording = sampler.record(assignment.device)
    try:
        is_load_told = assignment.kind in _WHERE_LOAD_COUNTS
        stranger = _lingering(recording, assignment.protocol, is_load_told=is_load_told)
        if stranger is not None:
            for at, turn in enumerate(assignment.turns):
                yield refusal(assignment, turn, stranger, () if at else recording.samples())
            return
        with closing(answers()) as heard:
            yield from _JUDGING.get(assignment.kind, _checked)(heard, assignment, recording)
    finally:
        recording.stop()


def undisturbed(
    answers: Callable[[], Generator[Answer, None, None]], assignment: Assignment, sampler: Sampler
) -> Generator[Answer, None, None]:
    """The answers of a process whose readings are kept for long; as they are on a CPU.

    Raises `DeviceBusy` where somebody else used the device, `DeviceError` where it was throttled or lost: then none of
    the answers may be used.
    """
    if assignment.device.kind is DeviceKind.CPU:
        yield from answers()
        return
    recording = sampler.record(assignment.device)
    try:
        _refuse(assignment.device, _lingering(recording, assignment.protocol))
        with closing(answers()) as heard:
            yield from heard
        samples = _readings(recording, assignment.device)
        _refuse(assignment.device, company(samples))
        if names := event_names(invalidating(samples)):
            raise DeviceError(
                f"{assignment.device.id}: it was throttled ({', '.join(names)}). Cool it, or lower its power limit."
            )
    finally:
        recording.stop()


def _refuse(device: Device, stranger: str | None) -> None:
    if stranger is not None:
        raise DeviceBusy(f"{device.id}: {stranger}. {ALONE}")


def occupied(device: Device, points: tuple[Point, ...], protocol: Protocol, sampler: Sampler) -> tuple[Skipped, ...]:
    """Every point as `foreign_tenant` where somebody else uses the device before anything of ours runs, else none."""
    if device.kind is DeviceKind.CPU:
        return ()
    recording = sampler.record(device)
    try:
        stranger = _lingering(recording, protocol)
        if stranger is None:
            return ()
        return tuple(
            foreign(point, None, stranger, () if at else recording.samples()) for at, point in enumerate(points)
        )
    finally:
        recording.stop()


def _lingering(
    recording: Recording, protocol: Protocol, *, after_ns: int = -1, is_load_told: bool = True
) -> str | None:
    """Who uses the device though nothing of ours runs, as a clause; `is_load_told`: utilisation counts, too.

    What ended a moment ago may still be seen: the device is taken if it is not free within the settling time.
    """
    sample = recording.wait_past(after_ns, FIRST_READING_S)
    first_ns = sample.t_ns if sample is not None else 0
    while sample is not None:
        stranger = stranger_on(sample if is_load_told else replace(sample, utilisation=None), protocol)
        if stranger is None or sample.t_ns - first_ns >= protocol.tenant_settle_ns:
            return stranger
        sample = recording.wait_past(sample.t_ns, NEXT_READING_S)
    return None


def _judged(answers: Iterator[Answer], assignment: Assignment, recording: Recording) -> Generator[Answer, None, None]:
    """Of a launch: each answer as it comes, with the readings since the one before."""
    told_ns = -1
    for answer in answers:
        if not isinstance(answer, Measured | Skipped):
            yield answer
            continue
        if isinstance(answer, Measured) and answer.spans:
            last = answer.spans[-1]
            recording.wait_past(last.opened_ns + last.wall_ns, NEXT_READING_S)
        samples = _readings(recording, assignment.device)
        if isinstance(answer, Measured):
            judged = judge(answer, samples, assignment.protocol)
        else:
            judged = starved(answer, company(samples, since_ns=told_ns))
        yield replace(judged, telemetry=tuple(sample for sample in samples if sample.t_ns > told_ns))
        told_ns = samples[-1].t_ns if samples else told_ns


def _tried(answers: Iterator[Answer], assignment: Assignment, recording: Recording) -> Generator[Answer, None, None]:
    """Of a probe: as they come, since what a call takes decides how long the next may be silent."""
    for answer in answers:
        yield tried(answer, company(_readings(recording, assignment.device)))


def _checked(answers: Iterator[Answer], assignment: Assignment, recording: Recording) -> Generator[Answer, None, None]:
    """Of memory, cold numbers or a profile: once the process has ended, and it is known who else was there.

    Then nothing of ours runs: who is there now may have been there before, and is looked for even where nobody's ids
    can be told.
    """
    heard = tuple(answers)
    samples = _readings(recording, assignment.device)
    stranger = company(samples)
    if stranger is None and samples:
        stranger = _lingering(recording, assignment.protocol, after_ns=samples[-1].t_ns, is_load_told=False)
    for answer in heard:
        yield held_back(answer, samples) if stranger is None else spoilt(answer, stranger, assignment.device)


_JUDGING = {Pass.TIMING: _judged, Pass.PROBE: _tried}
"""Others are judged once their process has ended."""


def _readings(recording: Recording, device: Device) -> tuple[TelemetrySample, ...]:
    """All so far. Raises `DeviceError` if the device was lost."""
    samples = recording.samples()
    if any(sample.is_lost for sample in samples):
        raise DeviceError(
            f"{device.name} {device.id}: NVML says that the GPU is lost. "
            "Look for Xid in the kernel log, reset the GPU or restart the machine, and run it again."
        )
    return samples
