"""Values for inputs: from a recipe, the sizes of a point and a seed. Only numpy: this runs in the measuring process."""

import hashlib
import zipfile
from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from onnxdyno.domain.axes import AxisSizes, Role
from onnxdyno.domain.errors import PointError
from onnxdyno.domain.models import Dim, InputRecipe
from onnxdyno.domain.outcomes import PointState
from onnxdyno.graphs.overrides import RANGES

_BLOCK = 1_048_583
"""Random values drawn per tensor before they repeat. A prime, so that the items of a batch still differ; drawing
hundreds of millions of normals would take longer than the runs they feed."""

_MOST_BYTES = 1 << 40
_SEQUENCE_LENGTH = 2
_WORDS = ("alpha", "beta", "gamma", "delta", "a longer piece of text", "x")

_Fill = Callable[[InputRecipe, tuple[int, ...], np.dtype[Any], np.random.Generator], Any]


def dim_size(dim: Dim, sizes: AxisSizes) -> int:
    """Size of one dimension at a point. Raises `PointError` (shape_error): an axis without a size, a negative sum."""
    known = dict(sizes)
    unknown = [axis for axis in (*dim.axes, *dim.negative) if axis not in known]
    if unknown:
        raise PointError(PointState.SHAPE_ERROR, f"axis {unknown[0]!r} has no size at this point.")
    total = dim.constant + sum(known[axis] for axis in dim.axes) - sum(known[axis] for axis in dim.negative)
    if total < 0:
        raise PointError(PointState.SHAPE_ERROR, f"dimension {dim.symbol!r} would be {total}.")
    return total


def materialise(recipe: InputRecipe, sizes: AxisSizes, seed: int) -> Any:
    """A valid value for one input: a numpy array, a list of arrays (sequence), or None (optional, left out).

    The same recipe, sizes and seed give the same value; another seed or another input name gives another one. Floats
    are finite. Raises `PointError`: shape_error, unsupported (no numpy value exists), oom (it does not fit in memory).
    """
    if recipe.kind == "optional":
        return None
    if recipe.kind not in ("tensor", "sequence"):
        raise PointError(PointState.UNSUPPORTED, f"input {recipe.name!r} is a {recipe.kind}: no rule makes one.")
    shape = tuple(dim_size(dim, sizes) for dim in recipe.dims)
    dtype = _numpy_dtype(recipe)
    if prod(shape) * dtype.itemsize > _MOST_BYTES:
        raise _does_not_fit(recipe, shape)
    rng = np.random.default_rng(
        [seed % 2**64, int.from_bytes(hashlib.sha256(recipe.name.encode("utf-8", "replace")).digest()[:8])]
    )
    made = replace(recipe, low=recipe.low + dim_size(Dim(role=Role.OTHER, axes=recipe.axes), sizes))
    fill = _FILLS[recipe.rule]
    try:
        if recipe.kind == "sequence":
            return [fill(made, shape, dtype, rng) for _ in range(_SEQUENCE_LENGTH)]
        return fill(made, shape, dtype, rng)
    except MemoryError as error:
        raise _does_not_fit(recipe, shape) from error


def _numpy_dtype(recipe: InputRecipe) -> np.dtype[Any]:
    if recipe.dtype == "string":
        return np.dtype(object)
    try:
        return np.dtype(recipe.dtype)
    except TypeError:
        pass
    try:
        import ml_dtypes

        extended: np.dtype[Any] = np.dtype(getattr(ml_dtypes, recipe.dtype))
    except (ImportError, AttributeError, TypeError) as error:
        raise PointError(
            PointState.UNSUPPORTED, f"input {recipe.name!r} is {recipe.dtype}: numpy has no such type here."
        ) from error
    return extended


def _normal(_: InputRecipe, shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator) -> Any:
    return _spread(rng.standard_normal(min(prod(shape), _BLOCK), dtype=np.float32).astype(dtype), shape)


def _uniform(recipe: InputRecipe, shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator) -> Any:
    return _spread(rng.uniform(recipe.low, recipe.high, min(prod(shape), _BLOCK)).astype(dtype), shape)


def _integers(recipe: InputRecipe, shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator) -> Any:
    low, high = int(recipe.low), max(int(recipe.high), int(recipe.low) + 1)
    return _spread(rng.integers(low, high, min(prod(shape), _BLOCK)).astype(dtype), shape)


def _constant(recipe: InputRecipe, shape: tuple[int, ...], dtype: np.dtype[Any], _: np.random.Generator) -> Any:
    least, most = RANGES.get(recipe.dtype, (float("-inf"), float("inf")))
    value: float = min(max(recipe.low, least), most)
    if recipe.dtype.startswith(("int", "uint", "bool")):
        value = int(value)
    return np.full(shape, value, dtype=dtype)


def _arange(recipe: InputRecipe, shape: tuple[int, ...], dtype: np.dtype[Any], _: np.random.Generator) -> Any:
    steps = np.arange(shape[-1] if shape else 1, dtype=np.int64) + int(recipe.low)
    return np.ascontiguousarray(np.broadcast_to(steps.astype(dtype), shape or (1,))).reshape(shape)


def _strings(_: InputRecipe, shape: tuple[int, ...], __: np.dtype[Any], rng: np.random.Generator) -> Any:
    picks = rng.integers(0, len(_WORDS), prod(shape))
    texts = np.array([f"{_WORDS[pick]} {number}" for number, pick in enumerate(picks)], dtype=object)
    return texts.reshape(shape)


def _from_file(recipe: InputRecipe, shape: tuple[int, ...], dtype: np.dtype[Any], _: np.random.Generator) -> Any:
    """The `.npz` entry named like the input, if it has the shape and type of this point."""
    try:
        with zipfile.ZipFile(recipe.path or "") as archive, archive.open(f"{recipe.name}.npy") as entry:
            version = np.lib.format.read_magic(entry)
            read_header = (
                np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            )
            found, _order, held = read_header(entry)
        if found == shape and held == dtype:
            with np.load(recipe.path or "", allow_pickle=False) as file:
                return np.ascontiguousarray(file[recipe.name])
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise PointError(
            PointState.SHAPE_ERROR, f"the file for input {recipe.name!r} cannot be read: {type(error).__name__}."
        ) from error
    raise PointError(
        PointState.SHAPE_ERROR,
        f"the file for input {recipe.name!r} holds {held}{list(found)}; this point needs {dtype}{list(shape)}.",
    )


def _spread(block: Any, shape: tuple[int, ...]) -> Any:
    return np.resize(block, shape) if prod(shape) else np.empty(shape, dtype=block.dtype)


def _does_not_fit(recipe: InputRecipe, shape: tuple[int, ...]) -> PointError:
    return PointError(PointState.OOM, f"input {recipe.name!r} of shape {list(shape)} does not fit in memory.")


_FILLS: dict[str, _Fill] = {
    "normal": _normal,
    "uniform": _uniform,
    "integers": _integers,
    "constant": _constant,
    "arange": _arange,
    "strings": _strings,
    "file": _from_file,
}
