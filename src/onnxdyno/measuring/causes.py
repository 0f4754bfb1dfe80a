"""Why a window of calls may be left out: what was seen before and after it says that something held the calls back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_high

from onnxdyno.domain.outcomes import Cause
from onnxdyno.domain.plan import Protocol
from onnxdyno.ports import Brakes, Sighting

SLICE_NS = 1_000_000
"""What one involuntary context switch costs at least where only their number is known: a short slice of a neighbour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A window's wall time and what was counted before and after it."""

    wall_ns: int
    before: Sighting
    after: Sighting

    @property
    def energy_uj(self) -> int | None:
        """What a counter of energy gave meanwhile."""
        before, after = self.before.energy_uj, self.after.energy_uj
        return None if before is None or after is None else after - before

    @property
    def is_throttled(self) -> bool:
        """Whether a cgroup of the process was held back for its CPU quota meanwhile."""
        before, after = self.before.brakes, self.after.brakes
        return _rose(before.throttles, after.throttles) or _rose(before.throttled_ns, after.throttled_ns)


def kept_from_running(seen: Seen, threads: int) -> float:
    """Share of a window in which the calls were kept from running: others had the cores, or the process was stopped.

    What of the wall time is no CPU time: of the calling thread where it computes alone, else of all threads together,
    of which one computes at any time. A stopped process or one that waits for pages makes no involuntary switch. With
    several threads one may have been kept back while others ran, and the call waits for it: see `_kept_back_ns`.
    """
    if seen.wall_ns <= 0:
        return 0.0
    spent_ns = seen.after.cpu_ns - seen.before.cpu_ns
    kept_back_ns = 0.0 if threads == 1 else _kept_back_ns(seen, spent_ns, threads)
    return min(1.0, max(0.0, seen.wall_ns - spent_ns, kept_back_ns) / seen.wall_ns)


def cause_of(seen: Seen, lost: float, clocks_hz: Sequence[float], protocol: Protocol) -> Cause | None:
    """Why this window's samples are left out; None = they count. `clocks_hz`: of the point's windows up to this one."""
    if seen.is_throttled:
        return Cause.CFS_THROTTLED
    if _is_slowed(seen, clocks_hz, protocol):
        return Cause.CLOCK
    return Cause.PREEMPTED if lost > protocol.preempted_share else None


def _kept_back_ns(seen: Seen, spent_ns: int, threads: int) -> float:
    """What the thread that waited longest for a core waited; switches by number are a lower bound of it.

    Threads that wait for one another's cores are no neighbours' doing: it is at most what the cores gave to others.
    """
    before, after = seen.before, seen.after
    if before.waits_ns is None or after.waits_ns is None:
        return (after.switches - before.switches) * SLICE_NS / threads
    known = dict(before.waits_ns)
    longest_ns = max((waited_ns - known.get(thread, 0) for thread, waited_ns in after.waits_ns), default=0)
    return min(longest_ns, max(0, after.cores * seen.wall_ns - spent_ns))


def _is_slowed(seen: Seen, clocks_hz: Sequence[float], protocol: Protocol) -> bool:
    """Whether heat held the cores back, or the clock is far below its median so far or below what it should hold."""
    before, after = seen.before.brakes, seen.after.brakes
    if _rose(before.heat_events, after.heat_events):
        return True
    return after.clock_hz is not None and after.clock_hz < protocol.clock_share * _usual_hz(after, clocks_hz)


def _usual_hz(brakes: Brakes, clocks_hz: Sequence[float]) -> float:
    return max(brakes.expected_hz or 0.0, median_high(clocks_hz) if clocks_hz else 0.0)


def _rose(before: int | None, after: int | None) -> bool:
    return before is not None and after is not None and after > before
