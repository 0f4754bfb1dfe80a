"""A launch on a GPU under watch: readings of the device from before it starts, and what they make of its answers."""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import replace

from onnxdyno.domain.assignments import Assignment
from onnxdyno.domain.devices import Device, DeviceKind
from onnxdyno.domain.errors import DeviceError
from onnxdyno.domain.outcomes import Measured, PointState, Skipped
from onnxdyno.domain.plan import Point, Protocol
from onnxdyno.domain.telemetry import TelemetrySample
from onnxdyno.launching.driving import Answer
from onnxdyno.measuring.telemetry import ALONE, judge, stranger_on
from onnxdyno.ports import Recording, Sampler

FIRST_READING_S = 5.0
"""Until a driver that was not loaded answers; one that never does is not waited for longer."""
NEXT_READING_S = 1.0


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
    """The answers of a launch, each judged by what its device said meanwhile; as they are on a CPU.

    Where somebody else uses the device, nothing is started. Raises `DeviceError` when the device is lost.
    """
    if assignment.device.kind is DeviceKind.CPU:
        yield from answers()
        return
    recording = sampler.record(assignment.device)
    try:
        points = tuple(turn.point for turn in assignment.turns)
        refused = _refused(recording, points, assignment.launch, assignment.protocol)
        yield from refused
        if not refused:
            with closing(answers()) as heard:
                yield from _judged(heard, assignment, recording)
    finally:
        recording.stop()


def occupied(device: Device, points: tuple[Point, ...], protocol: Protocol, sampler: Sampler) -> tuple[Skipped, ...]:
    """Every point as `foreign_tenant` where somebody else uses the device before anything of ours runs, else none."""
    if device.kind is DeviceKind.CPU:
        return ()
    recording = sampler.record(device)
    try:
        return _refused(recording, points, None, protocol)
    finally:
        recording.stop()


def _refused(
    recording: Recording, points: tuple[Point, ...], launch: int | None, protocol: Protocol
) -> tuple[Skipped, ...]:
    """What ended a moment ago may still be seen: the device is taken if it is not free within the settling time."""
    sample = recording.wait_past(-1, FIRST_READING_S)
    first_ns = sample.t_ns if sample is not None else 0
    while sample is not None and (stranger := stranger_on(sample, protocol)) is not None:
        if sample.t_ns - first_ns >= protocol.tenant_settle_ns:
            reason = f"before anything was started, {stranger}."
            return tuple(
                Skipped(
                    point=point,
                    launch=launch,
                    state=PointState.FOREIGN_TENANT,
                    reason=reason,
                    remedy=ALONE,
                    telemetry=recording.samples() if at == 0 else (),
                )
                for at, point in enumerate(points)
            )
        sample = recording.wait_past(sample.t_ns, NEXT_READING_S)
    return ()


def _judged(answers: Iterator[Answer], assignment: Assignment, recording: Recording) -> Generator[Answer, None, None]:
    told_ns = -1
    for answer in answers:
        if not isinstance(answer, Measured | Skipped):
            yield answer
            continue
        if isinstance(answer, Measured) and answer.spans:
            last = answer.spans[-1]
            recording.wait_past(last.opened_ns + last.wall_ns, NEXT_READING_S)
        samples = recording.samples()
        if any(sample.is_lost for sample in samples):
            raise DeviceError(
                f"{assignment.device.name} {assignment.device.id}: NVML says that the GPU is lost. "
                "Look for Xid in the kernel log, reset the GPU or restart the machine, and run it again."
            )
        judged = judge(answer, samples, assignment.protocol) if isinstance(answer, Measured) else answer
        yield replace(judged, telemetry=tuple(sample for sample in samples if sample.t_ns > told_ns))
        told_ns = samples[-1].t_ns if samples else told_ns
