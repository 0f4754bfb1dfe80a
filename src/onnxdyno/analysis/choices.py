"""Answers drawn from a sweep: the best batch, the largest resolution, the largest sequence."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod

from onnxdyno.domain.axes import Axis, Role, axis_sizes
from onnxdyno.domain.findings import Choice, PointFinding
from onnxdyno.domain.models import Signature
from onnxdyno.domain.numbers import plain
from onnxdyno.domain.outcomes import PointState
from onnxdyno.domain.plan import BenchmarkPlan, Point

WORTH_A_LARGER_BATCH = 0.05
_NS_PER_MS = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The answers of one run."""

    best_batch: Choice
    largest_batch: Choice
    largest_resolution: Choice
    largest_sequence: Choice


def choose(points: tuple[PointFinding, ...], signature: Signature, plan: BenchmarkPlan) -> Choices:
    """Answer from the points of the base's variant; an axis that a question does not vary stays at the base's size."""
    target_ns = target_of(plan)
    return Choices(
        best_batch=_best_batch(points, signature, plan, target_ns),
        largest_batch=_largest_batch(points, signature, plan, target_ns),
        largest_resolution=_largest_resolution(points, signature, plan, target_ns),
        largest_sequence=_largest_sequence(points, signature, plan, target_ns),
    )


def target_of(plan: BenchmarkPlan) -> float | None:
    """The spec's latency target in nanoseconds."""
    target_ms = plan.spec.latency_target_ms
    return None if target_ms is None else target_ms * _NS_PER_MS


def meets(point: PointFinding, target_ns: float) -> bool:
    """Whether p50 is shown to be within the target: the upper end of its interval is; without an interval it is not."""
    high_ns = point.p50_ns.high
    return point.state.is_measured and high_ns is not None and high_ns <= target_ns


def _best_batch(
    points: tuple[PointFinding, ...], signature: Signature, plan: BenchmarkPlan, target_ns: float | None
) -> Choice:
    names = plan.batch_axes or tuple(axis.name for axis in _dynamic(signature.axes_of(Role.BATCH)))
    if not names:
        return _none(_without_axis(signature.axes_of(Role.BATCH), "batch axis"))
    swept = _swept(points, plan.base, names)
    ran = [point for point in swept if point.throughput_items_per_s.value is not None and point.items is not None]
    if not ran:
        return _none(_nothing_ran(swept, "throughput"))
    fitting = ran if target_ns is None else [point for point in ran if meets(point, target_ns)]
    if not fitting:
        return _none(_target_missed(ran, target_ns))
    fastest = max(fitting, key=_throughput)
    tied = [point for point in fitting if _reaches(point, fastest)]
    chosen = min(tied, key=lambda point: point.items or 0)
    reason = f"highest throughput, {_items_per_s(chosen)}{_under(target_ns)}"
    if chosen is not fastest:
        reason = (
            f"smallest batch within {WORTH_A_LARGER_BATCH:.0%} of the highest throughput, whose interval it reaches "
            f"(batch {fastest.items}, {_items_per_s(fastest)}): {_items_per_s(chosen)}{_under(target_ns)}"
        )
    return Choice(point=chosen.point, value=float(chosen.items or 0), reason=reason + _caveat(chosen))


def _largest_batch(
    points: tuple[PointFinding, ...], signature: Signature, plan: BenchmarkPlan, target_ns: float | None
) -> Choice:
    """The largest batch that fits, or that meets the target; its reason says what stopped it."""
    names = plan.batch_axes
    if not names:
        return _none(_without_axis(signature.axes_of(Role.BATCH), "batch axis"))
    return _largest(_swept(points, plan.base, names), target_ns, lambda point: _sizes(point, names[:1]), "")


def _largest_resolution(
    points: tuple[PointFinding, ...], signature: Signature, plan: BenchmarkPlan, target_ns: float | None
) -> Choice:
    axes = (*signature.axes_of(Role.HEIGHT), *signature.axes_of(Role.WIDTH))
    names = tuple(axis.name for axis in _dynamic(axes))
    if not names:
        return _none(_without_axis(axes, "height or width axis"))
    swept = _swept(points, plan.base, names)
    return _largest(swept, target_ns, lambda point: _sizes(point, names), "px")


def _largest_sequence(
    points: tuple[PointFinding, ...], signature: Signature, plan: BenchmarkPlan, target_ns: float | None
) -> Choice:
    axes = signature.axes_of(Role.SEQUENCE)
    names = tuple(axis.name for axis in _dynamic(axes))
    if not names:
        return _none(_without_axis(axes, "sequence axis"))
    swept = _swept(points, plan.base, names)
    return _largest(swept, target_ns, lambda point: _sizes(point, names[:1]), "")


def _largest(
    swept: list[PointFinding],
    target_ns: float | None,
    sizes_of: Callable[[Point], tuple[int, ...]],
    unit: str,
) -> Choice:
    """The largest product of sizes that is measured and, with a target, meets it."""

    def extent(point: PointFinding) -> int:
        return prod(sizes_of(point.point))

    def named(point: PointFinding) -> str:
        return f"{' × '.join(map(str, sizes_of(point.point)))} {unit}".strip()

    ran = [point for point in swept if point.p50_ns.value is not None]
    if not ran:
        return _none(_nothing_ran(swept, "latency"))
    fitting = ran if target_ns is None else [point for point in ran if meets(point, target_ns)]
    if not fitting:
        return _none(_target_missed(ran, target_ns))
    chosen = max(fitting, key=extent)
    larger = sorted((point for point in swept if extent(point) > extent(chosen)), key=extent)
    what = "largest that ran (no latency target is set)" if target_ns is None else f"largest{_under(target_ns)}"
    beyond = f"; the next larger, {named(larger[0])}, {_outcome(larger[0])}" if larger else "; it is the largest tried"
    return Choice(point=chosen.point, value=float(extent(chosen)), reason=f"{what}{beyond}{_caveat(chosen)}")


def _swept(points: Iterable[PointFinding], base: Point, names: tuple[str, ...]) -> list[PointFinding]:
    """Points of the base's variant that differ from it in the named axes only."""
    return [
        point
        for point in points
        if point.point.variant is base.variant
        and point.point.is_plain
        and _others(point.point, names) == _others(base, names)
    ]


def _others(point: Point, names: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    return axis_sizes({name: size for name, size in point.sizes if name not in names})


def _sizes(point: Point, names: tuple[str, ...]) -> tuple[int, ...]:
    sizes = dict(point.sizes)
    return tuple(sizes[name] for name in names if name in sizes)


def _dynamic(axes: Iterable[Axis]) -> list[Axis]:
    return [axis for axis in axes if axis.size is None]


def _throughput(point: PointFinding) -> float:
    return point.throughput_items_per_s.value or 0.0


def _items_per_s(point: PointFinding) -> str:
    return f"{plain(_throughput(point))} items/s"


def _ms(value_ns: float | None) -> str:
    return f"{plain((value_ns or 0.0) / _NS_PER_MS)} ms"


def _reaches(point: PointFinding, fastest: PointFinding) -> bool:
    """Whether the smaller batch does as well: the intervals overlap and its throughput is at most 5 % less.

    Without intervals only an equal throughput does. The 5 % keep wide intervals of few launches from giving away speed;
    it is the protocol's own measure of a gain that is worth a larger batch.
    """
    if _throughput(point) < (1 - WORTH_A_LARGER_BATCH) * _throughput(fastest):
        return False
    high, low = point.throughput_items_per_s.high, fastest.throughput_items_per_s.low
    if high is None or low is None:
        return _throughput(point) == _throughput(fastest)
    return high >= low


def _none(reason: str) -> Choice:
    return Choice(point=None, value=None, reason=reason)


def _without_axis(fixed: tuple[Axis, ...], what: str) -> str:
    sizes = " × ".join(str(axis.size) for axis in fixed if axis.size is not None)
    return f"fixed by the model at {sizes}" if sizes else f"the model has no {what}"


def _nothing_ran(swept: list[PointFinding], what: str) -> str:
    states = ", ".join(sorted({point.state.value for point in swept if not point.state.is_measured}))
    if states:
        return f"no point of the sweep has a {what} ({states})"
    reason = next((point.throughput_items_per_s.reason for point in swept if point.throughput_items_per_s.reason), None)
    return f"no point of the sweep has a {what}" + (f": {reason}" if reason else "")


def _target_missed(ran: list[PointFinding], target_ns: float | None) -> str:
    fastest = min(ran, key=lambda point: point.p50_ns.value or 0.0)
    reached = f"the fastest, {fastest.point.key}, has p50 {_ms(fastest.p50_ns.value)}"
    high_ns = fastest.p50_ns.high
    end = "and no interval" if high_ns is None else f"and an interval up to {_ms(high_ns)}"
    return f"no point is shown to meet p50 <= {_ms(target_ns)}: {reached} {end}"


def _under(target_ns: float | None) -> str:
    if target_ns is None:
        return ""
    return f" with the whole p50 interval within {_ms(target_ns)}"


def _caveat(point: PointFinding) -> str:
    return "" if point.state is PointState.OK else f" (state {point.state.value})"


def _outcome(point: PointFinding) -> str:
    if not point.state.is_measured:
        return f"is {point.state.value}"
    value_ns = point.p50_ns.value
    return "has no latency" if value_ns is None else f"has p50 {_ms(value_ns)}"
