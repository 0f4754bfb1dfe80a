"""Other ways to read memory, each in a process of its own beside the usual reading: at two points, or at every one."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from onnxdyno.domain.assignments import Pass, Turn
from onnxdyno.domain.outcomes import ArenaReading, MemoryBeside, MemoryReading, Skipped
from onnxdyno.domain.plan import Point
from onnxdyno.domain.sessions import AS_USERS_GET_IT, ArenaStrategy, SessionRecipe
from onnxdyno.launching import budget
from onnxdyno.launching.passes import Passes

SAME_AS_REQUESTED = SessionRecipe(arena=ArenaStrategy.SAME_AS_REQUESTED)
NOT_ASKED = "read at the first and the largest point only; ask for all with --memory full"
ARENA_NOT_ASKED = "comes with the profile, at the first point; ask for all with --memory full"
NO_TIME = "the budget left no time for another process here; raise --budget"


def read_beside(passes: Passes, readings: Sequence[MemoryReading]) -> tuple[MemoryBeside, ...]:
    """One for each reading; what was not asked or found no time says so."""
    spec = passes.plan.spec
    no_time_at_ns = passes.deadline_ns - round(spec.budget_s * 1e9 * (1 - budget.BESIDE_SHARE))

    def has_time() -> bool:
        return passes.outside.clock() < no_time_at_ns

    points = [reading.point for reading in readings if reading.peak_bytes is not None]
    chosen = frozenset(points) if spec.memory_full else _ends(points, passes.plan.base)
    return tuple(
        _beside(passes, reading.point, is_chosen=reading.point in chosen, has_time=has_time)
        if reading.peak_bytes is not None
        else MemoryBeside(point=reading.point, same_as_requested_reason=reading.reason, arena_reason=reading.reason)
        for reading in readings
    )


def _ends(points: Sequence[Point], base: Point) -> frozenset[Point]:
    own = [point for point in points if point.variant is base.variant]
    return frozenset({base, max(own, key=budget.work)} if own else ())


def _beside(passes: Passes, point: Point, *, is_chosen: bool, has_time: Callable[[], bool]) -> MemoryBeside:
    found = MemoryBeside(point=point, same_as_requested_reason=NOT_ASKED, arena_reason=ARENA_NOT_ASKED)
    if not is_chosen:
        return found
    found = _with_strategy(passes, found, has_time)
    return _with_arena(passes, found, has_time) if passes.plan.spec.memory_full else found


def _with_strategy(passes: Passes, found: MemoryBeside, has_time: Callable[[], bool]) -> MemoryBeside:
    match _read(passes, Pass.MEMORY, found.point, SAME_AS_REQUESTED, has_time):
        case MemoryReading(peak_bytes=peak_bytes, reason=reason):
            return replace(
                found,
                same_as_requested_peak_bytes=peak_bytes,
                same_as_requested_reason=reason,
                processes=found.processes + 1,
            )
        case Skipped(state=state, reason=reason):
            return replace(found, same_as_requested_reason=f"{state.value}: {reason}")
        case _:
            return replace(found, same_as_requested_reason=NO_TIME)


def _with_arena(passes: Passes, found: MemoryBeside, has_time: Callable[[], bool]) -> MemoryBeside:
    match _read(passes, Pass.ARENA, found.point, AS_USERS_GET_IT, has_time):
        case ArenaReading() as arena:
            return replace(found, arena=arena, arena_reason=arena.reason, processes=found.processes + 1)
        case Skipped(state=state, reason=reason):
            return replace(found, arena_reason=f"{state.value}: {reason}")
        case _:
            return replace(found, arena_reason=NO_TIME)


def _read(
    passes: Passes, passed: Pass, point: Point, recipe: SessionRecipe, has_time: Callable[[], bool]
) -> MemoryReading | ArenaReading | Skipped | None:
    is_kept = passes.pieces.at(passed, 0, point, recipe) is not None
    if not is_kept and not has_time():
        return None
    passes.tell(f"{passed.value} {recipe.arena.value} {point.key}", step=0)
    for answer in passes.answered(passed, (Turn(point=point, budget_ns=0),), 0, recipe=recipe):
        if isinstance(answer, MemoryReading | ArenaReading | Skipped):
            return answer
    return None
