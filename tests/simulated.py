"""Samples whose truth is known: launches at their own levels, noise that is skewed, correlated, slow or in bursts.

One call of launch i takes `LEVEL_NS × (1 + spread G_i) × (1 + excess × exp(z_t)) × slow_t × burst_t`, where

- G_i is standard normal: launches of one model differ by 1 % (`spread`);
- z_t is standard normal, first-order autoregressive with `rho` within a launch: a floor with a skewed tail on it;
- slow_t is a sine of ± `drift` over 500 calls, at a phase of its own in each launch;
- burst_t is 1 + `burst` for runs of calls of mean length 5, one in every 100 calls on average, else 1.

Truth of the q-quantile: a launch that ran for ever would have a q-quantile of its own; the truth is the median over
launches of these, which is the q-quantile at G = 0, a typical launch. For the median this equals the mean over launches
too, since G is symmetric. The q-quantile over launches and time *together* (`mixed`) is another number: it is farther
out by what launches differ, and 3 or 5 launches cannot tell how much they differ; it is never what is published.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

import factories as make
from onnxdyno.analysis.latency import point_finding
from onnxdyno.domain.findings import PointFinding
from onnxdyno.domain.plan import Protocol
from onnxdyno.launching.launches import half_width
from onnxdyno.measuring.timing import Conditions, Timed, time_point
from onnxdyno.ports import Sighting

Values = NDArray[np.float64]

LEVEL_NS = 5_000_000
LAUNCH_SPREAD = 0.01
PERIOD = 500
BURST_EVERY, BURST_LENGTH = 95, 5
MOST_CALLS = 2_000
INTERRUPTS = 0.005
"""Of a core's time, that the kernel takes on a quiet machine."""
POINT = make.point(batch=1)
PLAN = make.plan((POINT,))
ASKED = PLAN.spec.launches
"""Launches that are made whatever they show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """How samples vary within a launch. Everything relative to the level of the launch."""

    name: str
    excess: float = 0.01
    rho: float = 0.0
    drift: float = 0.0
    burst: float = 0.0
    spread: float = LAUNCH_SPREAD

    def samples_ns(self, rng: np.random.Generator, *, runs: int, launches: int, n: int) -> NDArray[np.int64]:
        """Whole nanoseconds, shape (runs, launches, n): `launches` launches of `n` calls in each of `runs` runs."""
        shape = (runs, launches, n)
        level = LEVEL_NS * (1 + self.spread * rng.standard_normal((runs, launches, 1)))
        phase = rng.random((runs, launches, 1))
        slow = 1 + self.drift * np.sin(2 * np.pi * (np.arange(n) / PERIOD + phase))
        bursts = 1 + self.burst * _bursts(rng, shape) if self.burst else 1.0
        return np.rint(level * (1 + self.excess * np.exp(self._noise(rng, shape))) * slow * bursts).astype(np.int64)

    def truth_ns(self, q: float) -> float:
        """The q-quantile of a typical launch that runs for ever."""
        return float(np.quantile(self._many(), q)) * LEVEL_NS

    def mixed_ns(self, q: float) -> float:
        """The q-quantile over all launches and all time."""
        many = self._many()
        levels = 1 + self.spread * np.random.default_rng(1).standard_normal(many.size)
        return float(np.quantile(many * levels, q)) * LEVEL_NS

    def _many(self) -> Values:
        """Two million independent calls at G = 0: quantiles within 0.01 % (p50), 0.1 % (p99) of the truth."""
        rng = np.random.default_rng(0)
        size = 2_000_000
        slow = 1 + self.drift * np.sin(2 * np.pi * rng.random(size))
        share = BURST_LENGTH / (BURST_EVERY + BURST_LENGTH)
        bursts = 1 + self.burst * (rng.random(size) < share)
        return np.asarray((1 + self.excess * np.exp(rng.standard_normal(size))) * slow * bursts)

    def _noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Values:
        noise = rng.standard_normal(shape)
        fresh = math.sqrt(1 - self.rho**2)
        for at in range(1, shape[-1] if self.rho else 1):
            noise[..., at] = self.rho * noise[..., at - 1] + fresh * noise[..., at]
        return noise


def _bursts(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Whether a call is in a burst: a chain of two states, begun where it stays."""
    draws = rng.random(shape)
    is_on = draws < BURST_LENGTH / (BURST_EVERY + BURST_LENGTH)
    for at in range(1, shape[-1]):
        is_on[..., at] = np.where(
            is_on[..., at - 1], draws[..., at] > 1 / BURST_LENGTH, draws[..., at] < 1 / BURST_EVERY
        )
    return is_on


QUIET = Machine(name="independent noise")
CORRELATED = Machine(name="correlated noise, rho 0.5", rho=0.5)
STICKY = Machine(name="correlated noise, rho 0.9", rho=0.9)
DRIFTING = Machine(name="slow drift of ±1 %", drift=0.01)
BURSTING = Machine(name="bursts of +10 %", burst=0.1)
WIDE = Machine(name="wide noise, rho 0.5", excess=0.15, rho=0.5)
CLEAN = (QUIET, CORRELATED, STICKY, DRIFTING, BURSTING)
"""Without neighbours, and with noise that some seconds can average out: nothing is wrong with runs on these."""
MACHINES = (QUIET, CORRELATED, STICKY, DRIFTING, BURSTING, WIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How many of `runs` published intervals held the truth, and how many runs published none."""

    hits: int
    published: int
    runs: int
    half_widths: tuple[float, ...]
    """Of each published interval, relative to the truth."""

    @property
    def share(self) -> float:
        """Of the published intervals."""
        return self.hits / self.published if self.published else math.nan

    @property
    def standard_error(self) -> float:
        """Of `share`, binomial, at the 95 % that is claimed."""
        return math.sqrt(0.95 * 0.05 / self.published) if self.published else math.nan


def coverage(intervals: list[tuple[float, float] | None], truth: float) -> Coverage:
    """Count the intervals that hold `truth`."""
    published = [each for each in intervals if each is not None]
    return Coverage(
        hits=sum(low <= truth <= high for low, high in published),
        published=len(published),
        runs=len(intervals),
        half_widths=tuple((high - low) / 2 / truth for low, high in published),
    )


Runs = Sequence[Sequence[Sequence[int]]]


def published(runs: Runs | NDArray[np.int64], asked: int | None = None) -> list[PointFinding]:
    """What the real analysis publishes of each run: runs of launches of samples, of which `asked` (None: all) were
    made whatever they showed."""
    return [_finding(run, asked or len(run)) for run in (runs.tolist() if isinstance(runs, np.ndarray) else runs)]


def _finding(run: Sequence[Sequence[int]], asked: int) -> PointFinding:
    measured = [make.measured(POINT, tuple(samples), launch=at) for at, samples in enumerate(run, start=1)]
    plan = replace(PLAN, spec=replace(PLAN.spec, launches=asked))
    return point_finding(POINT, measured=measured, skipped=(), memory=None, plan=plan, reference=())


def stopped_runs(machine: Machine, rng: np.random.Generator, *, runs: int, n: int) -> Runs:
    """Launches as they are really made: those of the spec, then further ones while the interval is still wide."""
    calls_ns = machine.samples_ns(rng, runs=runs, launches=PLAN.protocol.most_launches, n=n)
    return [run[: _made(medians)].tolist() for run, medians in zip(calls_ns, np.median(calls_ns, axis=2), strict=True)]


def _made(medians: Values) -> int:
    """How many launches are made of those that would have had these medians."""
    for count in range(ASKED, len(medians)):
        if half_width(medians[:count].tolist(), PLAN.confidence_of(count)) <= PLAN.protocol.published_half_width:
            return count
    return len(medians)


def timed_runs(machine: Machine, rng: np.random.Generator, *, runs: int, launches: int) -> Runs:
    """Steady samples as the real loop takes them: it ends its warm-up and stops by what it sees."""
    return [[launch.samples_ns for launch in run] for run in timed_launches(machine, rng, runs=runs, launches=launches)]


def timed_launches(machine: Machine, rng: np.random.Generator, *, runs: int, launches: int) -> list[list[Timed]]:
    """What the real loop makes of each launch of each run."""
    calls_ns = machine.samples_ns(rng, runs=runs, launches=launches, n=MOST_CALLS)
    return [[_timed(launch.tolist(), launches) for launch in run] for run in calls_ns]


def _timed(calls_ns: list[int], launches: int) -> Timed:
    """One launch, on a clock that only the simulated calls advance."""
    costs_ns = iter(calls_ns)
    now_ns = [0]

    def call() -> None:
        now_ns[0] += next(costs_ns)

    how = Conditions(
        clock=lambda: now_ns[0],
        witness=lambda: Sighting(cpu_ns=round(now_ns[0] * (1 - INTERRUPTS))),
        protocol=Protocol(),
        launches=launches,
        threads=1,
        budget_ns=MOST_CALLS * LEVEL_NS * 9 // 10,
    )
    return time_point([call], how)
