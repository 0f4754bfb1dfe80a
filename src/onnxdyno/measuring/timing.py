"""The timed loop: warm-up to steady state, then windows until the stop rule is met. Nothing else happens in here."""

from __future__ import annotations

import gc
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from statistics import median

from onnxdyno.domain.outcomes import PointState
from onnxdyno.domain.plan import Protocol
from onnxdyno.measuring.steady import drift, is_steady
from onnxdyno.measuring.stopping import StopRule, Verdict
from onnxdyno.ports import ClockNs

Call = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """What one point of one launch gave. Times in nanoseconds; `busy_ns` is the wall time of the steady windows."""

    state: PointState
    reason: str | None
    first_run_ns: int
    warm_up_ns: tuple[int, ...]
    samples_ns: tuple[int, ...]
    busy_ns: int


def sample_window(calls: Iterator[Call], *, clock: ClockNs, samples_ns: array[int], start: int, size: int) -> int:
    """Time `size` calls back to back into `samples_ns[start:]`; returns the wall time of the whole window.

    The garbage collector is off inside and on again after.
    """
    gc.disable()
    try:
        opened_ns = clock()
        for slot, call in zip(range(start, start + size), calls, strict=False):
            began_ns = clock()
            call()
            samples_ns[slot] = clock() - began_ns
        return clock() - opened_ns
    finally:
        gc.enable()


def time_point(calls: Sequence[Call], *, clock: ClockNs, protocol: Protocol, launches: int, budget_ns: int) -> Timed:
    """Time calls that were already bound, rotating through them, within `budget_ns` of `clock`.

    At least one run warms up and at least one is a sample, whatever the budget.
    """
    began_ns = clock()
    rotation = cycle(calls)
    buffer = array("q", bytes(8 * protocol.most_samples))
    warm = _warm_up(rotation, clock=clock, protocol=protocol, deadline_ns=began_ns + budget_ns)
    stop = StopRule(protocol=protocol, launches=launches, deadline_ns=began_ns + budget_ns)
    windows = _Windows(
        rotation=rotation,
        clock=clock,
        protocol=protocol,
        buffer=buffer,
        run_ns=max(1, warm[-1]),
        deadline_ns=stop.deadline_ns,
    )
    steady_from, problem = windows.until_steady(began_ns + protocol.warm_up_cap_ns)
    verdict = windows.until(stop, steady_from)
    start = windows.starts[steady_from]
    final = problem or _drifted(buffer[start : windows.taken], protocol) or verdict
    return Timed(
        state=final.state,
        reason=final.reason,
        first_run_ns=warm[0],
        warm_up_ns=(*warm, *buffer[:start]),
        samples_ns=tuple(buffer[start : windows.taken]),
        busy_ns=sum(windows.walls_ns[steady_from:]),
    )


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
        began_ns = clock()
        next(rotation)()
        now_ns = clock()
        taken.append(now_ns - began_ns)
        is_warm = len(taken) >= protocol.warm_up_runs or now_ns - opened_ns >= protocol.warm_up_ns
        if is_warm or now_ns + taken[-1] >= deadline_ns:
            return taken


@dataclass(slots=True, kw_only=True)
class _Windows:
    """Windows taken so far, back to back in one preallocated buffer."""

    rotation: Iterator[Call]
    clock: ClockNs
    protocol: Protocol
    buffer: array[int]
    run_ns: int
    deadline_ns: int
    taken: int = 0
    starts: list[int] = field(default_factory=list)
    walls_ns: list[int] = field(default_factory=list)

    def take(self) -> None:
        """One more window, cut to what the budget and the buffer still hold, at least one run."""
        size = self._size()
        self.starts.append(self.taken)
        wall_ns = sample_window(self.rotation, clock=self.clock, samples_ns=self.buffer, start=self.taken, size=size)
        self.walls_ns.append(wall_ns)
        self.taken += size
        self.run_ns = max(1, wall_ns // size)

    def until_steady(self, cap_ns: int) -> tuple[int, Verdict | None]:
        """Take windows until two adjacent ones agree: the index of the first; else a state that says why not."""
        self.take()
        while (now_ns := self.clock()) < self.deadline_ns and self.taken < len(self.buffer):
            if now_ns >= cap_ns and len(self.starts) >= 2:
                return self._last_half(), self._not_steady()
            self.take()
            if is_steady(self._window(-2), self._window(-1), self.protocol.steady_tolerance):
                return len(self.starts) - 2, None
        return self._last_half(), self._cut_short()

    def until(self, stop: StopRule, steady_from: int) -> Verdict:
        """Take windows until the rule is met; the samples judged are those since `steady_from`."""
        start = self.starts[steady_from]
        while True:
            is_full = self.taken >= len(self.buffer)
            verdict = stop.verdict(self.buffer[start : self.taken], now_ns=self.clock(), is_full=is_full)
            if verdict is not None:
                return verdict
            self.take()

    def _size(self) -> int:
        protocol = self.protocol
        least = protocol.window_least_short_runs if self.run_ns < protocol.short_run_ns else protocol.window_least_runs
        wanted = max(least, protocol.window_ns // self.run_ns)
        affordable = max(1, (self.deadline_ns - self.clock()) // self.run_ns)
        a_tenth = max(1, len(self.buffer) // 10)
        return int(min(wanted, affordable, a_tenth, len(self.buffer) - self.taken))

    def _window(self, at: int) -> array[int]:
        ends = [*self.starts[1:], self.taken]
        return self.buffer[self.starts[at] : ends[at]]

    def _last_half(self) -> int:
        """Where windows never agreed, the later half of them counts as samples."""
        return len(self.starts) // 2

    def _not_steady(self) -> Verdict:
        before, after = median(self._window(-2)), median(self._window(-1))
        reason = (
            f"medians of {len(self.starts)} adjacent windows never agreed within "
            f"{self.protocol.steady_tolerance:.0%}; the last two differ by {abs(after - before) / max(before, 1):.1%}."
        )
        return Verdict(state=PointState.NOT_STEADY, reason=reason)

    def _cut_short(self) -> Verdict:
        runs = f"{self.taken} run{'s' if self.taken > 1 else ''}"
        what = "the sample buffer is full" if self.taken >= len(self.buffer) else "time budget used"
        return Verdict(state=PointState.UNCONVERGED, reason=f"{what} after {runs}, before a steady state showed.")
