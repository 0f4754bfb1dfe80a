"""Shapes of ONNX Runtime's own operators (com.microsoft) and of its fused forms.

Each rule follows the operator's schema in ONNX Runtime's docs/ContribOperators.md.
"""

from onnx import TensorProto

from onnxdyno.graphs.cost.gaps import RULES, normalise
from onnxdyno.graphs.cost.operands import Operands, at
from onnxdyno.graphs.cost.shapes import Rule, Typed, broadcast, product_shape, same, type_at
from onnxdyno.graphs.cost.values import NotCounted


def contrib_outputs(op: Operands) -> list[Typed] | None:
    """Types and shapes of the outputs, or None for an op that has no rule. Raises `NotCounted`."""
    rule = _RULES.get(op.node.op_type)
    return None if rule is None else rule(op)


def borrowed(op_type: str) -> tuple[str, tuple[int, ...]] | None:
    """An ONNX op of the same shape rule and the inputs it takes, or None."""
    return _BORROWED.get(op_type)


_BORROWED: dict[str, tuple[str, tuple[int, ...]]] = {
    "FusedConv": ("Conv", (0, 1, 2)),
    "FusedGemm": ("Gemm", (0, 1, 2)),
    "DynamicQuantizeLSTM": ("LSTM", (0, 1, 2, 3, 4, 5, 6, 7)),
    "QLinearAveragePool": ("AveragePool", (0,)),
}


def _skip_normalise(op: Operands) -> list[Typed]:
    shape = op.shape(0)
    row = (*shape[:-1], 1)
    return [(type_at(op), shape), (TensorProto.FLOAT, row), (TensorProto.FLOAT, row), (type_at(op), shape)]


def _embed(op: Operands) -> list[Typed]:
    batch, length = at(op.shape(0), 0), at(op.shape(0), 1)
    wide = (batch, length, at(op.shape(2), 1))
    return [(type_at(op, 2), wide), (TensorProto.INT32, (batch,)), (type_at(op, 2), wide)]


def _attention(op: Operands) -> list[Typed]:
    """Input (batch, sequence, hidden), weights (hidden, q + k + v)."""
    batch, length, _ = _three(op.shape(0))
    q_k_v = op.integers("qkv_hidden_sizes")
    wide = q_k_v[2] if q_k_v and len(q_k_v) == 3 else at(op.shape(1), 1) // 3
    made: list[Typed] = [(type_at(op), (batch, length, wide))]
    if op.makes(1):
        past = at(op.shape(4), 3) if op.has(4) else 0
        heads = max(1, op.integer("num_heads", 1))
        made.append((type_at(op), (2, batch, heads, past + length, wide // heads)))
    return made


def _multi_head(op: Operands) -> list[Typed]:
    """Query (batch, sequence, hidden), or packed (batch, sequence, heads, 3, head size)."""
    query = op.shape(0)
    heads = max(1, op.integer("num_heads", 1))
    if len(query) == 5:
        batch, length, wide = query[0], query[1], query[2] * query[4]
    else:
        batch, length, wide = _three(query)
        if op.has(2):
            value = op.shape(2)
            wide = value[2] if len(value) == 3 else heads * at(value, 3)
    made: list[Typed] = [(type_at(op), (batch, length, wide))]
    if op.makes(1) and op.has(1) and len(op.shape(1)) == 3:
        past = at(op.shape(6), 2) if op.has(6) else 0
        total = past + op.shape(1)[1]
        key, width = op.shape(1)[2], wide
        made += [
            (type_at(op), (batch, heads, total, key // heads)),
            (type_at(op), (batch, heads, total, width // heads)),
        ]
    return made


def _group_query(op: Operands) -> list[Typed]:
    """Query (batch, sequence, hidden); without key and value it holds all three, packed."""
    batch, length, wide = _three(op.shape(0))
    heads, shared = max(1, op.integer("num_heads", 1)), max(1, op.integer("kv_num_heads", 1))
    if not op.has(1):
        wide = wide * heads // (heads + 2 * shared)
    made: list[Typed] = [(type_at(op), (batch, length, wide))]
    if op.makes(1):
        past = op.shape(3) if op.has(3) else (batch, shared, 0, wide // heads)
        cache = (batch, shared, at(past, 2) + length, wide // heads)
        made += [(type_at(op), cache), (type_at(op), cache)]
    return made


def _three(shape: tuple[int, ...]) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise NotCounted(f"expected rank 3, found {len(shape)}")
    return shape[0], shape[1], shape[2]


def _fused_matmul(op: Operands) -> list[Typed]:
    a, b = op.shape(0), op.shape(1)
    if op.integer("transA") and len(a) > 1:
        a = (*a[:-2], a[-1], a[-2])
    if op.integer("transB") and len(b) > 1:
        b = (*b[:-2], b[-1], b[-2])
    return [(type_at(op), product_shape(a, b))]


def _matmul_to(scale: int) -> Rule:
    return lambda op: [(type_at(op, scale), product_shape(op.shape(0), op.shape(1)))]


def _dynamic_matmul(op: Operands) -> list[Typed]:
    return [(type_at(op, 0), product_shape(op.shape(0), op.shape(1)))]


def _matmul_nbits(op: Operands) -> list[Typed]:
    return [(type_at(op), (*op.shape(0)[:-1], op.integer("N")))]


def _quantised_gemm(op: Operands) -> list[Typed]:
    a, b = op.shape(0), op.shape(3)
    rows = at(a, 1 if op.integer("transA") else 0)
    columns = at(b, 0 if op.integer("transB") else 1)
    return [(type_at(op, 0) if op.has(8) else TensorProto.FLOAT, (rows, columns))]


def _binary(op: Operands) -> list[Typed]:
    return [(type_at(op), broadcast(op.shape(0), op.shape(3)))]


def _quantised_where(op: Operands) -> list[Typed]:
    return [(type_at(op, 1), broadcast(op.shape(0), op.shape(1), op.shape(4)))]


def _quantised_concat(op: Operands) -> list[Typed]:
    """Inputs: scale and zero point of the output, then three for each operand."""
    shapes = [op.shape(place) for place in range(2, len(op.inputs), 3)]
    if not shapes or any(len(shape) != len(shapes[0]) for shape in shapes):
        raise NotCounted("operands of different ranks")
    axis = op.integer("axis") % max(1, len(shapes[0]))
    total = sum(at(shape, axis) for shape in shapes)
    return [(type_at(op, 2), tuple(total if i == axis else size for i, size in enumerate(shapes[0])))]


def _global_pool(op: Operands) -> list[Typed]:
    shape = op.shape(0)
    is_last = op.integer("channels_last")
    kept = (0, len(shape) - 1) if is_last else (0, 1)
    return [(type_at(op), tuple(size if i in kept else 1 for i, size in enumerate(shape)))]


def _channels_last_conv(op: Operands) -> list[Typed]:
    """Input (batch, spatial…, channels), weights (filters, spatial…, channels)."""
    x, w = op.shape(0), op.shape(1)
    if len(x) != len(w) or len(x) < 3:
        raise NotCounted("input and weights differ in rank")
    return [(type_at(op), (x[0], *_window(op, x[1:-1], w[1:-1]), w[0]))]


def _window(op: Operands, sizes: tuple[int, ...], kernel: tuple[int, ...]) -> tuple[int, ...]:
    ones = (1,) * len(sizes)
    strides, dilations = op.integers("strides") or ones, op.integers("dilations") or ones
    pads = op.integers("pads") or (0,) * (2 * len(sizes))
    if min(*strides, *dilations) < 1 or len(pads) != 2 * len(sizes) or not len(strides) == len(dilations) == len(sizes):
        raise NotCounted("strides, dilations or pads are not valid")
    if op.text("auto_pad", "NOTSET").startswith("SAME"):
        return tuple(-(-size // stride) for size, stride in zip(sizes, strides, strict=True))
    spans = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    both = [pads[i] + pads[i + len(sizes)] for i in range(len(sizes))]
    return tuple(
        max(0, (size + pad - span) // stride + 1)
        for size, pad, span, stride in zip(sizes, both, spans, strides, strict=True)
    )


def _quantise(op: Operands) -> list[Typed]:
    return [(type_at(op, 2) if op.has(2) else TensorProto.UINT8, op.shape(0))]


def _dequantise(op: Operands) -> list[Typed]:
    return [(type_at(op, 1), op.shape(0))]


def _split_gelu(op: Operands) -> list[Typed]:
    shape = op.shape(0)
    return [(type_at(op), (*shape[:-1], at(shape, -1) // 2))]


def _gather_blocks(op: Operands) -> list[Typed]:
    table, indices = op.shape(0), op.shape(1)
    axis = op.integer("gather_axis") % max(1, len(table))
    packed = 2 if type_at(op) == TensorProto.UINT8 and op.integer("bits", 4) == 4 else 1
    rest = (*table[axis + 1 : -1], table[-1] * packed) if axis + 1 < len(table) else ()
    return [(type_at(op, 2), (*table[:axis], *indices, *rest))]


_RULES: dict[str, Rule] = {
    **RULES,
    **dict.fromkeys(
        (
            "Gelu FastGelu QuickGelu BiasGelu BiasSoftmax BiasAdd BiasDropout RotaryEmbedding GroupNorm Inverse Trilu "
            "QLinearSigmoid QLinearLeakyRelu QLinearSoftmax GemmaRotaryEmbedding"
        ).split(),
        same,
    ),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), _skip_normalise),
    "SimplifiedLayerNormalization": normalise,
    **dict.fromkeys(("EmbedLayerNormalization",), _embed),
    **dict.fromkeys(("Attention", "QAttention"), _attention),
    "MultiHeadAttention": _multi_head,
    "GroupQueryAttention": _group_query,
    "FusedMatMul": _fused_matmul,
    "TransposeMatMul": _fused_matmul,
    "MatMulIntegerToFloat": _matmul_to(2),
    "DynamicQuantizeMatMul": _dynamic_matmul,
    "MatMulNBits": _matmul_nbits,
    "QGemm": _quantised_gemm,
    "QLinearAdd": _binary,
    "QLinearMul": _binary,
    "QLinearWhere": _quantised_where,
    "QLinearConcat": _quantised_concat,
    "QLinearGlobalAveragePool": _global_pool,
    "NhwcConv": _channels_last_conv,
    "NhwcFusedConv": _channels_last_conv,
    "QuantizeLinear": _quantise,
    "DequantizeLinear": _dequantise,
    "BiasSplitGelu": _split_gelu,
    "GatherBlockQuantized": _gather_blocks,
}
