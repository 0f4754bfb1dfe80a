"""The passes beside the clock: cold, memory, profile, and the copy with a dynamic batch."""

from dataclasses import replace
from pathlib import Path

from onnxdyno.domain.assignments import Assignment, Began, Copied, NotCopied, Turn
from onnxdyno.domain.cold import ColdReading
from onnxdyno.domain.errors import RebatchRefused
from onnxdyno.domain.outcomes import MemoryReading, Profile
from onnxdyno.execution.feeds import make_feeds
from onnxdyno.execution.workshop import Workshop, attempt, load_known, recipe_of
from onnxdyno.measuring.cold import read_cold
from onnxdyno.measuring.memory import read_memory
from onnxdyno.measuring.profiling import summarise


def read_memory_at(assignment: Assignment, shop: Workshop) -> None:
    """One point only: a second one would find the memory that the first one left."""

    def read(turn: Turn) -> MemoryReading:
        feeds = make_feeds(assignment, turn.point.sizes, 0)
        return read_memory(
            turn.point,
            lambda: load_known(assignment, shop, recipe_of(assignment, turn.point.variant)).bind(
                feeds, turn.point.variant
            ),
            shop.gauge,
            shop.clock,
        )

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
