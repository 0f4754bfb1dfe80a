"""Which operating points are worth choosing from: those that no other beats in latency and in throughput; the knee."""

from collections.abc import Sequence
from math import isfinite

from onnxdyno.domain.axes import axis_sizes
from onnxdyno.domain.findings import Choice, Estimate, PointFinding
from onnxdyno.domain.numbers import plain
from onnxdyno.domain.plan import BenchmarkPlan, Point

LEAST_FOR_A_KNEE = 3


def operating_points(points: Sequence[PointFinding], plan: BenchmarkPlan) -> list[PointFinding]:
    """Measured points that differ from the base in batch, threads or calls in flight only, quickest first."""
    base = _others(plan.base, plan)
    found = [
        point
        for point in points
        if point.state.is_measured
        and point.point.variant is plan.base.variant
        and _others(point.point, plan) == base
        and point.p50_ns.value is not None
        and point.throughput_items_per_s.value is not None
    ]
    return sorted(found, key=lambda point: (point.p50_ns.value or 0.0, -(point.throughput_items_per_s.value or 0.0)))


def front(operating: Sequence[PointFinding]) -> tuple[Point, ...]:
    """The Pareto front: points that no other is shown to beat in both, that is, by intervals that do not touch."""
    return tuple(
        each.point for each in operating if not any(_beats(other, each) for other in operating if other is not each)
    )


def knee(operating: Sequence[PointFinding], on_front: Sequence[Point]) -> Choice:
    """Where more throughput begins to cost much latency: the point of the front farthest above its chord.

    Both ends of the front scaled to 0 and 1 (Satopaa et al. 2011, "Finding a 'Kneedle' in a Haystack").
    """
    kept = [each for each in operating if each.point in set(on_front)]
    rising = [each for at, each in enumerate(kept) if all(_rate(each) > _rate(earlier) for earlier in kept[:at])]
    if len(rising) < LEAST_FOR_A_KNEE:
        count = f"{len(rising)} point{'s' if len(rising) != 1 else ''}"
        reason = f"a knee needs {LEAST_FOR_A_KNEE} points that trade latency for throughput; {count} here do"
        return Choice(point=None, value=None, reason=reason)
    first, last = rising[0], rising[-1]
    width, height = _p50(last) - _p50(first), _rate(last) - _rate(first)

    def above(each: PointFinding) -> float:
        return (_rate(each) - _rate(first)) / height - (_p50(each) - _p50(first)) / width

    chosen = max(rising, key=above)
    reason = (
        f"{chosen.point.key}: {plain(_rate(chosen))} items/s at p50 {plain(_p50(chosen) / 1e6)} ms; farthest above the "
        f"line from {plain(_rate(first))} items/s to {plain(_rate(last))} items/s"
    )
    return Choice(point=chosen.point, value=float(chosen.items or 0), reason=reason)


def _beats(one: PointFinding, other: PointFinding) -> bool:
    faster = _above(other.p50_ns, one.p50_ns)
    more = _above(one.throughput_items_per_s, other.throughput_items_per_s)
    return faster and more


def _above(larger: Estimate, smaller: Estimate) -> bool:
    """Whether one is shown to be larger: its interval lies above the other's; without intervals by the values."""
    low = larger.low if larger.low is not None else larger.value
    high = smaller.high if smaller.high is not None else smaller.value
    return low is not None and high is not None and isfinite(low) and low > high


def _others(point: Point, plan: BenchmarkPlan) -> tuple[tuple[str, int], ...]:
    return axis_sizes({name: size for name, size in point.sizes if name not in plan.batch_axes})


def _p50(point: PointFinding) -> float:
    return point.p50_ns.value or 0.0


def _rate(point: PointFinding) -> float:
    return point.throughput_items_per_s.value or 0.0
