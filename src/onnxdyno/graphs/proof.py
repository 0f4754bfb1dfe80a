"""The proof that a rebatched copy computes what its original does, item by item. It is made to be able to fail.

The original runs on several random items; they must give different outputs, else nothing would be shown (weights that
are all one constant make every item equal: then both models get the same seeded random weights). The copy runs on all
of them as one batch; each item of each output must equal the original's.
"""

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnxdyno.domain.axes import AxisSizes, Role
from onnxdyno.domain.errors import PointError, RebatchRefused
from onnxdyno.domain.models import InputRecipe, Signature
from onnxdyno.domain.text import printable
from onnxdyno.graphs.materialise import materialise
from onnxdyno.graphs.reading import external_files
from onnxdyno.graphs.rebatch import Rebatched
from onnxdyno.graphs.scrambling import scramble
from onnxdyno.graphs.signature import read_signature

Feeds = Mapping[str, Any]
Run = Callable[[Path, Feeds], Sequence[tuple[str, Any]]]
"""Load the model in a fresh session, run it once, return (name, value) of each output; raises as the runtime does."""

ITEMS = 3
LEAST_DIFFERENCE = 1e-4
"""Of the largest value: items whose outputs are closer than this do not differ."""
MOST_ERROR = 1e-3
"""Of the largest value: what other kernels for another batch may round differently."""
MOST_SHARE = 0.05
"""Of the difference between items: an error beyond it could hide a mix-up of items."""
GAINS = (0.3, 1.0, 0.1)
"""Of random weights, in turn until the items differ: a Softmax hides differences when it saturates (seen with 1.0 on
ResNet-50 and ShuffleNet), and so does a deep network that fades."""

_USUAL = {Role.HEIGHT: 224, Role.WIDTH: 224, Role.CHANNELS: 3, Role.SEQUENCE: 16, Role.PAST: 16, Role.TIME: 512}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What was shown. `weights`: the model's `own`, or `seeded random`; `worst_error` relative to the largest value."""

    items: int
    weights: str
    worst_error: float


def prove(made: Rebatched, *, run: Run, seed: int = 0, sizes: AxisSizes = ()) -> Proof:
    """Compare a copy with its original on `ITEMS` random items.

    `sizes` are those of the original's dynamic axes; usual ones where none are given.

    Raises `RebatchRefused`: outputs that differ, that do not grow with the batch, that no random input tells apart, or
    a copy that the runtime refuses. The copy must then not be used.
    """
    signature = read_signature(made.original)
    recipes = signature.recipes
    usual = {axis.name: _USUAL.get(axis.role, 1) for axis in signature.axes if axis.size is None}
    at = {**usual, **dict(sizes), **dict.fromkeys(_batch_axes(signature, made), made.was)}
    feeds = [
        {r.name: _value(r, tuple(sorted(at.items())), seed, i if _is_item(r, made) else 0) for r in recipes}
        for i in range(ITEMS)
    ]
    pair = (made.original, made.path)
    singles = _run_items(run, pair[0], feeds)
    if _differ(singles):
        return _compare(run, pair, singles, _joined(feeds, made), "own")
    with tempfile.TemporaryDirectory(dir=made.path.parent, prefix=".rebatch-") as folder:
        for gain in GAINS:
            twins = _twins(pair, Path(folder) / str(gain), seed, gain)
            singles = _run_items(run, twins[0], feeds)
            if _differ(singles):
                return _compare(run, twins, singles, _joined(feeds, made), "seeded random")
    raise _refused("its outputs are the same for different inputs, so that nothing can be shown")


def _batch_axes(signature: Signature, made: Rebatched) -> tuple[str, ...]:
    """Axes of the original that are its batch, if it is declared dynamic there."""
    places = set(made.places)
    return tuple(
        name
        for value in signature.inputs
        for at, dim in enumerate(value.dims or ())
        if (value.name, at) in places
        for name in dim.axes
    )


def _is_item(recipe: InputRecipe, made: Rebatched) -> bool:
    return any(name == recipe.name for name, _ in made.places)


def _value(recipe: InputRecipe, sizes: AxisSizes, seed: int, item: int) -> Any:
    """Noise of another seed and, since deep networks see all noise alike, of another strength for every item."""
    try:
        value = materialise(recipe, sizes, seed + item)
    except PointError as error:
        raise _refused(f"no input can be made: {error.reason}") from error
    return value * value.dtype.type(2**item) if recipe.rule == "normal" and isinstance(value, np.ndarray) else value


def _joined(feeds: Sequence[Feeds], made: Rebatched) -> Feeds:
    """One batch of all items; inputs without a batch are the same for every item."""
    places = dict(made.places)
    return {
        name: value if name not in places else np.concatenate([each[name] for each in feeds], axis=places[name])
        for name, value in feeds[0].items()
    }


def _run_items(run: Run, path: Path, feeds: Sequence[Feeds]) -> list[list[tuple[str, Any]]]:
    return [_run(run, path, each, "the original") for each in feeds]


def _run(run: Run, path: Path, feeds: Feeds, who: str) -> list[tuple[str, Any]]:
    try:
        return list(run(path, {name: value for name, value in feeds.items() if value is not None}))
    except Exception as error:  # a port: the runtime's exceptions have no common base class
        raise _refused(f"{who} fails: {printable(' '.join(str(error).split()), 200)}") from error


def _differ(singles: Sequence[Sequence[tuple[str, Any]]]) -> bool:
    """Whether some output tells every two items apart."""
    return any(
        all(_gap(values[i], values[j]) > LEAST_DIFFERENCE for i in range(ITEMS) for j in range(i))
        for values in zip(*([value for _, value in each] for each in singles), strict=True)
    )


def _gap(one: Any, other: Any) -> float:
    """Largest difference over largest value; 1 for values that cannot be subtracted or whose shapes differ."""
    if not isinstance(one, np.ndarray) or one.dtype.kind not in "fiub" or one.shape != other.shape:
        same = bool(np.array_equal(one, other)) if isinstance(one, np.ndarray) else one == other
        return 0.0 if same else 1.0
    if one.size == 0:
        return 0.0
    a, b = one.astype(np.float64), other.astype(np.float64)
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return 0.0 if np.array_equal(a, b, equal_nan=True) else 1.0
    return float(np.abs(a - b).max() / max(np.abs(a).max(), np.abs(b).max(), 1e-30))


def _compare(
    run: Run, pair: tuple[Path, Path], singles: Sequence[Sequence[tuple[str, Any]]], batch: Feeds, weights: str
) -> Proof:
    together = _run(run, pair[1], batch, "the copy")
    worst, grows = 0.0, False
    for position, (name, whole) in enumerate(together):
        items = [each[position][1] for each in singles]
        parts = _parts(name, whole, items)
        grows = grows or parts is not None
        for item, part in zip(items, [whole] * ITEMS if parts is None else parts, strict=True):
            error, apart = _gap(item, part), max(_gap(item, other) for other in items)
            is_whole = isinstance(item, np.ndarray) and item.dtype.kind in "iub"
            if error > (0 if is_whole else MOST_ERROR) or (apart > LEAST_DIFFERENCE and error > MOST_SHARE * apart):
                raise _refused(f"output '{printable(name)}' of an item differs from the original's by {error:.1%}")
            worst = max(worst, error)
    if not grows:
        raise _refused("no output grows with the batch")
    return Proof(items=ITEMS, weights=weights, worst_error=worst)


def _parts(name: str, whole: Any, items: Sequence[Any]) -> list[Any] | None:
    """The items of a batched output; None if the output has no batch and is the same for every item."""
    first = items[0]
    if not isinstance(whole, np.ndarray) or not isinstance(first, np.ndarray):
        raise _refused(f"output '{printable(name)}' is no tensor")
    grown = [i for i, (a, b) in enumerate(zip(whole.shape, first.shape, strict=False)) if a != b]
    if whole.ndim == first.ndim and len(grown) == 1 and whole.shape[grown[0]] == ITEMS * first.shape[grown[0]]:
        return list(np.split(whole, ITEMS, axis=grown[0]))
    if whole.shape == first.shape and all(_gap(first, other) <= LEAST_DIFFERENCE for other in items):
        return None
    raise _refused(
        f"output '{printable(name)}' is {list(whole.shape)} for {ITEMS} times {list(first.shape)}: not one per item"
    )


def _twins(pair: tuple[Path, Path], folder: Path, seed: int, gain: float) -> tuple[Path, Path]:
    """Both models with the same random weights, in a folder of their own."""
    made = []
    for name, path in zip(("original", "copy"), pair, strict=True):
        place = folder / name
        place.mkdir(parents=True)
        for file in external_files(path):
            (place / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path.parent / file, place / file)
        (place / "model.onnx").write_bytes(scramble(path, seed, gain))
        made.append(place / "model.onnx")
    return made[0], made[1]


def _refused(why: str) -> RebatchRefused:
    return RebatchRefused(f"rebatch: the copy with a dynamic batch cannot be proven equal: {why}. Leave --rebatch out.")
