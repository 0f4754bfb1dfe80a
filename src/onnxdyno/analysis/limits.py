"""A node and the ceilings of a device -> how long its arithmetic, its bytes and its start take at least."""

import re
from dataclasses import dataclass, replace
from math import exp, log, prod

from onnxdyno.domain.ceilings import Ceiling, CeilingKind, Ceilings
from onnxdyno.domain.findings import NodeFinding
from onnxdyno.domain.micros import BFLOAT16, DISPATCH, FLOAT16, FLOAT32, FLOAT64, INT8, PINNED, READ, STREAM
from onnxdyno.domain.operators import COMPUTE_OPS
from onnxdyno.domain.verdicts import Span

_SHAPE = re.compile(r"(\w+)\[([\d,]*)\]")
_POOLS = {"MaxPool": "MaxPool", "AveragePool": "AveragePool", "GlobalAveragePool": "ReduceMean"}
_RECURRENT = frozenset({"LSTM", "GRU", "RNN", "DynamicQuantizeLSTM"})
_LIKE = {
    "BiasGelu": "Gelu",
    "FastGelu": "Gelu",
    "QuickGelu": "Sigmoid",
    "Swish": "Sigmoid",
    "HardSwish": "Div",
    "Elu": "Exp",
    "Selu": "Exp",
    "Softplus": "Log",
    "Cos": "Sin",
    "LogSoftmax": "Softmax",
    "SkipLayerNormalization": "LayerNormalization",
    "EmbedLayerNormalization": "LayerNormalization",
    "InstanceNormalization": "LayerNormalization",
    "GroupNormalization": "LayerNormalization",
    "RMSNormalization": "LayerNormalization",
    "SimplifiedLayerNormalization": "LayerNormalization",
    "BiasSoftmax": "Softmax",
}
"""Operators that have no rate of their own, by the measured one whose arithmetic is nearest."""
_MOVERS = frozenset({"Gather", "Transpose", "Concat", "Where", "Resize", "ReorderInput", "ReorderOutput"})
"""They compute nothing: a rate below the bandwidth is what their pattern of access makes of it."""
_MOVES_LIKE = {"ReorderInput": "Transpose", "ReorderOutput": "Transpose"}
_LINKS = {"MemcpyFromHost": CeilingKind.H2D, "MemcpyToHost": CeilingKind.D2H}
_COPIED = 50.0
_CONTRACTED_IN = {"float16": FLOAT16, "bfloat16": BFLOAT16, "double": FLOAT64}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The three times, each None where no ceiling speaks of it, and the rate behind the arithmetic."""

    compute: Span | None
    memory: Span | None
    launch: Span | None
    moved_bytes: float
    weight_bytes: float


def limits_of(found: NodeFinding, ceilings: Ceilings, model_weight_bytes: int) -> Limits:
    """Of a node whose FLOPs and bytes are known."""
    work, node = found.work, found.node
    times = executions(found)
    written = max(float(work.written_bytes or 0), float((node.output_bytes or 0) * times))
    weights = _weight_bytes(found, times) * _steps(found)
    moved = float(work.read_bytes or 0) + (written if work.written_bytes else 0.0)
    moved += weights * (1 - 1 / _steps(found))
    if not moved and _has_copied(found, ceilings):
        moved = 2.0 * (node.output_bytes or 0)
    memory = _memory(moved, weights, times, ceilings, model_weight_bytes)
    if node.op_type in _MOVERS and memory is not None:
        memory = _longest(memory, _by_elements(found, ceilings, _MOVES_LIKE.get(node.op_type, node.op_type), times))
    dispatch = ceilings.find(CeilingKind.DISPATCH, DISPATCH)
    return Limits(
        compute=_compute(found, ceilings, times),
        memory=memory,
        launch=None if dispatch is None else _scaled(dispatch, float(times)),
        moved_bytes=moved,
        weight_bytes=weights,
    )


def executions(found: NodeFinding) -> int:
    """How often a node ran in one call: more than once inside a loop."""
    written, output_bytes = found.work.written_bytes, found.node.output_bytes
    if not found.node.path or not written or not output_bytes:
        return 1
    return max(1, round(written / output_bytes))


def rate_label(found: NodeFinding) -> str | None:
    """The FLOP rate that a contraction, a pool or a recurrent operator is held to; None for all others."""
    op, shapes = found.node.op_type, shapes_of(found.node.input_shapes)
    if op in _POOLS and op != "GlobalAveragePool":
        return f"{op} {FLOAT32}"
    if op in _RECURRENT:
        return f"LSTM {FLOAT32}"
    if op not in COMPUTE_OPS and op != "QGemm":
        return None
    dtype = _dtype(op, shapes)
    if "Conv" not in op:
        return f"MatMul {dtype}"
    return f"ConvDepthwise {FLOAT32}" if _is_depthwise(shapes) else f"Conv {dtype}"


def shapes_of(text: str) -> list[tuple[str, tuple[int, ...]]]:
    """`float[1,3] int64[]` -> [("float", (1, 3)), ("int64", ())]."""
    return [(dtype, tuple(int(size) for size in sizes.split(",") if size)) for dtype, sizes in _SHAPE.findall(text)]


def copy_limit(found: NodeFinding, ceilings: Ceilings) -> Span | None:
    """How long a copy between host and device takes at least; None where its bytes or the link's rate are not known."""
    kind, size = _LINKS.get(found.node.op_type), found.node.output_bytes
    rate = bandwidth(PINNED, size, ceilings, kind) if kind is not None and size else None
    return _scaled_rate(rate, float(size)) if rate is not None and size else None


def bandwidth(
    label: str, working_bytes: float, ceilings: Ceilings, kind: CeilingKind = CeilingKind.BANDWIDTH
) -> Ceiling | None:
    """Between measured working sets along the logarithm; beyond them the nearest. None where none was measured."""
    known = sorted(
        (each for each in ceilings.entries if each.kind is kind and each.label == label and each.value),
        key=lambda each: each.working_bytes or 0,
    )
    if not known:
        return None
    below = [each for each in known if (each.working_bytes or 0) <= working_bytes]
    above = [each for each in known if (each.working_bytes or 0) > working_bytes]
    if not below or not above:
        return known[-1] if below else known[0]
    first, second = below[-1], above[0]
    start, end = log(first.working_bytes or 1), log(second.working_bytes or 1)
    share = (log(working_bytes) - start) / (end - start)

    def between(one: float | None, other: float | None) -> float | None:
        return None if not one or not other else exp((1 - share) * log(one) + share * log(other))

    return replace(
        first,
        value=between(first.value, second.value),
        low=between(first.low, second.low),
        high=between(first.high, second.high),
    )


def _memory(moved: float, weights: float, times: int, ceilings: Ceilings, model_weight_bytes: int) -> Span | None:
    """Weights come from where all weights of the model lie, everything else from where the node's own bytes lie."""
    if not moved:
        return Span(value_ns=0.0, low_ns=0.0, high_ns=0.0)
    own = moved / times
    from_weights = bandwidth(READ, max(own, float(model_weight_bytes)), ceilings)
    rest = bandwidth(STREAM, own, ceilings)
    if from_weights is None or rest is None:
        return None
    one, other = _scaled_rate(from_weights, weights), _scaled_rate(rest, moved - weights)
    return Span(
        value_ns=one.value_ns + other.value_ns,
        low_ns=one.low_ns + other.low_ns,
        high_ns=one.high_ns + other.high_ns,
    )


def _steps(found: NodeFinding) -> int:
    """How often a recurrent operator reads its weights: once a step."""
    shapes = shapes_of(found.node.input_shapes)
    return max(1, shapes[0][1][0]) if found.node.op_type in _RECURRENT and shapes and shapes[0][1] else 1


def _has_copied(found: NodeFinding, ceilings: Ceilings) -> bool:
    """Whether a node that could have been a view took far longer than its start: it copied, to an output say."""
    dispatch = ceilings.find(CeilingKind.DISPATCH, DISPATCH)
    return dispatch is not None and found.node.self_ns > _COPIED * (dispatch.value or 0.0)


def _weight_bytes(found: NodeFinding, times: int) -> float:
    """What a contraction reads beside its first input, where that is most of it."""
    work = found.work
    if rate_label(found) is None or not work.read_bytes:
        return 0.0
    shapes = shapes_of(found.node.input_shapes)
    first = float(prod(shapes[0][1]) * item_bytes(shapes[0][0]) * times) if shapes else 0.0
    return max(0.0, work.read_bytes - first)


def _compute(found: NodeFinding, ceilings: Ceilings, times: int) -> Span | None:
    """By the FLOP rate of its kind, by its operator's elements, or by the FLOP rate of a large product."""
    flops, op = found.work.flops, found.node.op_type
    if flops == 0 and (op in _MOVERS or not _op_rate(op, ceilings)):
        return Span(value_ns=0.0, low_ns=0.0, high_ns=0.0)
    label = rate_label(found)
    if label is None and _op_rate(op, ceilings) is not None:
        return _by_elements(found, ceilings, _op_name(op), times)
    rate = ceilings.find(CeilingKind.FLOP_RATE, label or f"MatMul {FLOAT32}")
    if rate is None and label is not None and label.endswith(BFLOAT16):  # matrix units run both alike
        rate = ceilings.find(CeilingKind.FLOP_RATE, label.replace(BFLOAT16, FLOAT16))
    if rate is None or flops is None:
        return None
    return _scaled_rate(rate, float(flops))


def _op_name(op: str) -> str:
    if op.startswith("Reduce") or op == "GlobalAveragePool":
        return "ReduceMean"
    return _LIKE.get(op, op)


def _op_rate(op: str, ceilings: Ceilings) -> Ceiling | None:
    return ceilings.find(CeilingKind.OP_RATE, _op_name(op))


def _by_elements(found: NodeFinding, ceilings: Ceilings, label: str, times: int) -> Span | None:
    rate = ceilings.find(CeilingKind.OP_RATE, label)
    sizes = [
        prod(shape) for text in (found.node.input_shapes, found.node.output_shapes) for _, shape in shapes_of(text)
    ]
    if found.node.op_type == "Gather":
        sizes = [prod(shape) for _, shape in shapes_of(found.node.output_shapes)]
    if rate is None or not sizes:
        return None
    return _scaled_rate(rate, float(max(sizes) * times))


def _longest(one: Span, other: Span | None) -> Span:
    return other if other is not None and other.value_ns > one.value_ns else one


def _scaled_rate(rate: Ceiling, amount: float) -> Span:
    """How long an amount takes at a rate; the interval turns round."""
    value = rate.value or 1.0
    return Span(
        value_ns=amount / value * 1e9,
        low_ns=amount / (rate.high or value) * 1e9,
        high_ns=amount / (rate.low or value) * 1e9,
    )


def _scaled(dispatch: Ceiling, times: float) -> Span:
    value = dispatch.value or 0.0
    return Span(
        value_ns=value * times, low_ns=(dispatch.low or value) * times, high_ns=(dispatch.high or value) * times
    )


def _dtype(op: str, shapes: list[tuple[str, tuple[int, ...]]]) -> str:
    first = shapes[0][0] if shapes else "float"
    if first in ("uint8", "int8") or "Integer" in op or "QLinear" in op or op in ("DynamicQuantizeMatMul", "QGemm"):
        return INT8
    return _CONTRACTED_IN.get(first, FLOAT32)


def _is_depthwise(shapes: list[tuple[str, tuple[int, ...]]]) -> bool:
    return len(shapes) > 1 and len(shapes[1][1]) > 2 and shapes[1][1][1] == 1 < shapes[1][1][0]


def item_bytes(dtype: str) -> int:
    """Of the runtime's name of an element type."""
    return {"double": 8, "int64": 8, "float16": 2, "bfloat16": 2, "int16": 2, "uint8": 1, "int8": 1, "bool": 1}.get(
        dtype, 4
    )
