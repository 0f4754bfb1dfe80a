"""What a measuring process works with, and what every pass does with it: load, try one point, say why it failed."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from onnxdyno.domain.assignments import Assignment, Began, Event, Turn
from onnxdyno.domain.cold import FileReading
from onnxdyno.domain.cost import Count
from onnxdyno.domain.errors import DeviceError, ModelError, PointError
from onnxdyno.domain.outcomes import LaunchReading, ModelState, PointState, Skipped
from onnxdyno.domain.plan import Point, Variant
from onnxdyno.domain.sessions import SessionRecipe
from onnxdyno.measuring.memory import MemoryGauge, nobody_counts
from onnxdyno.ports import ClockNs, DeviceClock, Gpu, LoadedModel, Runtime, Witness

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
    gpu: Gpu | None = None
    """None on a CPU."""
    device_clock: DeviceClock | None = None
    """Of the GPU; None on a CPU."""
    own_device_bytes: Callable[[], Count] = nobody_counts
    """What the GPU's driver counts for this process."""
    own_cgroup_peak: Callable[[], Count] = lambda: Count(value=None, reason="not looked for")
    """The most memory that the kernel counted for a cgroup that holds this process alone."""
    read_files: Callable[[Sequence[Path]], FileReading | None] = lambda _: None
    """Read files through before the model is loaded; None where they cannot be read."""


class ProcessSpent(Exception):
    """The device fails every call of this process from now on; the point where it began was told."""


def check_device(assignment: Assignment, shop: Workshop) -> None:
    """Raises `DeviceError` if this process sees another GPU than the one that it was given."""
    if shop.gpu is None:
        return
    found, given = shop.gpu.identity(), assignment.device.id
    if found.lower() != given.lower():
        raise DeviceError(f"{given}: CUDA's first device in the measuring process is {found}. Check the driver.")


def attempt(
    assignment: Assignment,
    at: int,
    shop: Workshop,
    read: Callable[[Turn], Event | None],
    spent_by: Collection[PointState] = (),
) -> bool:
    """Emit what `read` finds at one point, or why it found nothing; whether it found something.

    Raises `ProcessSpent` after a failure that lasts, or that is one of `spent_by`.
    """
    turn = assignment.turns[at]
    shop.emit(Began(turn=at))
    try:
        event = read(turn)
    except (PointError, MemoryError) as error:
        problem = error if isinstance(error, PointError) else shop.runtime.translate(error)
        shop.emit(skip(turn.point, assignment.launch, problem))
        if problem.is_lasting or problem.state in spent_by:
            raise ProcessSpent from error
        return False
    if event is not None:
        shop.emit(event)
    return event is not None


def load(assignment: Assignment, shop: Workshop, recipe: SessionRecipe | None = None) -> LoadedModel:
    """A session as the recipe says, by default the assignment's; its cold numbers are emitted."""
    file = shop.read_files([Path(path) for path in assignment.files]) if assignment.files else None
    loaded = load_quietly(assignment, shop, recipe or assignment.recipe)
    shop.emit(
        LaunchReading(
            launch=assignment.launch,
            session_ns=loaded.session_ns,
            providers=loaded.providers,
            assignment=loaded.assignment,
            runtime=(
                *shop.runtime.versions,
                *loaded.options,
                ("spinning", str(assignment.recipe.spinning).lower()),
                *shop.confined,
            ),
            file=file,
        )
    )
    return loaded


def recipe_of(assignment: Assignment, variant: Variant) -> SessionRecipe:
    """What a variant asks of its session: `graph` needs one of its own."""
    return replace(assignment.recipe, is_graph=True) if variant is Variant.GRAPH else assignment.recipe


def load_quietly(assignment: Assignment, shop: Workshop, recipe: SessionRecipe) -> LoadedModel:
    """A session, on the very GPU that was given: that is asked afterwards, so that a cold start stays one."""
    loaded = shop.runtime.load(Path(assignment.model_path), assignment.device, assignment.threads, recipe)
    check_device(assignment, shop)
    return loaded


def load_known(assignment: Assignment, shop: Workshop, recipe: SessionRecipe | None = None) -> LoadedModel:
    """As `load`, of a model that the probe could load: if memory fails now, that is no fault of the model."""
    try:
        return load(assignment, shop, recipe)
    except ModelError as error:
        if error.state is not ModelState.TOO_LARGE:
            raise
        raise PointError(PointState.OOM, error.reason, error.remedy) from error


def skip(point: Point, launch: int, error: PointError) -> Skipped:
    return Skipped(point=point, launch=launch, state=error.state, reason=error.reason, remedy=error.remedy)
