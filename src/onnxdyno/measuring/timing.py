"""One point of one launch: warm-up to steady state, then windows until the stop rule is met."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle

from onnxdyno.domain.outcomes import Cause, Flag, PointState, SteadySpan
from onnxdyno.domain.plan import Protocol
from onnxdyno.measuring.concurrency import lanes
from onnxdyno.measuring.steady import drift
from onnxdyno.measuring.stopping import StopRule, Verdict
from onnxdyno.measuring.windows import Call, Sample, Window, Windows, sample_window
from onnxdyno.ports import ClockNs, Witness


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """What one point of one launch gave, times in nanoseconds.

    `excluded` are spans (first, end, cause) of `samples_ns`. `busy_ns` is the wall time of the steady windows that are
    not excluded, `runs` the calls in them.
    """

    state: PointState
    reason: str | None
    first_run_ns: int
    warm_up_ns: tuple[int, ...]
    samples_ns: tuple[int, ...]
    excluded: tuple[tuple[int, int, str], ...]
    busy_ns: int
    runs: int
    spans: tuple[SteadySpan, ...] = ()
    flags: tuple[Flag, ...] = ()
    energies_uj: tuple[int | None, ...] = ()
    """Of each steady window that is not excluded; None where it was not read."""
    is_short: bool = False
    """`unconverged` only for less than this launch's share of the runs or the time that all launches need."""
    has_device_clock: bool = False
    """Whether the end of warm-up looked at a GPU's clock too: it was read after both of the windows that ended it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """How a point is timed. `budget_ns` is on `clock`; `threads` are those that the calls run on."""

    clock: ClockNs
    witness: Witness
    protocol: Protocol
    launches: int
    threads: int
    budget_ns: int
    settle: Callable[[], object] | None = None
    """Called before each call, off the clock: what `enqueue` needs, so that a call finds the device idle."""


def time_point(calls: Sequence[Call], how: Conditions, buffer: array[int] | None = None) -> Timed:
    """Time calls that were already bound, rotating through them. At least one run warms up and one is a sample.

    What a call raises comes out as it is; samples are written to `buffer`, so that who gave one still has them then.
    """
    rotation = cycle(calls) if how.settle is None else _settled(calls, how.settle)

    def sample(samples_ns: array[int], start: int, size: int) -> tuple[int, int]:
        return sample_window(rotation, clock=how.clock, samples_ns=samples_ns, start=start, size=size)

    return _time(sample, rotation, how, buffer, in_flight=1)


def time_concurrently(calls: Sequence[Sequence[Call]], how: Conditions) -> Timed:
    """As `time_point`, with one call of each sequence in flight all the time; warmed up one after the other."""
    with lanes(calls, clock=how.clock) as sample:
        warm = cycle([call for own in calls for call in own])
        return _time(sample, warm, how, None, in_flight=len(calls))


def _time(
    sample: Sample, rotation: Iterator[Call], how: Conditions, buffer: array[int] | None, *, in_flight: int
) -> Timed:
    began_ns = how.clock()
    deadline_ns = began_ns + how.budget_ns
    warm = _warm_up(rotation, clock=how.clock, protocol=how.protocol, deadline_ns=deadline_ns)
    windows = Windows(
        sample=sample,
        in_flight=in_flight,
        clock=how.clock,
        witness=how.witness,
        threads=how.threads,
        protocol=how.protocol,
        buffer=array("q", bytes(8 * how.protocol.most_samples)) if buffer is None else buffer,
        run_ns=max(1, warm[-1]),
        deadline_ns=deadline_ns,
    )
    cap_ns = began_ns + how.protocol.warm_up_cap_ns
    steady_from, problem = windows.until_steady(cap_ns)
    verdict = windows.until(_stop_rule(how, deadline_ns), steady_from)
    while problem is None and _drifted(windows.since(steady_from), how.protocol) and windows.has_time(cap_ns):
        again_from, why_not = windows.until_steady(cap_ns)  # it was not steady yet: what came before was warm-up
        if why_not is not None:
            break
        steady_from, verdict = again_from, windows.until(_stop_rule(how, deadline_ns), again_from)
    return _timed(windows, warm, steady_from, (problem, verdict), how.protocol)


def _stop_rule(how: Conditions, deadline_ns: int) -> StopRule:
    return StopRule(protocol=how.protocol, launches=how.launches, deadline_ns=deadline_ns)


def _settled(calls: Sequence[Call], settle: Callable[[], object]) -> Iterator[Call]:
    for call in cycle(calls):
        settle()
        yield call


def _timed(
    windows: Windows,
    warm: list[int],
    steady_from: int,
    found: tuple[Verdict | None, Verdict],
    protocol: Protocol,
) -> Timed:
    """Disturbed windows are left out, unless that would leave nothing: then the state says what was wrong with all."""
    steady = windows.windows[steady_from:]
    start = steady[0].start
    samples_ns = windows.since(steady_from)
    disturbed = [window for window in steady if window.cause is not None]
    kept = [window for window in steady if window.cause is None]
    problem, verdict = found
    final = (
        _disturbed(windows.disturbed_share(steady_from), disturbed, protocol)
        or problem
        or _drifted(samples_ns, protocol)
        or verdict
    )
    causes = dict.fromkeys(each.cause for each in disturbed)
    excluded = [(each.start - start, each.end - start, str(each.cause)) for each in disturbed] if kept else []
    counted = kept or steady
    return Timed(
        state=final.state,
        reason=final.reason,
        first_run_ns=warm[0],
        warm_up_ns=(*warm, *windows.buffer[:start]),
        samples_ns=tuple(samples_ns),
        excluded=tuple(excluded),
        busy_ns=sum(window.wall_ns for window in counted),
        runs=sum(window.size for window in counted),
        spans=tuple(
            SteadySpan(first=each.start - start, end=each.end - start, opened_ns=each.opened_ns, wall_ns=each.wall_ns)
            for each in steady
        ),
        flags=(Flag.CFS_THROTTLED,) if Cause.CFS_THROTTLED in causes else (),
        energies_uj=tuple(window.energy_uj for window in counted),
        is_short=final.is_short,
        has_device_clock=all(window.device_clock_hz is not None for window in steady[:2]),
    )


def _disturbed(share: float, disturbed: list[Window], protocol: Protocol) -> Verdict | None:
    """`disturbed` when more samples than the protocol's cap were taken while the calls were kept from running."""
    if share <= protocol.excluded_share_cap:
        return None
    foremost = max(Cause, key=lambda cause: sum(window.size for window in disturbed if window.cause is cause))
    return Verdict(state=PointState.DISTURBED, reason=f"{share:.0%} of the samples {_WHY[foremost](disturbed)}")


def _others(disturbed: list[Window]) -> str:
    lost = sum(window.lost * window.wall_ns for window in disturbed) / sum(window.wall_ns for window in disturbed)
    return f"were taken while other processes, or a stop, had {lost:.0%} of the cores' time: run it on an idle machine."


def _quota(disturbed: list[Window]) -> str:
    quota_cores = disturbed[-1].quota_cores
    size = "" if quota_cores is None else f" of {quota_cores:g} cores"
    return (
        f"were taken while the CPU quota{size} of the cgroup held the process back: raise the quota (cpu.max), "
        "or measure with fewer --threads than its cores."
    )


def _clock(_: list[Window]) -> str:
    return (
        "were taken while heat or a limit held the CPU's clock far below its usual: "
        "let it cool, or cap the clock for all runs."
    )


_WHY = {Cause.PREEMPTED: _others, Cause.CFS_THROTTLED: _quota, Cause.CLOCK: _clock}


def _drifted(samples_ns: array[int], protocol: Protocol) -> Verdict | None:
    """Adjacent windows may agree on a slow slope, or on a stair of it; the samples as a whole then do not."""
    change = drift(samples_ns)
    if change <= protocol.drift_tolerance:
        return None
    reason = f"adjacent windows agreed, but the median went one way by {change:.1%} while it was sampled."
    return Verdict(state=PointState.NOT_STEADY, reason=reason)


def _warm_up(rotation: Iterator[Call], *, clock: ClockNs, protocol: Protocol, deadline_ns: int) -> list[int]:
    """The first runs: 10 of them or 200 ms, whichever comes first, at least one."""
    opened_ns = clock()
    taken: list[int] = []
    while True:
        call = next(rotation)
        began_ns = clock()
        call()
        now_ns = clock()
        taken.append(now_ns - began_ns)
        is_warm = len(taken) >= protocol.warm_up_runs or now_ns - opened_ns >= protocol.warm_up_ns
        if is_warm or now_ns + taken[-1] >= deadline_ns:
            return taken
