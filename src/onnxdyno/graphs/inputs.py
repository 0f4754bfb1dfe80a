"""Recipes for valid inputs, from what the graph does with each input first, from names second."""

import re
from collections.abc import Sequence

from onnxdyno.domain.axes import Role
from onnxdyno.domain.models import Dim, InputRecipe
from onnxdyno.graphs.declared import Declared
from onnxdyno.graphs.overrides import RANGES
from onnxdyno.graphs.tracing import Evidence

_NAMED: tuple[tuple[str, float, str], ...] = (
    (r"^sr$|sample_?rate|sampling_?rate", 16000, "a sampling rate"),
    (r"threshold|conf", 0.5, "a threshold"),
    (r"scale", 1, "a scale"),
    (r"(im|image|orig|original).*(size|shape|hw)|target_size", 224, "an image size"),
)

_Choice = tuple[str, float, float, str]
"""rule, low, high, why."""


def recipes(
    inputs: Sequence[Declared], dims: dict[str, tuple[Dim, ...]], evidence: Evidence
) -> tuple[InputRecipe, ...]:
    """One recipe per fed input."""
    return tuple(_recipe(value, dims[value.name], evidence) for value in inputs)


def _recipe(value: Declared, dims: tuple[Dim, ...], evidence: Evidence) -> InputRecipe:
    shape = dims
    if value.dims is None and value.kind == "tensor":
        shape = (Dim(role=Role.BATCH, constant=1),)
    rule, low, high, why = _choose(value, evidence)
    return InputRecipe(
        name=value.name, kind=value.kind, dtype=value.dtype, dims=shape, rule=rule, low=low, high=high, why=why
    )


def _choose(value: Declared, evidence: Evidence) -> _Choice:
    if value.dtype == "string":
        return "strings", 0, 1, "texts"
    if value.dtype == "bool":
        return "constant", 1, 1, "true"
    if value.dtype.startswith(("int", "uint")):
        return _choose_integers(value, evidence)
    name = value.name.lower()
    if "mask" in name:
        return "constant", 1, 1, "a mask of ones"
    is_small = all(dim.size is not None and dim.size <= 4 for dim in value.dims or ()) and value.dims is not None
    named = _by_name(name) if is_small else None
    return named or ("normal", 0, 1, "standard normal")


def _choose_integers(value: Declared, evidence: Evidence) -> _Choice:
    name = value.name.lower()
    table = min(evidence.tables.get(value.name, [0]))
    is_single = value.dims is not None and all(dim.size == 1 for dim in value.dims)
    if "mask" in name:
        return "constant", 1, 1, "a mask of ones"
    if re.search(r"token_?type|segment", name):
        return "constant", 0, 0, "token type 0"
    if "position" in name:
        return "arange", 0, table, "positions 0, 1, 2 …"
    if table > 0:
        return "integers", 0, table, f"ids of a table of {table}"
    if is_single:
        return _choose_single(value.name, evidence)
    return _choose_free(name, value.dtype)


def _choose_free(name: str, dtype: str) -> _Choice:
    """Integers that nothing bounds."""
    if dtype in ("uint8", "int8"):
        low, high = RANGES[dtype]
        return "integers", low, high + 1, "the whole range"
    if re.search(r"len(gth)?s?$", name):
        return "constant", 1, 1, "a length"
    return "integers", 0, 2, "small integers"


def _choose_single(name: str, evidence: Evidence) -> _Choice:
    if name in evidence.trips:
        return "constant", 1, 1, "a trip count, kept small"
    known = [number for number in evidence.compared.get(name, []) if number > 0]
    if known:
        return "constant", known[0], known[0], f"the graph compares it with {known[0]}"
    return _by_name(name.lower()) or ("constant", 1, 1, "a single integer, kept small")


def _by_name(name: str) -> _Choice | None:
    return next(
        (("constant", number, number, f"{why}, by its name") for p, number, why in _NAMED if re.search(p, name)), None
    )
