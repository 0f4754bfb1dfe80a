"""The least memory that the base point runs with, on request and outside the budget: bisection by real processes.

A size fits if five of five runs succeed in a fresh process. Two are looked for: of the runtime's own allocator by its
limit, and of the whole process by a memory cgroup.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from onnxdyno.domain.assignments import Pass, Turn
from onnxdyno.domain.devices import DeviceKind
from onnxdyno.domain.errors import ModelError
from onnxdyno.domain.outcomes import ArenaReading, MemoryReading, MinimumMemory, PointState, Skipped
from onnxdyno.domain.sessions import ArenaStrategy, SessionRecipe
from onnxdyno.launching.driving import Answer, Limits, drive
from onnxdyno.launching.passes import Passes

PRECISION = 0.02
_DOUBLINGS = 3
"""How far above what was seen a limit is looked for that fits."""
_SILENCE_S = 60.0
"""What a process near its limit may take: there the kernel reads its program from disk over and over."""

Fits = Callable[[int], bool]
Found = tuple[int | None, str | None]


def find_minimum(passes: Passes, usual: MemoryReading | None) -> tuple[MinimumMemory, ...]:
    """At the base point; `usual` is its memory as users get it. None where there is no way has its reason."""
    search = _Search(passes)
    arena_bytes, arena_reason = search.arena()
    process_bytes, process_reason = search.process(usual)
    return (
        MinimumMemory(
            point=passes.plan.base,
            arena_bytes=arena_bytes,
            arena_reason=arena_reason,
            process_bytes=process_bytes,
            process_reason=process_reason,
            processes=search.processes,
        ),
    )


def least(fits: Fits, start_bytes: int) -> int | None:
    """The least limit that fits, to `PRECISION`; None if none does up to some doublings of `start_bytes`.

    What fits must fit at every larger limit too, which a caller makes sure of.
    """
    high = max(1, start_bytes)
    low = 0
    for _ in range(_DOUBLINGS):
        if fits(high):
            break
        low, high = high, 2 * high
    else:
        return None
    while high - low > max(1, round(PRECISION * high)):
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


class _Interrupted(Exception):
    """Somebody else has the device: a limit that does not fit now says nothing."""


class _Search:
    """Processes at the base point under limits, counted."""

    def __init__(self, passes: Passes) -> None:
        self._passes = passes
        self._turn = Turn(point=passes.plan.base, budget_ns=0)
        self.processes = 0

    def arena(self) -> Found:
        """Of the runtime's allocator.

        It does not keep to a limit below what it reserved for weights (seen with 1.31), so what it held counts too.
        """
        free = self._read_arena(None)
        if not isinstance(free, ArenaReading) or free.held_bytes is None:
            why = free.reason if free is not None else None
            return None, f"what the arena holds without a limit is not known: {why or 'the process said nothing'}"

        def fits(limit_bytes: int) -> bool:
            read = self._read_arena(limit_bytes)
            if isinstance(read, Skipped) and read.state is PointState.FOREIGN_TENANT:
                raise _Interrupted(f"{read.state.value}: {read.reason}")
            return isinstance(read, ArenaReading) and read.held_bytes is not None and read.held_bytes <= limit_bytes

        try:
            found = least(fits, free.held_bytes)
        except _Interrupted as interrupted:
            return None, str(interrupted)
        return found, None if found is not None else "no limit up to eight times what it held was enough"

    def process(self, usual: MemoryReading | None) -> Found:
        """Of the whole process."""
        bounds = self._passes.outside.bounds
        if self._passes.plan.device.kind is DeviceKind.CUDA:
            return None, "a GPU's memory is in no memory cgroup"
        problem = "nobody can bound a process here" if bounds is None else bounds.problem()
        if bounds is None or problem is not None:
            return None, problem
        if usual is None or usual.peak_bytes is None or usual.baseline_bytes is None:
            return None, "its usual memory, from which the search starts, is not known"
        asked = replace(self._passes.assignment(Pass.FIT, (self._turn,), 0), memory_limit_bytes=None)

        def fits(limit_bytes: int) -> bool:
            with bounds.bounded(limit_bytes) as launcher:
                self._tell("process", limit_bytes)
                return isinstance(_first(drive(launcher, asked, _PATIENCE)), ArenaReading)

        try:
            found = least(fits, usual.baseline_bytes + usual.peak_bytes)
        except OSError as error:
            return None, f"a memory cgroup could not be used: {error.strerror}"
        return found, None if found is not None else "no cgroup up to eight times its usual memory was enough"

    def _read_arena(self, limit_bytes: int | None) -> ArenaReading | Skipped | None:
        self._tell("arena", limit_bytes)
        recipe = SessionRecipe(arena=ArenaStrategy.SAME_AS_REQUESTED, arena_limit_bytes=limit_bytes)
        return _first(self._passes.answered(Pass.ARENA, (self._turn,), 0, recipe=recipe))

    def _tell(self, what: str, limit_bytes: int | None) -> None:
        self.processes += 1
        limit = "no limit" if limit_bytes is None else f"{limit_bytes / 2**20:.1f} MiB"
        self._passes.tell(f"true minimum, {what}: {limit}", step=0)


_PATIENCE = Limits(load_s=_SILENCE_S, turn_s=lambda _: _SILENCE_S)


def _first(answers: Iterator[Answer]) -> ArenaReading | Skipped | None:
    """A model that is refused under a limit was not refused without it."""
    try:
        return next((answer for answer in answers if isinstance(answer, ArenaReading | Skipped)), None)
    except ModelError:
        return None
