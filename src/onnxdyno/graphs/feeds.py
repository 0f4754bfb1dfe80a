"""The last look at values before a run: "it ran" is no proof, since broadcasting hides a wrong length.

Only numpy and the domain: this runs in the measuring process.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from onnxdyno.domain.axes import AxisSizes
from onnxdyno.domain.errors import PointError
from onnxdyno.domain.models import InputRecipe
from onnxdyno.domain.outcomes import PointState
from onnxdyno.domain.text import printable
from onnxdyno.graphs.materialise import dim_size

_REMEDY = "Give the input another value or file in the spec, or leave it to its recipe."


def check(feeds: Mapping[str, Any], recipes: Sequence[InputRecipe], sizes: AxisSizes) -> None:
    """Hold values against what the model declares and against every known relation between its dimensions.

    Names, kinds, element types and shapes must be those of `recipes` at this point (sums such as past + sequence
    included), and ids must lie in the table that they index. A value of None is an optional that is left out. Raises
    `PointError` (shape_error) naming the input, what it is and what it must be.
    """
    known = {recipe.name: recipe for recipe in recipes}
    for name in feeds:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean '{printable(near[0])}'?" if near else ""
            raise _wrong(f"the model has no input '{printable(name)}'{hint}.")
    for recipe in recipes:
        value = feeds.get(recipe.name)
        if value is None:
            if recipe.kind != "optional":
                raise _wrong(f"input '{printable(recipe.name)}' has no value.")
        elif recipe.kind == "sequence":
            if not isinstance(value, list | tuple):
                raise _wrong(f"input '{printable(recipe.name)}' is a {type(value).__name__}; it must be a list.")
            for each in value:
                _check_tensor(each, recipe, sizes)
        elif recipe.kind == "tensor":
            _check_tensor(value, recipe, sizes)


def _check_tensor(value: Any, recipe: InputRecipe, sizes: AxisSizes) -> None:
    name = printable(recipe.name)
    if not isinstance(value, np.ndarray):
        raise _wrong(f"input '{name}' is a {type(value).__name__}; it must be an array.")
    if not _has_type(value, recipe.dtype):
        raise _wrong(f"input '{name}' holds {value.dtype.name}; the model takes {recipe.dtype}.")
    shape = tuple(dim_size(dim, sizes) for dim in recipe.dims)
    if value.shape != shape:
        spelt = [" + ".join(dim.axes) for dim in recipe.dims if len(dim.axes) > 1]
        why = f" ({printable('; '.join(spelt))})" if spelt else ""
        raise _wrong(f"input '{name}' is {list(value.shape)}; this point needs {list(shape)}{why}.")
    if recipe.bound is not None and value.dtype.kind in "iu" and value.size:
        least, most = int(value.min()), int(value.max())
        if not -recipe.bound <= least <= most < recipe.bound:
            raise _wrong(f"input '{name}' holds {least} … {most}; the table that it indexes has {recipe.bound:,} rows.")


def _has_type(value: np.ndarray[Any, Any], dtype: str) -> bool:
    return value.dtype.kind in "OUST" if dtype == "string" else value.dtype.name == dtype


def _wrong(reason: str) -> PointError:
    return PointError(PointState.SHAPE_ERROR, reason, _REMEDY)
