"""Shape arithmetic on known elements: the few ops by which a graph computes its own sizes, indices and positions.

onnx's own data propagation stops at division, comparison, Range, Where and others that exporters emit for every
Resize and Expand, and it cannot be interleaved with types node by node; these are small numpy calls on tensors of at
most `MOST_KNOWN_ELEMENTS` elements.
"""

from collections.abc import Callable, Sequence
from math import ceil, prod
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from onnxdyno.graphs.cost.operands import Operands
from onnxdyno.graphs.cost.shapes import broadcast
from onnxdyno.graphs.cost.values import MOST_KNOWN_ELEMENTS, Elements, NotCounted

_Rule = Callable[[Operands, Sequence[Any]], Any]
"""Operands and elements of each input (None where left out) -> elements of the output, or a list for many."""

_NEED_SHAPES_ONLY = frozenset(("Shape", "Size"))

_REFUSALS = (
    ValueError,
    TypeError,
    IndexError,
    KeyError,
    ArithmeticError,
    AttributeError,
    MemoryError,
    NotCounted,
)


def evaluate(operands: Operands) -> list[Elements] | None:
    """Elements of the outputs, or None. The outputs' shapes must be inferred already: they bound the work.

    So nothing is computed for an output that is left out, and a rule whose result inputs can blow up takes its size
    from the inferred shape or checks it before numpy allocates.
    """
    rule = RULES.get(operands.node.op_type)
    if rule is None or not _is_certain(operands):
        return None
    sizes = [None if value is None else value.elements for value in operands.outputs]
    if any(size is None or size > MOST_KNOWN_ELEMENTS for size in sizes):
        return None
    given = [None if value is None else value.known for value in operands.inputs]
    try:
        with np.errstate(all="ignore"):
            made = rule(operands, given)
    except _REFUSALS:
        return None
    arrays = [np.asarray(each) for each in (made if isinstance(made, list) else [made])]
    return arrays if all(array.size <= MOST_KNOWN_ELEMENTS for array in arrays) else None


def _is_certain(operands: Operands) -> bool:
    if operands.node.op_type in _NEED_SHAPES_ONLY:
        return True
    return all(value is None or value.known is not None for value in operands.inputs)


def _divide(_: Operands, xs: Sequence[Any]) -> Any:
    if xs[0].dtype.kind == "f":
        return xs[0] / xs[1]
    if not np.all(xs[1]):
        raise ZeroDivisionError
    return np.sign(xs[0]) * np.sign(xs[1]) * (np.abs(xs[0]) // np.abs(xs[1]))


def _modulo(op: Operands, xs: Sequence[Any]) -> Any:
    if xs[0].dtype.kind != "f" and not np.all(xs[1]):
        raise ZeroDivisionError
    return np.fmod(xs[0], xs[1]) if op.integer("fmod") else np.mod(xs[0], xs[1])


def _cast(op: Operands, xs: Sequence[Any]) -> Any:
    target = xs[1].dtype if op.node.op_type == "CastLike" else helper.tensor_dtype_to_np_dtype(op.integer("to"))
    return xs[0].astype(target)


def _axes(op: Operands, xs: Sequence[Any]) -> tuple[int, ...] | None:
    """From the second input (newer opsets) or from the attribute."""
    if len(xs) > 1 and xs[1] is not None:
        return tuple(int(axis) for axis in xs[1].reshape(-1))
    return op.integers("axes")


def _squeeze(op: Operands, xs: Sequence[Any]) -> Any:
    axes = _axes(op, xs)
    return np.squeeze(xs[0], axis=axes if axes is None else tuple(axes))


def _unsqueeze(op: Operands, xs: Sequence[Any]) -> Any:
    return np.expand_dims(xs[0], _axes(op, xs) or ())


def _concat(op: Operands, xs: Sequence[Any]) -> Any:
    return np.concatenate([x for x in xs if x is not None], axis=op.integer("axis"))


def _gather(op: Operands, xs: Sequence[Any]) -> Any:
    return np.take(xs[0], xs[1].astype(np.int64), axis=op.integer("axis"))


def _slice(op: Operands, xs: Sequence[Any]) -> Any:
    """Old versions have starts, ends and axes as attributes, newer ones as inputs, with steps."""
    given = [None if x is None else x.reshape(-1).tolist() for x in (*xs[1:], None, None, None, None)[:4]]
    starts, ends = (given[0] or op.integers("starts") or ()), (given[1] or op.integers("ends") or ())
    axes = given[2] or op.integers("axes") or tuple(range(len(starts)))
    steps = given[3] or (1,) * len(starts)
    cuts = [slice(None)] * xs[0].ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        stop = None if step < 0 and end < -xs[0].shape[axis] else end
        cuts[axis] = slice(start, stop, step)
    return xs[0][tuple(cuts)]


def _shape(op: Operands, _: Sequence[Any]) -> Any:
    sizes = op.shape(0)
    return np.asarray(sizes[op.integer("start") : op.integer("end", len(sizes))], dtype=np.int64)


def _constant_of_shape(op: Operands, _: Sequence[Any]) -> Any:
    fill = op.attributes.get("value")
    if fill is None:
        return np.zeros(op.made(), dtype=np.float32)
    return np.full(op.made(), numpy_helper.to_array(fill.t).reshape(-1)[0])


def _range(op: Operands, xs: Sequence[Any]) -> Any:
    start, limit, delta = (x.item() for x in xs)
    if max(0, ceil((limit - start) / delta)) != op.made_elements():
        raise NotCounted("the range is not as long as inference says")  # its integers are 64 bits wide
    return (start + delta * np.arange(op.made_elements())).astype(xs[0].dtype)


def _tile(op: Operands, xs: Sequence[Any]) -> Any:
    """numpy repeats one axis after another: a zero at the end would come after a huge array."""
    return np.tile(xs[0], tuple(xs[1].tolist())) if op.made_elements() else np.zeros(op.made(), dtype=xs[0].dtype)


def _reshape(op: Operands, xs: Sequence[Any]) -> Any:
    return xs[0].reshape(op.made())


def _reduce(function: Callable[..., Any]) -> _Rule:
    def rule(op: Operands, xs: Sequence[Any]) -> Any:
        axes = _axes(op, xs)
        if axes in (None, ()) and op.integer("noop_with_empty_axes"):
            return xs[0]
        keep = bool(op.integer("keepdims", 1))
        return function(xs[0], axis=tuple(axes) if axes else None, keepdims=keep).astype(xs[0].dtype)

    return rule


def _split(op: Operands, xs: Sequence[Any]) -> Any:
    ends = np.cumsum([shape[op.integer("axis")] for shape in (op.made(i) for i in range(len(op.outputs)))])
    return list(np.split(xs[0], ends[:-1], axis=op.integer("axis")))


def _transpose(op: Operands, xs: Sequence[Any]) -> Any:
    return np.transpose(xs[0], op.integers("perm"))


def _clip(op: Operands, xs: Sequence[Any]) -> Any:
    low = xs[1] if len(xs) > 1 else None
    high = xs[2] if len(xs) > 2 else None
    if len(xs) == 1:
        low = op.attributes["min"].f if "min" in op.attributes else None
        high = op.attributes["max"].f if "max" in op.attributes else None
    _check_common_size([xs[0], *(np.asarray(limit) for limit in (low, high) if limit is not None)])
    return xs[0] if low is None and high is None else np.clip(xs[0], low, high).astype(xs[0].dtype)


def _check_common_size(xs: Sequence[Any]) -> None:
    """Two small operands broadcast to at most a million elements; each one more may multiply that."""
    if len(xs) > 2 and prod(broadcast(*(x.shape for x in xs))) > MOST_KNOWN_ELEMENTS:
        raise NotCounted("too many elements")


def _folded(function: Callable[[Any, Any], Any]) -> _Rule:
    """An op of any number of inputs."""

    def rule(_: Operands, xs: Sequence[Any]) -> Any:
        _check_common_size(xs)
        result = xs[0]
        for x in xs[1:]:
            result = function(result, x)
        return result

    return rule


def _each(function: Callable[..., Any]) -> _Rule:
    """An op that is one numpy call on its inputs."""

    def rule(_: Operands, xs: Sequence[Any]) -> Any:
        _check_common_size(xs)
        return function(*xs)

    return rule


def _same_type(function: Callable[..., Any]) -> _Rule:
    return lambda _, xs: function(*xs).astype(xs[0].dtype)


RULES: dict[str, _Rule] = {
    "Shape": _shape,
    "Size": lambda op, _: np.asarray(op.elements(), dtype=np.int64),
    "Identity": lambda _, xs: xs[0],
    "Cast": _cast,
    "CastLike": _cast,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Reshape": _reshape,
    "Flatten": _reshape,
    "Transpose": _transpose,
    "Concat": _concat,
    "Gather": _gather,
    "Slice": _slice,
    "Split": _split,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "Expand": lambda op, xs: np.broadcast_to(xs[0], op.made()),
    "Tile": _tile,
    "Where": _each(np.where),
    "Clip": _clip,
    "Div": _divide,
    "Mod": _modulo,
    "Pow": _same_type(np.power),
    "ReduceSum": _reduce(np.sum),
    "ReduceProd": _reduce(np.prod),
    "ReduceMax": _reduce(np.max),
    "ReduceMin": _reduce(np.min),
    "Max": _folded(np.maximum),
    "Min": _folded(np.minimum),
    "Sum": _folded(np.add),
    **{
        name: _each(getattr(np, name.lower()))
        for name in ("Equal", "Greater", "Less", "Abs", "Sign", "Sqrt", "Floor", "Ceil")
    },
    "GreaterOrEqual": _each(np.greater_equal),
    "LessOrEqual": _each(np.less_equal),
    "Add": _each(np.add),
    "Sub": _each(np.subtract),
    "Mul": _each(np.multiply),
    "Neg": _each(np.negative),
    "Round": _each(np.rint),
    "Not": _each(np.logical_not),
    "And": _each(np.logical_and),
    "Or": _each(np.logical_or),
    "Xor": _each(np.logical_xor),
}
