"""Recipes with what a spec says of inputs put in place. Standard library only."""

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches

from onnxdyno.domain.errors import SpecError
from onnxdyno.domain.models import InputRecipe
from onnxdyno.domain.plan import InputRule
from onnxdyno.domain.text import printable

RANGES = {
    "int8": (-128, 127), "uint8": (0, 255), "int16": (-(2**15), 2**15 - 1), "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1), "uint32": (0, 2**32 - 1), "int64": (-(2**63), 2**63 - 1), "uint64": (0, 2**64 - 1),
    "float16": (-65504.0, 65504.0), "float32": (-3.4e38, 3.4e38), "float64": (-1.7e308, 1.7e308), "bool": (0, 1),
    "int2": (-2, 1), "uint2": (0, 3), "int4": (-8, 7), "uint4": (0, 15), "bfloat16": (-3.3e38, 3.3e38),
    "float8_e4m3fn": (-448, 448), "float8_e4m3fnuz": (-240, 240), "float8_e5m2": (-57344, 57344),
    "float8_e5m2fnuz": (-57344, 57344), "float4_e2m1fn": (-6, 6),
}  # fmt: skip
"""Least and largest value of each type."""


def override(made: tuple[InputRecipe, ...], rules: Sequence[InputRule]) -> tuple[InputRecipe, ...]:
    """Recipes with what a spec says put in place. Raises `SpecError`: unknown input, value its type cannot hold."""
    names = [recipe.name for recipe in made]
    for rule in rules:
        if rule.name not in names:
            near = get_close_matches(rule.name, names, n=1)
            hint = f"Did you mean '{printable(near[0])}'?" if near else f"Inputs: {_listed(names)}."
            raise SpecError(f"inputs: the model has no input '{printable(rule.name)}'. {hint}")
    by_name = {rule.name: rule for rule in rules}
    return tuple(_overridden(recipe, by_name[recipe.name]) if recipe.name in by_name else recipe for recipe in made)


def _overridden(recipe: InputRecipe, rule: InputRule) -> InputRecipe:
    if rule.path is not None:
        return replace(recipe, rule="file", path=rule.path, axes=(), why="a file, by the spec")
    low, high = (rule.value, rule.value) if rule.value is not None else (rule.low, rule.high)
    low = 0.0 if low is None else low
    high = low + 1 if high is None else high
    least, most = RANGES.get(recipe.dtype, (float("-inf"), float("inf")))
    if recipe.dtype == "string" or not least <= low <= high <= most + (rule.value is None):
        raise SpecError(
            f"inputs.{printable(recipe.name)}: {low:g} … {high:g} does not fit an input of type {recipe.dtype}."
        )
    is_whole = recipe.dtype.startswith(("int", "uint", "bool"))
    kind = "constant" if rule.value is not None else ("integers" if is_whole else "uniform")
    return replace(recipe, rule=kind, low=low, high=high, path=None, axes=(), why="by the spec")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{printable(name)}'" for name in names[:10]) + (" …" if len(names) > 10 else "")
