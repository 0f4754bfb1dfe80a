"""The memory pass: each point in a process of its own, cheapest first; also the first to show what cannot run."""

from collections.abc import Sequence

from onnxdyno.domain.assignments import Pass, Turn
from onnxdyno.domain.outcomes import MemoryReading, PointState, Skipped
from onnxdyno.domain.plan import Point
from onnxdyno.launching import budget
from onnxdyno.launching.passes import Passes


def read_memories(passes: Passes) -> tuple[tuple[MemoryReading, ...], tuple[Skipped, ...]]:
    """Readings, and the points that cannot run: those are not tried again on the clock."""
    readings: list[MemoryReading] = []
    failed: list[Skipped] = []
    no_time_at_ns = passes.deadline_ns - round(passes.plan.spec.budget_s * 1e9 * (1 - budget.MEMORY_SHARE))
    for point in passes.plan.points:
        if not point.is_plain:
            continue
        passes.tell(f"memory {point.key}", step=0)
        is_known = passes.pieces.at(Pass.MEMORY, 0, point) is not None
        hopeless = None if is_known else _hopeless(passes, point, failed)
        if hopeless is not None:
            failed.append(hopeless)
        elif readings and not is_known and passes.outside.clock() >= no_time_at_ns:
            readings.append(_no_time(point, passes.plan.spec.budget_s))
        else:
            _read(passes, point, readings, failed)
        passes.tell(f"memory {point.key}", step=1)
    return tuple(readings), tuple(failed)


def too_slow(passes: Passes, point: Point, call_ns: int) -> Skipped:
    """A point that the budget has no room for."""
    spec = passes.plan.spec
    reason = (
        f"not tried: one call is expected to take {call_ns / 1e9:.2g} s, too long for "
        f"{spec.launches} launches beside the other points in a budget of {spec.budget_s:g} s."
    )
    remedy = "Raise --budget, or ask for fewer points."
    return Skipped(point=point, launch=None, state=PointState.TIMEOUT, reason=reason, remedy=remedy)


def _read(passes: Passes, point: Point, readings: list[MemoryReading], failed: list[Skipped]) -> None:
    for answer in passes.answered(Pass.MEMORY, (Turn(point=point, budget_ns=0),), 0):
        if isinstance(answer, MemoryReading):
            readings.append(answer)
            if answer.run_ns is not None:
                passes.calls_ns[point] = answer.run_ns
        elif isinstance(answer, Skipped):
            failed.append(answer)


def _hopeless(passes: Passes, point: Point, failed: Sequence[Skipped]) -> Skipped | None:
    """Why a point is not even tried: a smaller one ran out of memory, or its least need exceeds the time left."""
    for skip in failed:
        if skip.state is PointState.OOM and _is_smaller(skip.point, point):
            reason = f"not tried: {skip.point.key} already ran out of memory."
            return Skipped(point=point, launch=None, state=PointState.OOM, reason=reason, remedy=skip.remedy)
    call_ns = budget.predict_ns(point, passes.calls_ns)
    if call_ns is None or point == passes.plan.base:  # the base is measured however little time there is
        return None
    others = (other for other in passes.plan.points if other != point)
    others_ns = [passes.calls_ns[other] for other in others if other in passes.calls_ns]
    if budget.has_room(call_ns, others_ns, passes.plan.spec.launches, passes.left_ns()):
        return None
    return too_slow(passes, point, call_ns)


def _no_time(point: Point, budget_s: float) -> MemoryReading:
    reason = f"the budget of {budget_s:g} s left no time to read memory here; raise --budget."
    return MemoryReading(point=point, baseline_bytes=None, peak_bytes=None, run_ns=None, reason=reason)


def _is_smaller(one: Point, other: Point) -> bool:
    """Whether `one` is no larger than `other` in any axis."""
    sizes = dict(other.sizes)
    return one.variant is other.variant and all(size <= sizes.get(name, 0) for name, size in one.sizes)
