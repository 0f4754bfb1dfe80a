"""Shapes that the graph itself computes: small integer tensors followed as values.

`Shape -> Gather -> Concat -> Reshape` is how exporters keep a dimension through a reshape: the elements of such tensors
are extents, so that a target shape carries the dimensions that went into it. What uses them: `targets`.
"""

from collections import Counter
from collections.abc import Callable
from math import prod

from onnx import NodeProto

from onnxdyno.graphs.shapes import constant_of, extents_of
from onnxdyno.graphs.tracing import MOST_ELEMENTS, At, Extent, Extents, Trace, attribute, integer, integers, loosen

Values = Callable[[Trace, NodeProto], Extents | None]

FOREVER = 1 << 31
"""From here on the end of a Slice means: to the end."""


def values_of(trace: Trace, node: NodeProto, position: int) -> Extents | None:
    """Elements of a small integer input; None when it is absent or unknown."""
    return trace.values.get(node.input[position]) if position < len(node.input) else None


def same_values(trace: Trace, node: NodeProto) -> Extents | None:
    """Cast, Unsqueeze, Squeeze, Reshape ...: the same elements in the same order."""
    return values_of(trace, node, 0)


def shape(trace: Trace, node: NodeProto) -> Extents | None:
    """Shape: the sizes of its input, or of a range of its dimensions."""
    x = extents_of(trace, node, 0)
    end = attribute(node, "end")
    return None if x is None else x[integer(node, "start", 0) : None if end is None else int(end.i)]


def gather_values(trace: Trace, node: NodeProto) -> Extents | None:
    """Elements of a one-dimensional tensor by constant positions."""
    values, picks = values_of(trace, node, 0), constant_of(trace, node, 1)
    if values is None or picks is None or integer(node, "axis", 0) != 0 or not _is_flat(trace, node, 0):
        return None
    return tuple(values[i] for i in picks) if all(-len(values) <= i < len(values) for i in picks) else None


def concat_values(trace: Trace, node: NodeProto) -> Extents | None:
    """Elements one after another."""
    parts = [trace.values.get(name) for name in node.input]
    if any(part is None for part in parts) or not all(_is_flat(trace, node, i) for i in range(len(parts))):
        return None
    joined = tuple(value for part in parts for value in part or ())
    return joined if len(joined) <= MOST_ELEMENTS else None


def cut_values(trace: Trace, node: NodeProto) -> Extents | None:
    """Slice of a one-dimensional tensor with constant bounds."""
    values = values_of(trace, node, 0)
    bounds = [integers(node, name) or constant_of(trace, node, i) for i, name in ((1, "starts"), (2, "ends"))]
    step = constant_of(trace, node, 4) or (1,)
    if values is None or not _is_flat(trace, node, 0) or step[0] == 0:
        return None
    if any(bound is None or len(bound) != 1 for bound in bounds):
        return None
    start, end = (int((bound or (0,))[0]) for bound in bounds)
    return values[slice(start, end if abs(end) < FOREVER else None, step[0])]


def arithmetic(trace: Trace, node: NodeProto) -> Extents | None:
    """Add, Sub, Mul, Div and kin on elements: numbers are computed, a dimension keeps its name and loses its size."""
    left, right = values_of(trace, node, 0), values_of(trace, node, 1)
    if left is None or right is None or not _fits(left, right):
        return None
    count = max(len(left), len(right)) if left and right else 0
    pairs = ((left[i % len(left)], right[i % len(right)]) for i in range(count))
    return tuple(_combine(trace, node.op_type, a, b) for a, b in pairs)


def choose(trace: Trace, node: NodeProto) -> Extents | None:
    """Where with a condition that is known."""
    condition, yes, no = (values_of(trace, node, i) for i in range(3))
    if condition is None or yes is None or no is None or not (condition and yes and no):
        return None
    count = max(len(condition), len(yes), len(no))
    if any(len(part) not in (1, count) for part in (condition, yes, no)):
        return None
    picked = []
    for i in range(count):
        told = condition[i % len(condition)]
        both = (yes[i % len(yes)], no[i % len(no)])
        picked.append((both[0] if told else both[1]) if isinstance(told, int) else None)
    return tuple(picked)


def product(trace: Trace, node: NodeProto) -> Extents | None:
    """ReduceProd and Size: one number."""
    values = extents_of(trace, node, 0) if node.op_type == "Size" else values_of(trace, node, 0)
    return None if values is None else (divide(trace, values, ()),)


def filled(trace: Trace, node: NodeProto) -> Extents | None:
    """ConstantOfShape of few integers."""
    target, value = constant_of(trace, node, 0), attribute(node, "value")
    if target is None or not 0 <= prod(target) <= MOST_ELEMENTS or len(target) > 1:
        return None
    number = 0
    if value is not None:
        ints = [*value.t.int64_data, *value.t.int32_data]
        if not ints and not value.t.raw_data:
            return None
        number = ints[0] if ints else int.from_bytes(value.t.raw_data, "little", signed=True)
    return (number,) * prod(target)


VALUES: dict[str, Values] = {
    **dict.fromkeys(("Cast", "Identity", "Unsqueeze", "Squeeze", "Reshape", "Flatten"), same_values),
    "Shape": shape,
    "Size": product,
    "ReduceProd": product,
    "Gather": gather_values,
    "Concat": concat_values,
    "Slice": cut_values,
    "Where": choose,
    "ConstantOfShape": filled,
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Mod", "Min", "Max", "Equal", "Less", "Greater"), arithmetic),
}
"""What the elements of output 0 are, for ops that shapes are computed with."""


def divide(trace: Trace, above: Extents, below: Extents) -> Extent:
    """The product of `above` over that of `below`: a number or one dimension where the rest cancels, else None."""
    if None in above or None in below:
        return None
    sizes = [[trace.size(e) for e in part] for part in (above, below)]
    free = [Counter(e for e, size in zip(part, known, strict=True) if size is None)
            for part, known in zip((above, below), sizes, strict=True)]  # fmt: skip
    numbers = [prod(size for size in known if size is not None) for known in sizes]
    left, owed = free[0] - free[1], free[1] - free[0]
    if not left and not owed:
        if numbers[1] <= 0 or numbers[0] % numbers[1]:
            return None
        one = _only_named(trace, above, below, numbers)
        return numbers[0] // numbers[1] if one is None else one
    if owed or left.total() > 1:
        return None
    (extent,) = left
    return extent if numbers[0] == numbers[1] else loosen([extent])[0]


def _only_named(trace: Trace, above: Extents, below: Extents, numbers: list[int]) -> Extent:
    """The one dimension of a fixed size that is left, so that a static batch is followed as a dynamic one is."""
    named = Counter(e for e in above if isinstance(e, At)) - Counter(e for e in below if isinstance(e, At))
    if named.total() != 1:
        return None
    (extent,) = named
    return extent if trace.size(extent) == numbers[0] // numbers[1] else None


_NEUTRAL = {("Add", 0), ("Sub", 0), ("Mul", 1), ("Div", 1)}
"""(op, right operand) that leave the left one as it is."""


def _combine(trace: Trace, op: str, a: Extent, b: Extent) -> Extent:
    left, right = trace.size(a), trace.size(b)
    if (op, right) in _NEUTRAL:
        return a
    if op in ("Add", "Mul") and (op, left) in _NEUTRAL:
        return b
    if left is not None and right is not None:
        return _compute(op, left, right)
    if op in ("Equal", "Less", "Greater"):
        return _compare_size(op, a, left, right)
    if op == "Div" and a == b and isinstance(a, At) and a.exact:
        return 1
    label = a if isinstance(a, At) else b
    return loosen([label])[0] if label is not None and (left is not None or right is not None) else None


def _compute(op: str, left: int, right: int) -> int | None:
    if op in ("Div", "Mod") and right == 0:
        return None
    answers: dict[str, Callable[[], int]] = {
        "Add": lambda: left + right,
        "Sub": lambda: left - right,
        "Mul": lambda: left * right,
        "Div": lambda: int(left / right) if abs(left) < 1 << 52 else left // right,
        "Mod": lambda: left % right,
        "Min": lambda: min(left, right),
        "Max": lambda: max(left, right),
        "Equal": lambda: int(left == right),
        "Less": lambda: int(left < right),
        "Greater": lambda: int(left > right),
    }
    made_of = answers[op]()
    return made_of if abs(made_of) < 1 << 63 else None


def _compare_size(op: str, a: Extent, left: int | None, right: int | None) -> int | None:
    """A dimension against a negative number: never equal, always larger."""
    number = right if left is None else left
    if number is None or number >= 0:
        return None
    is_size_left = isinstance(a, At) and left is None
    return int(op != "Equal" and (op == "Greater") == is_size_left)


def _fits(left: Extents, right: Extents) -> bool:
    return len(left) == len(right) or 1 in (len(left), len(right))


def _is_flat(trace: Trace, node: NodeProto, position: int) -> bool:
    """Whether an input has one dimension (or its rank is not known, as of what shapes are computed with)."""
    extents = extents_of(trace, node, position)
    return extents is None or len(extents) == 1
