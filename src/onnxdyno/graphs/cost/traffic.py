"""Bytes that one execution of a node reads and writes if every operand crosses the memory bus once."""

from onnxdyno.graphs.cost.inference import DOMAINS, ONNX
from onnxdyno.graphs.cost.liveness import VIEWS
from onnxdyno.graphs.cost.operands import Operands
from onnxdyno.graphs.cost.values import NotCounted, Value

_READS_NOTHING = frozenset(("Shape", "Size"))

_LOOKS_UP = {
    **dict.fromkeys("Gather GatherElements GatherND Slice Compress GatherBlockQuantized".split(), (0,)),
    "EmbedLayerNormalization": (2, 3, 4),
}
"""Inputs of which only as much is read as comes out."""


def traffic(op: Operands) -> tuple[int, int]:
    """(bytes read, bytes written). Views move nothing; an operand used twice is read once. Raises `NotCounted`."""
    op_type = op.node.op_type
    if op_type in VIEWS and op.node.domain in ONNX:
        return 0, 0
    written = made_bytes(op)
    if op_type in _READS_NOTHING:
        return 0, written
    partly = _LOOKS_UP.get(op_type, ()) if op.node.domain in DOMAINS else ()
    seen: dict[str, int] = {}
    for place, (name, value) in enumerate(zip(op.node.input, op.inputs, strict=True)):
        if value is not None:
            size = size_of(value, "input", place)
            seen[name] = min(size, written) if place in partly else size
    return sum(seen.values()), written


def made_bytes(op: Operands) -> int:
    """Bytes of all outputs. Raises `NotCounted`."""
    return sum(size_of(value, "output", place) for place, value in enumerate(op.outputs) if value is not None)


def size_of(value: Value, what: str, place: int) -> int:
    """Bytes of one operand. Raises `NotCounted`."""
    size = value.size_bytes
    if size is None:
        raise NotCounted(value.why_unknown(f"{what} {place}"))
    return size
