"""The passes beside the clock: cold, memory, profile, and the copy with a dynamic batch."""

from dataclasses import replace
from pathlib import Path

from onnxdyno.domain.assignments import Assignment, Began, Copied, NotCopied, Turn
from onnxdyno.domain.cold import ColdReading
from onnxdyno.domain.cost import Count
from onnxdyno.domain.errors import RebatchRefused
from onnxdyno.domain.outcomes import ArenaReading, MemoryReading, Profile
from onnxdyno.execution.feeds import make_feeds
from onnxdyno.execution.workshop import Workshop, attempt, load_known, recipe_of
from onnxdyno.measuring.cold import read_cold
from onnxdyno.measuring.memory import read_memory
from onnxdyno.measuring.profiling import summarise


def read_memory_at(assignment: Assignment, shop: Workshop) -> None:
    """One point only: a second one would find the memory that the first one left."""

    def read(turn: Turn) -> MemoryReading:
        feeds = make_feeds(assignment, turn.point.sizes, 0)
        reading = read_memory(
            turn.point,
            load=lambda: load_known(assignment, shop, recipe_of(assignment, turn.point.variant)),
            bind=lambda loaded: loaded.bind(feeds, turn.point.variant),
            gauge=shop.gauge,
            clock=shop.clock,
            by_driver=shop.own_device_bytes,
        )
        own = shop.own_cgroup_peak()
        before = assignment.device_before or Count(value=None)
        return replace(
            reading,
            cgroup_peak_bytes=own.value,
            cgroup_reason=own.reason,
            device_before_bytes=before.value,
            device_before_reason=before.reason,
        )

    attempt(assignment, 0, shop, read)


def read_arena_at(assignment: Assignment, shop: Workshop) -> None:
    """What the runtime's allocator says of itself, which only its profiler writes down."""

    def read(turn: Turn) -> ArenaReading:
        feeds = make_feeds(assignment, turn.point.sizes, 0)
        loaded = load_known(
            assignment,
            shop,
            replace(recipe_of(assignment, turn.point.variant), profile_prefix=str(shop.scratch / "arena")),
        )
        call = loaded.bind(feeds, turn.point.variant)
        for _ in range(assignment.protocol.profile_runs):
            call()
        written = loaded.end_profile()
        runs = assignment.protocol.profile_runs
        if written is None:
            return ArenaReading(point=turn.point, peak_bytes=None, held_bytes=None, runs=runs, reason="no profile")
        said = summarise(written, turn.point, keep_runs=runs)
        return ArenaReading(
            point=turn.point,
            peak_bytes=said.arena_peak_bytes,
            held_bytes=said.arena_held_bytes,
            runs=runs,
            reason=said.arena_reason,
        )

    attempt(assignment, 0, shop, read)


def fit_at(assignment: Assignment, shop: Workshop) -> None:
    """Whether the runs of a reading succeed under whatever bounds this process; nothing is written down of them."""

    def read(turn: Turn) -> ArenaReading:
        feeds = make_feeds(assignment, turn.point.sizes, 0)
        call = load_known(assignment, shop, recipe_of(assignment, turn.point.variant)).bind(feeds, turn.point.variant)
        runs = assignment.protocol.profile_runs
        for _ in range(runs):
            call()
        return ArenaReading(point=turn.point, peak_bytes=None, held_bytes=None, runs=runs, reason="no profiler was on")

    attempt(assignment, 0, shop, read)


def read_cold_at(assignment: Assignment, shop: Workshop) -> None:
    """One point only: a second one would find what the first one warmed."""

    def read(turn: Turn) -> ColdReading:
        feeds = make_feeds(assignment, turn.point.sizes, 0)
        return read_cold(
            turn.point,
            assignment.recipe.optimisation,
            assignment.launch,
            load=lambda: load_known(assignment, shop, assignment.recipe),
            bind=lambda loaded: loaded.bind(feeds, turn.point.variant),
            clock=shop.clock,
        )

    attempt(assignment, 0, shop, read)


def profile_at(assignment: Assignment, shop: Workshop) -> None:
    """One session per point, since a profile is written when its session ends."""

    def read(turn: Turn) -> Profile | None:
        recipe = replace(assignment.recipe, profile_prefix=str(shop.scratch / "profile"))
        loaded = load_known(assignment, shop, recipe)
        call = loaded.bind(make_feeds(assignment, turn.point.sizes, 0), turn.point.variant)
        for _ in range(1 + assignment.protocol.profile_runs):
            call()
        written = loaded.end_profile()
        if written is None:
            return None
        return summarise(written, turn.point, keep_runs=assignment.protocol.profile_runs)

    for at in range(len(assignment.turns)):
        attempt(assignment, at, shop, read)


def copy(assignment: Assignment, shop: Workshop) -> None:
    from onnxdyno.measuring.copying import copy_with_batch  # onnx is loaded only where models are rewritten

    shop.emit(Began(turn=0))
    try:
        how = copy_with_batch(
            Path(assignment.model_path),
            Path(assignment.copy_to or ""),
            runtime=shop.runtime,
            device=assignment.device,
            threads=assignment.threads,
            seed=assignment.seed,
        )
    except RebatchRefused as error:
        shop.emit(NotCopied(reason=str(error)))
    else:
        shop.emit(Copied(how=how))
