"""When enough has been sampled in one launch: a rule that is asked between windows, never inside one."""

from __future__ import annotations

import math
from array import array
from collections import deque
from dataclasses import dataclass, field
from statistics import fmean, pstdev

from onnxdyno.domain.outcomes import PointState
from onnxdyno.domain.plan import Protocol
from onnxdyno.intervals import median_half_width

NOISE_ESTIMATES = 64
NOISE_STEP = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Why sampling may stop: the state the samples deserve, and the reason where it is not `ok`."""

    state: PointState
    reason: str | None = None


@dataclass(slots=True, kw_only=True)
class StopRule:
    """The three exits of the protocol, for one launch of `launches`: precise enough, noise-stable, budget used.

    The least number of samples and the least time are for all launches together, so each takes its share.
    """

    protocol: Protocol
    launches: int
    deadline_ns: int
    _ordered: list[int] = field(default_factory=list)
    _noise: deque[float] = field(default_factory=lambda: deque(maxlen=NOISE_ESTIMATES))

    def verdict(self, samples_ns: array[int], *, now_ns: int) -> Verdict | None:
        """None = go on. `samples_ns` are all steady samples so far, `now_ns` the clock that `deadline_ns` is on."""
        half_width = self._absorb(samples_ns)
        least = math.ceil(self.protocol.least_samples / self.launches)
        is_long = sum(samples_ns) >= self.protocol.least_time_ns / self.launches
        if half_width is not None and is_long and len(samples_ns) >= least:
            if half_width <= self.protocol.half_width_target:
                return Verdict(state=PointState.OK)
            if self._has_stopped_improving():
                reason = f"the noise stopped improving at ±{half_width:.1%} after {_runs(samples_ns)}."
                return Verdict(state=PointState.NOISY, reason=reason)
        if now_ns >= self.deadline_ns or len(samples_ns) >= self.protocol.most_samples:
            return self._out_of_budget(samples_ns, half_width)
        return None

    def _absorb(self, samples_ns: array[int]) -> float | None:
        """Take in what is new, keeping an estimate of the noise every 16 samples (at most 16 a window)."""
        new = samples_ns[len(self._ordered) :]
        step = max(NOISE_STEP, -(-len(new) // NOISE_STEP))
        half_width = None
        for start in range(0, len(new), step):
            self._ordered.extend(new[start : start + step])
            self._ordered.sort()
            half_width = median_half_width(self._ordered)
            if half_width is not None:
                self._noise.append(half_width)
        return half_width if len(new) else median_half_width(self._ordered)

    def _out_of_budget(self, samples_ns: array[int], half_width: float | None) -> Verdict:
        if half_width is not None and half_width <= self.protocol.half_width_target:
            return Verdict(
                state=PointState.UNCONVERGED,
                reason=f"time budget used after {_runs(samples_ns)}: fewer than the protocol asks for.",
            )
        reached = "no interval" if half_width is None else f"±{half_width:.1%}"
        return Verdict(
            state=PointState.UNCONVERGED,
            reason=f"time budget used after {_runs(samples_ns)}: {reached} in this launch.",
        )

    def _has_stopped_improving(self) -> bool:
        """Nvbench's second exit: the last 64 estimates of the noise spread by less than 5 % of their mean."""
        return len(self._noise) == self._noise.maxlen and pstdev(self._noise) < 0.05 * fmean(self._noise)


def _runs(samples_ns: array[int]) -> str:
    return f"{len(samples_ns)} runs"
