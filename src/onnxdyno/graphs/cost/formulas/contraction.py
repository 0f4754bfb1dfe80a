"""Einsum: operands are contracted from left to right, as its definition allows and runtimes do."""

from math import prod

from onnxdyno.graphs.cost.operands import Operands
from onnxdyno.graphs.cost.values import NotCounted

_ELLIPSIS = "..."


def einsum(op: Operands) -> int:
    """Each pair of operands: one MAC for every combination of their indices, or one product if nothing is summed."""
    terms, result, sizes = _parse(op)
    if len(terms) == 1:
        summed = set(terms[0]) - set(result)
        return _extent(set(terms[0]), sizes) if summed else 0
    total = 0
    left = set(terms[0])
    for place, term in enumerate(terms[1:], start=1):
        every = left | set(term)
        needed = set(result).union(*terms[place + 1 :])
        total += _extent(every, sizes) * (2 if every - needed else 1)
        left = every & needed
    return total


def _extent(letters: set[str], sizes: dict[str, int]) -> int:
    return prod(sizes[letter] for letter in letters)


def _parse(op: Operands) -> tuple[list[list[str]], list[str], dict[str, int]]:
    """Index names of each operand and of the result, and their sizes; an ellipsis becomes names of its own."""
    equation = op.text("equation").replace(" ", "")
    left, arrow, right = equation.partition("->")
    written = left.split(",")
    if len(written) != len(op.inputs):
        raise NotCounted("the equation names another number of operands")
    sizes: dict[str, int] = {}
    terms = [_name(term, op.shape(place), sizes) for place, term in enumerate(written)]
    dots = sorted({name for term in terms for name in term if len(name) > 1})
    if arrow:
        result = [*(dots if _ELLIPSIS in right else ()), *right.replace(_ELLIPSIS, "")]
    else:
        every = [name for term in terms for name in term]
        result = [*dots, *sorted(name for name in set(every) if len(name) == 1 and every.count(name) == 1)]
    if not set(result) <= set(sizes):
        raise NotCounted("the result has an index that no operand has")
    return terms, result, sizes


def _name(term: str, shape: tuple[int, ...], sizes: dict[str, int]) -> list[str]:
    before, dots, after = term.partition(_ELLIPSIS)
    hidden = len(shape) - len(before) - len(after)
    if hidden < 0 or (hidden and not dots):
        raise NotCounted(f"a term of the equation does not fit rank {len(shape)}")
    names = [*before, *(f"dim{hidden - i:03d}" for i in range(hidden)), *after]
    for name, size in zip(names, shape, strict=True):
        sizes[name] = max(size, sizes.get(name, size))
    return names
