"""One node counted: shapes, elements, FLOPs and bytes. Equal nodes with equal operands are counted once.

Large graphs repeat few layers: operands are made the same object where they are equal, so that a node is found again by
the identity of what it reads.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from onnxdyno.graphs.cost.evaluate import evaluate
from onnxdyno.graphs.cost.formulas import flops
from onnxdyno.graphs.cost.inference import ONNX, Inference
from onnxdyno.graphs.cost.operands import Operands
from onnxdyno.graphs.cost.traffic import made_bytes, traffic
from onnxdyno.graphs.cost.values import NotCounted, Shape, Value

_T = TypeVar("_T")

_DRAWS = frozenset("RandomNormal RandomNormalLike RandomUniform RandomUniformLike Bernoulli Multinomial".split())

_MOST_MADE_ELEMENTS = 1 << 31
"""A constant larger than this is made when the model runs, not kept as a weight (as in `graphs.weights`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """One execution of a node, whatever the node and its operands are called. `reason` is that of every None."""

    outputs: tuple[Value | None, ...]
    shapes: tuple[Shape | None, ...]
    runs: int
    flops: int | None
    read_bytes: int | None
    written_bytes: int | None
    output_bytes: int | None
    reason: str | None


class Counting:
    """Counts nodes of one model and remembers them."""

    def __init__(self, inference: Inference) -> None:
        self._inference = inference
        self._values: dict[object, Value] = {}
        self._counted: dict[object, Counted] = {}

    def same(self, value: Value) -> Value:
        """The first value that was equal to this one."""
        known = value.known
        if value.other_type is not None or (known is not None and known.dtype.kind not in "iubf"):
            return value
        elements = None if known is None else (known.dtype.char, known.tobytes())
        return self._values.setdefault((value.elem_type, value.shape, elements, value.is_constant), value)

    def count(self, op: Operands) -> Counted:
        """Shapes by inference, then what follows from them. The op's inputs must come from `same`."""
        names = tuple(op.node.input)
        key = (
            op.node.domain,
            op.node.op_type,
            tuple(sorted([attribute.SerializeToString() for attribute in op.attributes.values()])),
            tuple(op.inputs),
            names if len(set(names)) < len(names) else None,  # an operand used twice is read once
            tuple(map(bool, op.node.output)),
        )
        found = self._counted.get(key)
        if found is None:
            op.outputs, reason = self._inferred(op)
            found = self._counted[key] = counted(op, reason)
        return found

    def _inferred(self, op: Operands) -> tuple[list[Value | None], str | None]:
        """The outputs of a node; why a shape is unknown, if one is."""
        outputs, reason = self._inference.outputs(op)
        op.outputs = outputs
        elements = evaluate(op)
        is_constant = _is_constant(op)
        for place, value in enumerate(outputs):
            if value is not None:
                known = elements[place] if elements is not None and place < len(elements) else None
                fits = known is not None and known.shape == value.shape
                is_new = is_constant or known is not None
                made = replace(value, known=known if fits else None, is_constant=is_constant) if is_new else value
                outputs[place] = self.same(made)
        return outputs, reason


def counted(op: Operands, reason: str | None) -> Counted:
    """One execution; what is computed once at load or is shape arithmetic has no FLOPs.

    `reason` is why a shape is not known; whatever else is missing follows from that.
    """
    made = [value for value in op.outputs if value is not None]
    is_constant = bool(made) and all(value.is_constant for value in made)
    reasons: list[str] = []
    is_arithmetic = bool(made) and all(value.known is not None for value in made)
    count = 0 if is_constant or is_arithmetic else _or_reason(flops, op, reasons)
    moved = (0, 0) if is_constant else _or_reason(traffic, op, reasons) or (None, None)
    size = _or_reason(made_bytes, op, reasons)
    return Counted(
        outputs=tuple(op.outputs),
        shapes=_shapes(op.outputs),
        runs=0 if is_constant else 1,
        flops=count,
        read_bytes=moved[0],
        written_bytes=moved[1],
        output_bytes=size,
        reason=(reason or "; ".join(dict.fromkeys(reasons))) if None in (count, *moved, size) else None,
    )


def _shapes(values: Sequence[Value | None]) -> tuple[Shape | None, ...]:
    return tuple(None if value is None else value.shape for value in values)


def _or_reason(count: Callable[[Operands], _T], op: Operands, reasons: list[str]) -> _T | None:
    try:
        return count(op)
    except NotCounted as error:
        reasons.append(str(error))
        return None


def _is_constant(op: Operands) -> bool:
    """Whether a runtime computes the node once, at load: everything it reads is stored in the file."""
    if not op.inputs or not all(value is None or value.is_constant for value in op.inputs):
        return False
    if op.node.op_type in _DRAWS or op.node.domain not in ONNX:
        return False
    sizes = [value.elements for value in op.outputs if value is not None]
    return all(size is not None and size <= _MOST_MADE_ELEMENTS for size in sizes)
