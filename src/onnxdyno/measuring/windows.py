"""Windows of timed calls, back to back in one preallocated buffer, and which of them are left out for a cause."""

from __future__ import annotations

import gc
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median

from onnxdyno.domain.outcomes import Cause, PointState
from onnxdyno.domain.plan import Protocol
from onnxdyno.measuring.causes import Seen, cause_of, kept_from_running
from onnxdyno.measuring.steady import agree, is_steady
from onnxdyno.measuring.stopping import StopRule, Verdict
from onnxdyno.ports import ClockNs, Witness

Call = Callable[[], None]
Sample = Callable[["array[int]", int, int], tuple[int, int]]
"""Times `size` calls into the buffer from `start` on; returns when the window opened and its wall time."""


def sample_window(
    calls: Iterator[Call], *, clock: ClockNs, samples_ns: array[int], start: int, size: int
) -> tuple[int, int]:
    """Time `size` calls back to back into `samples_ns[start:]`; returns when the window opened and its wall time.

    The garbage collector is off inside and on again after.
    """
    gc.disable()
    try:
        opened_ns = clock()
        for slot, call in zip(range(start, start + size), calls, strict=False):
            began_ns = clock()
            call()
            samples_ns[slot] = clock() - began_ns
        return opened_ns, clock() - opened_ns
    finally:
        gc.enable()


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """`size` samples from `start` on, their wall time, and the share of it that the process was kept from running.

    With a `cause` its samples are left out. `quota_cores`: of the cgroup that held it back, where one did.
    """

    start: int
    size: int
    opened_ns: int
    wall_ns: int
    lost: float
    cause: Cause | None = None
    quota_cores: float | None = None
    energy_uj: int | None = None
    """Of the whole counter while it was open; None where there is none."""
    device_clock_hz: float | None = None
    """Of the GPU, right after it; None on a CPU, and where nobody can tell."""

    @property
    def end(self) -> int:
        """The slot after its last sample."""
        return self.start + self.size


@dataclass(slots=True, kw_only=True)
class Windows:
    """Windows taken so far, back to back in one preallocated buffer."""

    sample: Sample
    clock: ClockNs
    witness: Witness
    threads: int
    protocol: Protocol
    buffer: array[int]
    run_ns: int
    deadline_ns: int
    in_flight: int = 1
    taken: int = 0
    windows: list[Window] = field(default_factory=list)
    clocks_hz: list[float] = field(default_factory=list)
    moved_hz: tuple[float, float] | None = None
    """Clocks of the last two windows that agreed in all but the GPU's clock."""

    def take(self) -> None:
        """One more window, cut to what the budget and the buffer still hold, at least one run."""
        size = self._size()
        before = self.witness()
        opened_ns, wall_ns = self.sample(self.buffer, self.taken, size)
        seen = Seen(wall_ns=wall_ns, before=before, after=self.witness())
        self.windows.append(self._window_of(seen, size, opened_ns))
        self.taken += size
        self.run_ns = max(1, wall_ns // size)

    def until_steady(self, cap_ns: int) -> tuple[int, Verdict | None]:
        """Take windows until two adjacent ones agree: the index of the first; else a state that says why not."""
        self.take()
        while self._half_a_call_on_ns() < self.deadline_ns and self.taken < len(self.buffer):
            if self.clock() >= cap_ns and len(self.windows) >= 2:
                return self._last_half(), self._not_steady()
            self.take()
            if self._is_steady():
                return len(self.windows) - 2, None
        return self._last_half(), self._cut_short()

    def until(self, stop: StopRule, steady_from: int) -> Verdict:
        """Take windows until the rule is met; judged are the undisturbed samples since window `steady_from`."""
        judged = array("q")
        for window in self.windows[steady_from:]:
            self._judge(window, judged)
        while True:
            is_full = self.taken >= len(self.buffer)
            now_ns = self._half_a_call_on_ns()
            verdict = stop.verdict(judged, now_ns=now_ns, is_full=is_full)
            is_last = is_full or now_ns >= self.deadline_ns
            if verdict is not None and (
                is_last or self.disturbed_share(steady_from) <= self.protocol.excluded_share_cap
            ):
                return verdict
            self.take()
            self._judge(self.windows[-1], judged)

    def since(self, steady_from: int) -> array[int]:
        """All samples from that window on."""
        return self.buffer[self.windows[steady_from].start : self.taken]

    def has_time(self, cap_ns: int) -> bool:
        """Whether two more windows can be taken before the cap, the deadline and the end of the buffer."""
        ends_ns = self.clock() + 2 * self.protocol.window_ns
        return ends_ns < min(cap_ns, self.deadline_ns) and self.taken < len(self.buffer)

    def disturbed_share(self, steady_from: int) -> float:
        """Share of the samples since that window which are left out; while it is too large and time is left, go on."""
        steady = self.windows[steady_from:]
        return sum(each.size for each in steady if each.cause) / sum(each.size for each in steady)

    def _half_a_call_on_ns(self) -> int:
        """The clock half a call from now: a call that would end further behind the deadline than it begins before it is
        not made, so that a plan of slow points ends in time."""
        return self.clock() + self.run_ns // 2

    def _window_of(self, seen: Seen, size: int, opened_ns: int) -> Window:
        brakes = seen.after.brakes
        if brakes.clock_hz is not None:
            self.clocks_hz.append(brakes.clock_hz)
        lost = kept_from_running(seen, self.threads)
        return Window(
            start=self.taken,
            size=size,
            opened_ns=opened_ns,
            wall_ns=seen.wall_ns,
            lost=lost,
            cause=cause_of(seen, lost, self.clocks_hz, self.protocol),
            quota_cores=brakes.quota_cores,
            energy_uj=seen.energy_uj,
            device_clock_hz=seen.after.device_clock_hz,
        )

    def _is_steady(self) -> bool:
        """Whether the last two windows agree, and on a GPU at one clock: where that is not read, it is not asked."""
        if not is_steady(self._window(-2), self._window(-1), self.protocol.steady_tolerance):
            return False
        before_hz, after_hz = self.windows[-2].device_clock_hz, self.windows[-1].device_clock_hz
        if before_hz is None or after_hz is None:
            return True
        if agree(before_hz, after_hz, self.protocol.steady_clock_tolerance):
            return True
        self.moved_hz = before_hz, after_hz
        return False

    def _judge(self, window: Window, judged: array[int]) -> None:
        if window.cause is None:
            judged.extend(self.buffer[window.start : window.end])

    def _size(self) -> int:
        protocol = self.protocol
        least = protocol.window_least_short_runs if self.run_ns < protocol.short_run_ns else protocol.window_least_runs
        wanted = max(least * self.in_flight, protocol.window_ns // self.run_ns)
        affordable = max(1, (self.deadline_ns - self.clock()) // self.run_ns)
        a_tenth = max(1, len(self.buffer) // 10)
        return int(min(wanted, affordable, a_tenth, len(self.buffer) - self.taken))

    def _window(self, at: int) -> array[int]:
        window = self.windows[at]
        return self.buffer[window.start : window.end]

    def _last_half(self) -> int:
        """Where windows never agreed, the later half of them counts as samples."""
        return len(self.windows) // 2

    def _not_steady(self) -> Verdict:
        if self.moved_hz is not None:
            return Verdict(state=PointState.NOT_STEADY, reason=_moved(*self.moved_hz, self.protocol))
        before, after = median(self._window(-2)), median(self._window(-1))
        reason = (
            f"medians of {len(self.windows)} adjacent windows never agreed within "
            f"{self.protocol.steady_tolerance:.0%}; the last two differ by {abs(after - before) / max(before, 1):.1%}."
        )
        return Verdict(state=PointState.NOT_STEADY, reason=reason)

    def _cut_short(self) -> Verdict:
        runs = f"{self.taken} run{'s' if self.taken > 1 else ''}"
        what = "the sample buffer is full" if self.taken >= len(self.buffer) else "time budget used"
        return Verdict(state=PointState.UNCONVERGED, reason=f"{what} after {runs}, before a steady state showed.")


def _moved(before_hz: float, after_hz: float, protocol: Protocol) -> str:
    most = f"{protocol.steady_clock_tolerance:.0%}"
    return (
        f"where adjacent windows agreed, the GPU's SM clock had moved by more than {most} "
        f"between them, last from {before_hz / 1e6:,.0f} to {after_hz / 1e6:,.0f} MHz: let the GPU warm up before, or "
        "hold its clock (nvidia-smi --lock-gpu-clocks)."
    )
