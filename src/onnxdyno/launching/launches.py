"""The timing pass: so many fresh launches of every point, then further ones where the interval is still wide."""

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from onnxdyno.analysis.latency import kept_samples
from onnxdyno.domain.assignments import Pass, Turn
from onnxdyno.domain.outcomes import LaunchReading, Measured, Skipped
from onnxdyno.domain.plan import Point
from onnxdyno.intervals import t_interval
from onnxdyno.launching import budget
from onnxdyno.launching.memories import too_slow
from onnxdyno.launching.passes import Passes

PROFILE_RESERVE_NS = 1_000_000_000


@dataclass(slots=True, kw_only=True)
class Timings:
    """What the launches gave: cold numbers of each, and its outcome at each point."""

    readings: list[LaunchReading] = field(default_factory=list)
    outcomes: list[Measured | Skipped] = field(default_factory=list)


def time_points(passes: Passes, points: Sequence[Point]) -> tuple[Timings, tuple[Point, ...]]:
    """Every point in every launch of the spec, then the widest in more of them; and which points were timed at all."""
    fitting, left_out = _fitting(passes, points)
    found = Timings(outcomes=list(left_out))
    launches = passes.plan.spec.launches
    for launch in range(1, launches + 1):
        _launch(passes, launch, fitting, found, share=launches - launch + 1)
    for launch in range(launches + 1, passes.plan.protocol.most_launches + 1):
        wide = _worth_more(passes, fitting, found.outcomes)
        if not wide or launches < 2:
            break
        passes.total += len(wide)
        _launch(passes, launch, wide, found, share=1)
    return found, fitting


def _fitting(passes: Passes, points: Sequence[Point]) -> tuple[tuple[Point, ...], tuple[Skipped, ...]]:
    calls_ns = {point: budget.predict_ns(point, passes.calls_ns) or 1 for point in points}
    passes.calls_ns.update(calls_ns)
    first = [point for point in points if point == passes.plan.base]
    kept = budget.affordable((*first, *points), calls_ns, passes.plan.spec.launches, passes.left_ns())
    left_out = tuple(too_slow(passes, point, calls_ns[point]) for point in points if point not in kept)
    passes.total -= len(left_out) * passes.plan.spec.launches
    return tuple(point for point in points if point in kept), left_out


def _launch(passes: Passes, launch: int, points: Sequence[Point], found: Timings, *, share: int) -> None:
    """A fresh process over all points in an order of its own; one for each number of threads.

    It may take the `share`-th part of the time left. In a further one all points are alike: each needs it.
    """
    groups: dict[int | None, list[Point]] = defaultdict(list)
    for point in points:
        groups[point.threads].append(point)
    left_ns = (passes.left_ns() - _reserve_ns(passes)) // share - passes.load_ns * len(groups)
    first = passes.plan.base if launch <= passes.plan.spec.launches else None
    budgets_ns = budget.share_out(points, passes.calls_ns, left_ns, first)
    chance = random.Random(f"{passes.plan.spec.seed}/{launch}")  # noqa: S311  an order, not a secret
    for threads in chance.sample(list(groups), len(groups)):
        turns = tuple(
            Turn(point=point, budget_ns=budgets_ns[point])
            for point in chance.sample(groups[threads], len(groups[threads]))
        )
        for answer in passes.answered(Pass.TIMING, turns, launch, threads=threads):
            match answer:
                case LaunchReading():
                    found.readings.append(answer)
                case Measured() | Skipped():
                    found.outcomes.append(answer)
                    passes.tell(f"launch {_place(launch, passes.plan.spec.launches)}  {answer.point.key}", step=1)
                case _:
                    pass


def _place(launch: int, asked: int) -> str:
    """`2/3`; `3+1` for the first beyond those asked for."""
    return f"{launch}/{asked}" if launch <= asked else f"{asked}+{launch - asked}"


def _reserve_ns(passes: Passes) -> int:
    """Time for the profile."""
    if not passes.plan.spec.profile:
        return 0
    calls = 2 + passes.plan.protocol.profile_runs
    return PROFILE_RESERVE_NS + passes.load_ns + calls * passes.calls_ns.get(passes.plan.base, 0)


def _worth_more(passes: Passes, points: Sequence[Point], outcomes: Sequence[Measured | Skipped]) -> tuple[Point, ...]:
    """Points whose interval is wider than asked, the widest first, as many as one more launch has time for."""
    precision = passes.plan.spec.precision or passes.plan.protocol.published_half_width
    medians: dict[Point, list[float]] = defaultdict(list)
    for outcome in outcomes:
        if isinstance(outcome, Measured):
            medians[outcome.point].append(median(kept_samples(outcome)))
    widths = {
        point: half_width(medians[point], passes.plan.confidence_of(len(medians[point])))
        for point in points
        if len(medians[point]) > 1
    }
    wide = sorted((point for point, width in widths.items() if width > precision), key=lambda point: -widths[point])
    left_ns = passes.left_ns() - _reserve_ns(passes) - passes.load_ns
    chosen = []
    for point in wide:
        left_ns -= 2 * budget.LEAST_CALLS * passes.calls_ns[point] + budget.FURTHER_NS
        if left_ns < 0:
            break
        chosen.append(point)
    return tuple(chosen)


def half_width(medians: Sequence[float], confidence: float) -> float:
    """Relative half-width of the interval over launches; infinite where there is none."""
    interval = t_interval(medians, confidence)
    middle = median(medians)
    return (interval[1] - interval[0]) / 2 / middle if interval is not None and middle > 0 else float("inf")
