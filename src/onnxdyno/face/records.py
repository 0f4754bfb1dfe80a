"""What a benchmark of a callable gave: every sample of every launch, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from onnxdyno.analysis.autocorrelation import n_eff
from onnxdyno.analysis.latency import ONE_LAUNCH, over_launches, tail
from onnxdyno.domain.findings import Estimate
from onnxdyno.domain.outcomes import WORST_FIRST, PointState
from onnxdyno.face.memory import Peak
from onnxdyno.face.places import UNKNOWN, Place
from onnxdyno.measuring.timing import Timed

ONE_PROCESS = "one process: what differs between processes is unknown; benchmark.using(launches=5) asks for fresh ones"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A launch that gave no latency: the state, what happened, and the samples taken before, in nanoseconds."""

    state: PointState
    reason: str
    samples_ns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """One process's part: where its calls ran, its memory, and its samples or why there are none."""

    place: Place
    ram: Peak
    vram: Peak
    timed: Timed | None
    failed: Failed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A callable's benchmark. `batch` items are processed by each call; the raw samples are kept, the rest follows."""

    label: str
    batch: int
    launches: tuple[Launched, ...]

    @property
    def state(self) -> PointState:
        """`ok`, or the worst that happened in any launch."""
        failed = self._failed()
        if failed is not None:
            return failed.state
        states = {timed.state for timed in self._timed()}
        return next(state for state in WORST_FIRST if state in states)

    @property
    def reason(self) -> str | None:
        """Why the state is not `ok`; for an exception of the target, its text."""
        failed = self._failed()
        if failed is not None:
            return failed.reason
        return next((timed.reason for timed in self._timed() if timed.state is self.state), None)

    @property
    def place(self) -> Place:
        """The device that the calls ran on, where all launches agree."""
        places = {each.place.name: each.place for each in self.launches}
        if len(places) == 1:
            return self.launches[0].place
        return Place(name=UNKNOWN, is_cuda=self.has_cuda, reason=f"launches differ: {', '.join(sorted(places))}")

    @property
    def device(self) -> str:
        """Its name: the CPU's, `cuda:0`, or `unknown`."""
        return self.place.name

    @property
    def has_cuda(self) -> bool:
        """Whether a CUDA device took part: values lay on it, or its memory was read."""
        return any(each.place.is_cuda or each.vram.value_bytes is not None for each in self.launches)

    @property
    def samples_ns(self) -> tuple[int, ...]:
        """Every steady sample in order, launch by launch; of a launch that failed, those taken before."""
        parts = [each.timed.samples_ns if each.timed else _before(each.failed) for each in self.launches]
        return tuple(sample for part in parts for sample in part)

    @property
    def n(self) -> int:
        """How many samples the figures rest on: the steady ones, less those excluded for a cause."""
        return sum(map(len, self._kept()))

    @property
    def p50_ns(self) -> Estimate:
        """Median of the launches' medians; its interval is over launches, so one launch has none."""
        return self._over_launches([median(launch) for launch in self._kept()])

    @property
    def p90_ns(self) -> Estimate:
        """Null with the reason where there are too few samples for an interval of it."""
        return self._tail(0.90)

    @property
    def p95_ns(self) -> Estimate:
        """As `p90_ns`."""
        return self._tail(0.95)

    @property
    def p99_ns(self) -> Estimate:
        """As `p90_ns`."""
        return self._tail(0.99)

    @property
    def throughput_items_per_s(self) -> Estimate:
        """Batch times calls over back-to-back wall time, the time between the readings included."""
        return self._over_launches([self.batch * timed.runs / timed.busy_ns * 1e9 for timed in self._timed()])

    @property
    def ram(self) -> Peak:
        """Peak of the process's resident memory over its baseline, in two untimed calls; the largest launch."""
        return _largest([each.ram for each in self.launches])

    @property
    def vram(self) -> Peak:
        """As `ram`, of device memory."""
        return _largest([each.vram for each in self.launches])

    def _failed(self) -> Failed | None:
        return next((each.failed for each in self.launches if each.failed is not None), None)

    def _timed(self) -> list[Timed]:
        return [each.timed for each in self.launches if each.timed is not None]

    def _kept(self) -> list[list[int]]:
        """The samples of each launch that figures rest on; no launch's where one of them failed."""
        return [] if self._failed() else [kept_samples(timed) for timed in self._timed()]

    def _over_launches(self, values: Sequence[float]) -> Estimate:
        return self._nothing() if self._failed() else _said_for_people(over_launches(values))

    def _tail(self, q: float) -> Estimate:
        kept = self._kept()
        return _said_for_people(tail(kept, q, n_eff(kept))) if kept else self._nothing()

    def _nothing(self) -> Estimate:
        return Estimate(value=None, reason=f"{self.state.value}: {self.reason}")


def kept_samples(timed: Timed) -> list[int]:
    """Steady samples without the spans that are excluded for a recorded cause."""
    kept: list[int] = []
    start = 0
    for first, end, _ in timed.excluded:
        kept += timed.samples_ns[start:first]
        start = end
    return [*kept, *timed.samples_ns[start:]]


def _said_for_people(estimate: Estimate) -> Estimate:
    """With one launch: how to have more of them here."""
    return replace(estimate, reason=ONE_PROCESS) if estimate.reason == ONE_LAUNCH else estimate


def _before(failed: Failed | None) -> tuple[int, ...]:
    return failed.samples_ns if failed is not None else ()


def _largest(peaks: Sequence[Peak]) -> Peak:
    known = [peak for peak in peaks if peak.value_bytes is not None]
    return max(known, key=lambda peak: peak.value_bytes or 0) if known else peaks[0]
