"""Recipes for valid inputs, from what the graph does with each input first, from names second."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from onnxdyno.domain.axes import Role
from onnxdyno.domain.models import Dim, InputRecipe
from onnxdyno.graphs.axes import Solved
from onnxdyno.graphs.declared import Declared
from onnxdyno.graphs.overrides import RANGES
from onnxdyno.graphs.tracing import Evidence

_NAMED: tuple[tuple[str, float, str], ...] = (
    (r"^sr$|sample_?rate|sampling_?rate", 16000, "a sampling rate"),
    (r"threshold|conf", 0.5, "a threshold"),
    (r"scale", 1, "a scale"),
    (r"(im|image|orig|original).*(size|shape|hw)|target_size", 224, "an image size"),
)

_LENGTH = re.compile(r"(^|[._/-])(len|lens)$|length|seq_?lens?|seqlens")
_MOST_COMPARED = 1_000
"""Inputs whose names are compared with one another; no model has more that mean something."""
_STEPS = (Role.SEQUENCE, Role.TIME)

_Choice = tuple[str, float, float, str]
"""rule, low, high, why."""


def recipes(inputs: Sequence[Declared], solved: Solved) -> tuple[InputRecipe, ...]:
    """One recipe per fed input."""
    return tuple(_recipe(value, solved) for value in inputs)


def _recipe(value: Declared, solved: Solved) -> InputRecipe:
    evidence = solved.evidence
    shape = solved.dims[value.name]
    if value.dims is None and value.kind == "tensor":
        shape = (Dim(role=Role.BATCH, constant=1),)
    rule, low, high, why = _choose(value, evidence)
    rows = evidence.tables.get(value.name)
    made = InputRecipe(
        name=value.name,
        kind=value.kind,
        dtype=value.dtype,
        dims=shape,
        rule=rule,
        low=low,
        high=high,
        why=why,
        bound=min(rows) if rows and value.dtype.startswith(("int", "uint")) else None,
    )
    if rule == "arange":
        past = tuple(axis.name for axis in solved.axes if axis.role is Role.PAST and axis.size is None)[:1]
        return replace(made, axes=past)
    return _as_length(made, solved) or made


def _as_length(made: InputRecipe, solved: Solved) -> InputRecipe | None:
    """An integer input that says how long a sequence is agrees with it at every point."""
    is_bound = made.bound is not None or made.name in solved.evidence.trips or "mask" in made.name.lower()
    if made.kind != "tensor" or not made.dtype.startswith("int") or is_bound:
        return None
    counted = solved.counted.get(made.name) or _counted_by_name(made, solved)
    if counted is None:
        return None
    what = " + ".join(counted.axes) or str(counted.constant)
    low = counted.constant
    return replace(made, rule="constant", low=low, high=low, axes=counted.axes, why=f"a length: {what}, all of it")


def _counted_by_name(made: InputRecipe, solved: Solved) -> Dim | None:
    """What a `lengths` input counts: the steps of the input with the most similar name. `seqlens_k` is one less."""
    name = made.name.lower()
    if len(made.dims) > 1 or len(solved.dims) > _MOST_COMPARED or _LENGTH.search(name) is None:
        return None
    past = tuple(axis.name for axis in solved.axes if axis.role is Role.PAST and axis.size is None)[:1]
    steps = [
        (_alike(name, f"{other} {'.'.join(dim.axes)}".lower()), dim)
        for other, dims in solved.dims.items()
        for dim in dims
        if other != made.name and dim.role in _STEPS and len(dim.axes) == 1 and not dim.constant
    ]
    if not steps:
        fixed = [dim for dims in solved.dims.values() for dim in dims if dim.role in _STEPS and dim.constant > 1]
        return fixed[0] if fixed and not fixed[0].axes else None
    best = max(steps, key=lambda step: step[0])[1]
    is_total = "total" in name or "seqlens_k" in name
    return replace(best, constant=-int("seqlens_k" in name), axes=(*(past if is_total else ()), *best.axes))


def _alike(one: str, other: str) -> int:
    """How many letters two names begin with in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


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
    named = _by_name(name)
    if named is not None:
        return named
    if _LENGTH.search(name):
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
