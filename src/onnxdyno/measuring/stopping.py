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
    """Why sampling may stop: the state the samples deserve, and the reason where it is not `ok`.

    `is_short`: precise enough, but fewer runs or less time than this launch's share of what all launches need.
    """

    state: PointState
    reason: str | None = None
    is_short: bool = False


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

    def verdict(self, samples_ns: array[int], *, now_ns: int, is_full: bool) -> Verdict | None:
        """None = go on. `samples_ns` are all steady samples so far, `now_ns` the clock that `deadline_ns` is on.

        `is_full`: no more samples can be kept, warm-up windows having taken their part of the buffer.
        """
        half_width = self._absorb(samples_ns)
        least = math.ceil(self.protocol.least_samples / self.launches)
        is_long = sum(samples_ns) >= self.protocol.least_time_ns / self.launches
        if half_width is not None and is_long and len(samples_ns) >= least:
            if half_width <= self.protocol.half_width_target:
                return Verdict(state=PointState.OK)
            if self._has_stopped_improving():
                reason = f"the noise stopped improving at ±{half_width:.1%} after {_runs(samples_ns)}."
                return Verdict(state=PointState.NOISY, reason=reason)
        if is_full:
            return self._cut("the sample buffer is full", samples_ns, half_width)
        if now_ns >= self.deadline_ns:
            return self._cut("time budget used", samples_ns, half_width)
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

    def _cut(self, what: str, samples_ns: array[int], half_width: float | None) -> Verdict:
        if half_width is None:
            reached = "no interval in this launch"
        elif half_width <= self.protocol.half_width_target:
            reached = "fewer runs or less time in all than the protocol asks for"
        else:
            reached = f"±{half_width:.1%} in this launch"
        return Verdict(
            state=PointState.UNCONVERGED,
            reason=f"{what} after {_runs(samples_ns)}: {reached}.",
            is_short=half_width is not None and half_width <= self.protocol.half_width_target,
        )

    def _has_stopped_improving(self) -> bool:
        """Nvbench's second exit: the last 64 estimates of the noise spread by less than 5 % of their mean."""
        is_full = len(self._noise) == self._noise.maxlen
        return is_full and pstdev(self._noise) < self.protocol.noise_spread * fmean(self._noise)


def _runs(samples_ns: array[int]) -> str:
    return f"{len(samples_ns)} run{'s' if len(samples_ns) > 1 else ''}"
