"""Readings of the device, laid over the samples of a point: what they invalidate, what they only label.

Pure, and here rather than in the analysis, since it decides a state and what is excluded for a cause, as the timed loop
does: what the analysis gets has been judged.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from statistics import median

from onnxdyno.domain.outcomes import Cause, Flag, Measured, PointState, Skipped, SteadySpan
from onnxdyno.domain.plan import Protocol
from onnxdyno.domain.telemetry import INVALIDATING, ClockEvent, TelemetrySample, event_names
from onnxdyno.measuring.energy import gpu_energy

_EXPLAINED = ClockEvent.GPU_IDLE | ClockEvent.APPLICATIONS_CLOCKS | ClockEvent.SW_POWER_CAP
"""Where one of these is told, a low clock is as it should be."""

Time = tuple[int, int]
"""From, to, in nanoseconds of CLOCK_MONOTONIC."""


def judge(measured: Measured, samples: Sequence[TelemetrySample], protocol: Protocol) -> Measured | Skipped:
    """A point as measured and what its device said meanwhile: what may be published of it.

    `samples` are all of the process so far, in order. Without telemetry, or from a process that did not say when its
    samples were taken, nothing is judged.
    """
    if not samples or not measured.spans:
        return measured
    stranger = _came_in(measured, samples)
    if stranger is not None:
        return skip(measured, PointState.FOREIGN_TENANT, f"while it was measured, {stranger}.", ALONE)
    struck = _struck(measured, samples, protocol)
    share = sum(cause is not None for cause in struck.causes) / len(struck.causes)
    if share > protocol.excluded_share_cap:
        reason = f"{share:.0%} of the samples were taken while {struck.why}."
        return skip(measured, PointState.THROTTLED, reason, "Cool the device, or lower its load or its power limit.")
    judged = _excluded(measured, struck.causes, protocol) if share else measured
    if isinstance(judged, Skipped):
        return judged
    flags = {*judged.flags, Flag.POWER_CAPPED} if _is_power_capped(judged, samples) else judged.flags
    return replace(judged, flags=tuple(sorted(flags)), energy=gpu_energy(judged, samples, protocol))


ALONE = "Measure when nothing else uses the device: `nvidia-smi` lists its processes."


def skip(measured: Measured, state: PointState, reason: str, remedy: str) -> Skipped:
    """The same point without its numbers."""
    return Skipped(point=measured.point, launch=measured.launch, state=state, reason=reason, remedy=remedy)


def stranger_on(sample: TelemetrySample, protocol: Protocol) -> str | None:
    """Who uses a device on which nothing of ours runs, as a clause; None if nobody does, or nothing can be read."""
    foreign = [tenant for tenant in sample.tenants or () if not tenant.is_ours]
    if foreign:
        return f"{_pids(tenant.pid for tenant in foreign)} computed on the device"
    if sample.memory_used_bytes is not None and sample.memory_used_bytes > protocol.tenant_memory_bytes:
        return f"{sample.memory_used_bytes / 2**20:,.0f} MiB of the device's memory were in use"
    if sample.utilisation is not None and sample.utilisation > protocol.tenant_utilisation:
        return f"the device was {sample.utilisation:.0%} busy"
    return None


def _pids(pids: Iterable[int]) -> str:
    found = sorted(set(pids))
    return f"process{'es' if len(found) > 1 else ''} {', '.join(map(str, found))}"


def invalidating(samples: Sequence[TelemetrySample]) -> int:
    """Bits told at any of these readings that make what was measured meanwhile worthless."""
    bits = 0
    for sample in samples:
        bits |= (sample.clock_events or 0) & INVALIDATING
    return bits


def company(samples: Sequence[TelemetrySample], since_ns: int = -(2**63)) -> str | None:
    """Who computed on the device beside us after `since_ns`, as a clause; None if nobody was seen to.

    `samples` are all of the process so far.
    """
    others = _others(samples)
    seen = [pid for sample in samples if sample.t_ns > since_ns for pid in others(sample)]
    return f"{_pids(seen)} computed on the device" if seen else None


def _came_in(measured: Measured, samples: Sequence[TelemetrySample]) -> str | None:
    """The same of the steady time, with the readings around it."""
    others = _others(samples)
    times = _times(samples, lambda sample: bool(others(sample)))
    if not any(_overlaps(span, time) for span in measured.spans for time in times):
        return None
    return company(samples)


def _others(samples: Sequence[TelemetrySample]) -> Callable[[TelemetrySample], tuple[int, ...]]:
    """What tells of somebody else at a reading: ids of processes that were at no reading ours, where any was.

    In a container NVML gives ids of the host, of which none is ours. We run one process at a time, so two at once are
    one too many, and both are named.
    """
    ours = {tenant.pid for sample in samples for tenant in sample.tenants or () if tenant.is_ours}
    if ours:
        return lambda sample: tuple(tenant.pid for tenant in sample.tenants or () if tenant.pid not in ours)

    def at_once(sample: TelemetrySample) -> tuple[int, ...]:
        pids = tuple({tenant.pid for tenant in sample.tenants or ()})
        return pids if len(pids) > 1 else ()

    return at_once


@dataclass(frozen=True, slots=True, kw_only=True)
class _Struck:
    """For each steady sample the cause that makes it worthless, or None; and what the device said, as a clause."""

    causes: tuple[str | None, ...]
    why: str


def _struck(measured: Measured, samples: Sequence[TelemetrySample], protocol: Protocol) -> _Struck:
    expected_mhz = _expected_mhz(measured, samples)

    def is_throttled(sample: TelemetrySample) -> bool:
        return bool((sample.clock_events or 0) & INVALIDATING)

    def is_slow(sample: TelemetrySample) -> bool:
        if sample.sm_clock_mhz is None or expected_mhz is None or (sample.clock_events or 0) & _EXPLAINED:
            return False
        return sample.sm_clock_mhz < protocol.clock_share * expected_mhz

    causes: list[str | None] = [None] * len(measured.samples_ns)
    for cause, is_bad in ((Cause.CLOCK, is_slow), (Cause.THROTTLED, is_throttled)):
        for first, end in _slots(measured, _times(samples, is_bad)):
            causes[first:end] = [str(cause)] * (end - first)
    bits = invalidating(samples)
    said = [f"the device reported {', '.join(event_names(bits))}"] if Cause.THROTTLED in causes else []
    if Cause.CLOCK in causes:
        said.append(f"its SM clock was below {protocol.clock_share:.0%} of its median, {expected_mhz:.0f} MHz")
    return _Struck(causes=tuple(causes), why=", or ".join(said))


def _expected_mhz(measured: Measured, samples: Sequence[TelemetrySample]) -> float | None:
    """The median SM clock of the point's own steady time.

    Not the card's highest: under a power limit, or locked by its owner, a good measurement never comes near that.
    """
    clocks = [sample.sm_clock_mhz for sample in _during(measured, samples) if sample.sm_clock_mhz is not None]
    return median(clocks) if clocks else None


def _during(measured: Measured, samples: Sequence[TelemetrySample]) -> list[TelemetrySample]:
    first, last = measured.spans[0], measured.spans[-1]
    return [sample for sample in samples if first.opened_ns <= sample.t_ns <= last.opened_ns + last.wall_ns]


def _is_power_capped(measured: Measured, samples: Sequence[TelemetrySample]) -> bool:
    times = _times(samples, lambda sample: bool((sample.clock_events or 0) & ClockEvent.SW_POWER_CAP))
    return any(_overlaps(span, time) for span in measured.spans for time in times)


def _times(samples: Sequence[TelemetrySample], is_bad: Callable[[TelemetrySample], bool]) -> list[Time]:
    """When it may have been bad: from the last good reading before to the first good one after, or without end."""
    found: list[Time] = []
    at = 0
    for bad, group in groupby(samples, is_bad):
        end = at + len(list(group))
        if bad:
            before = samples[at - 1].t_ns if at else -(2**63)
            after = samples[end].t_ns if end < len(samples) else 2**63
            found.append((before, after))
        at = end
    return found


def _overlaps(span: SteadySpan, time: Time) -> bool:
    return time[0] < span.opened_ns + span.wall_ns and span.opened_ns < time[1]


def _slots(measured: Measured, times: Sequence[Time]) -> Iterable[tuple[int, int]]:
    """(first, end) of the samples that a time touches; what lay between the calls of a window is shared out evenly.

    With several calls in flight a window's samples have no order in time: all of it is touched.
    """
    for span in measured.spans:
        touching = [time for time in times if _overlaps(span, time)]
        if not touching:
            continue
        if measured.point.concurrency > 1:
            yield span.first, span.end
            continue
        ends_ns = list(accumulate(measured.samples_ns[span.first : span.end]))
        stretch = span.wall_ns / max(1, ends_ns[-1])
        ends = [span.opened_ns + end_ns * stretch for end_ns in ends_ns]
        starts = [float(span.opened_ns), *ends[:-1]]
        for begin_ns, end_ns in touching:
            yield span.first + bisect_right(ends, begin_ns), span.first + bisect_left(starts, end_ns)


def _excluded(measured: Measured, struck: Sequence[str | None], protocol: Protocol) -> Measured | Skipped:
    """The point without what was struck; what was excluded before stays so, for the cause it had."""
    causes = list(struck)
    for first, end, cause in measured.excluded:
        causes[first:end] = [cause] * (end - first)
    share = sum(cause is not None for cause in causes) / len(causes)
    if share == 1:
        reason = "no sample is left that was neither throttled nor kept from running."
        return skip(measured, PointState.THROTTLED, reason, "Run it on an idle machine with a cool device.")
    excluded = tuple(_runs(causes))
    kept = [_kept(measured, span, causes) for span in measured.spans]
    judged = replace(
        measured,
        excluded=excluded,
        busy_ns=round(sum(wall_ns for wall_ns, _ in kept)),
        runs=sum(runs for _, runs in kept),
    )
    if share <= protocol.excluded_share_cap or measured.state is PointState.DISTURBED:
        return judged
    reason = f"{share:.0%} of the samples are left out: throttled, or kept from running by other processes."
    return replace(judged, state=PointState.DISTURBED, reason=reason)


def _runs(causes: Sequence[str | None]) -> Iterable[tuple[int, int, str]]:
    at = 0
    for cause, group in groupby(causes):
        end = at + len(list(group))
        if cause is not None:
            yield at, end, cause
        at = end


def _kept(measured: Measured, span: SteadySpan, causes: Sequence[str | None]) -> tuple[float, int]:
    """Wall time and number of a window's samples that count; the time between calls goes with them in proportion."""
    slots = range(span.first, span.end)
    kept = [slot for slot in slots if causes[slot] is None]
    whole_ns = sum(measured.samples_ns[span.first : span.end])
    kept_ns = sum(measured.samples_ns[slot] for slot in kept)
    return span.wall_ns * kept_ns / max(1, whole_ns), len(kept)
