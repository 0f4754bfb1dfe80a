"""What shape rules are made of: typed shapes, broadcasting, products."""

from collections.abc import Callable

from onnxdyno.graphs.cost.operands import Operands
from onnxdyno.graphs.cost.values import NotCounted, Shape

Typed = tuple[int, Shape]
"""Element type and shape of one output."""

Rule = Callable[[Operands], list[Typed]]
"""Types and shapes of the outputs, first ones first. Raises `NotCounted`."""


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape of operands (numpy's rule)."""
    rank = max(len(shape) for shape in shapes)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    sizes = []
    for column in zip(*padded, strict=True):
        wide = {size for size in column if size != 1}
        if len(wide) > 1:
            raise NotCounted(f"sizes {sorted(wide)} do not broadcast")
        sizes.append(wide.pop() if wide else 1)
    return tuple(sizes)


def product_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a matrix product (numpy's rule)."""
    if not a or not b:
        raise NotCounted("a product of a scalar")
    left = a if len(a) > 1 else (1, *a)
    right = b if len(b) > 1 else (*b, 1)
    outer = broadcast(left[:-2], right[:-2])
    return (*outer, *(left[-2:-1] if len(a) > 1 else ()), *(right[-1:] if len(b) > 1 else ()))


def type_at(op: Operands, place: int = 0) -> int:
    """Element type of an input; 0 if it is left out or not known."""
    value = op.inputs[place] if place < len(op.inputs) else None
    return 0 if value is None else value.elem_type


def same(op: Operands) -> list[Typed]:
    """The first input's."""
    return [(type_at(op), op.shape(0))]
