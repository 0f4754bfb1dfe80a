"""What a measuring process works with, and what every pass does with it: load, try one point, say why it failed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from onnxdyno.domain.assignments import Assignment, Began, Event, Turn
from onnxdyno.domain.cold import FileReading
from onnxdyno.domain.errors import ModelError, PointError
from onnxdyno.domain.outcomes import LaunchReading, ModelState, PointState, Skipped
from onnxdyno.domain.plan import Point
from onnxdyno.domain.sessions import AS_USERS_GET_IT, SessionRecipe
from onnxdyno.measuring.memory import MemoryGauge
from onnxdyno.ports import ClockNs, LoadedModel, Runtime, Witness

Emit = Callable[[Event], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What a measuring process works with."""

    runtime: Runtime
    gauge: MemoryGauge
    clock: ClockNs
    witness_of: Callable[[int], Witness]
    """The witness of work that so many threads do: one is the calling thread itself."""
    emit: Emit
    scratch: Path
    no_energy: str | None = "no counter was asked for"
    """Why its witness reads no energy; None = it does."""
    confined: tuple[tuple[str, str], ...] = ()
    """(what, how): what this process has given up before a model is loaded."""
    read_files: Callable[[Sequence[Path]], FileReading | None] = lambda _: None
    """Read files through before the model is loaded; None where they cannot be read."""


def attempt(assignment: Assignment, at: int, shop: Workshop, read: Callable[[Turn], Event | None]) -> bool:
    """Emit what `read` finds at one point, or why it found nothing; whether it found something."""
    turn = assignment.turns[at]
    shop.emit(Began(turn=at))
    try:
        event = read(turn)
    except (PointError, MemoryError) as error:
        problem = error if isinstance(error, PointError) else shop.runtime.translate(error)
        shop.emit(skip(turn.point, assignment.launch, problem))
        return False
    if event is not None:
        shop.emit(event)
    return event is not None


def load(assignment: Assignment, shop: Workshop, recipe: SessionRecipe = AS_USERS_GET_IT) -> LoadedModel:
    file = shop.read_files([Path(path) for path in assignment.files]) if assignment.files else None
    loaded = shop.runtime.load(Path(assignment.model_path), assignment.device, assignment.threads, recipe)
    shop.emit(
        LaunchReading(
            launch=assignment.launch,
            session_ns=loaded.session_ns,
            providers=loaded.providers,
            assignment=loaded.assignment,
            runtime=(*shop.runtime.versions, *loaded.options, *shop.confined),
            file=file,
        )
    )
    return loaded


def load_known(assignment: Assignment, shop: Workshop, recipe: SessionRecipe = AS_USERS_GET_IT) -> LoadedModel:
    """As `load`, of a model that the probe could load: if memory fails now, that is no fault of the model."""
    try:
        return load(assignment, shop, recipe)
    except ModelError as error:
        if error.state is not ModelState.TOO_LARGE:
            raise
        raise PointError(PointState.OOM, error.reason, error.remedy) from error


def skip(point: Point, launch: int, error: PointError) -> Skipped:
    return Skipped(point=point, launch=launch, state=error.state, reason=error.reason, remedy=error.remedy)
