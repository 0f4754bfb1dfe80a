"""A model file that belongs to a person: others may write to it while it is measured, unlike to the cache's copies."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from onnxdyno.domain.errors import InfrastructureError, ModelError, UsageError
from onnxdyno.domain.models import ModelRef
from onnxdyno.domain.text import printable, storable
from onnxdyno.graphs.reading import load


def sayable(path: Path) -> Path:
    """The path. Raises `UsageError` for one that ONNX Runtime cannot be told: it takes valid UTF-8 only."""
    if storable(str(path)) != str(path):
        raise UsageError(f"{printable(str(path))}: the path is not valid UTF-8. Rename it.")
    return path


@contextmanager
def unreplaced(path: Path, ref: ModelRef, forget: Callable[[], None]) -> Iterator[None]:
    """What is measured inside is of the model `ref`, else `InfrastructureError` in place of whatever came of it.

    What was kept meanwhile is forgotten then, since nobody knows which bytes it is of.
    """
    refusal: ModelError | None = None
    try:
        yield
    except ModelError as error:
        refusal = error
    if not _is_still(path, ref):
        forget()
        raise InfrastructureError(
            f"{printable(str(path))}: the model was replaced while it was measured; nothing is published. Run it again."
        )
    if refusal is not None:
        raise refusal


def _is_still(path: Path, ref: ModelRef) -> bool:
    try:
        return load(path).ref == ref
    except (ModelError, UsageError):
        return False
