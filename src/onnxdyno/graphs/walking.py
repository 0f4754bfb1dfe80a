"""The walk itself: every node of a graph in order, subgraphs in the scope they see. See `tracing`."""

from onnx import GraphProto, ModelProto, NodeProto

from onnxdyno.graphs import meaning, shapes
from onnxdyno.graphs.shapes import Rule
from onnxdyno.graphs.tracing import At, InputDim, Trace, attribute, loosen, subgraphs

_UNARY = (
    "Identity Cast CastLike Relu LeakyRelu Elu Selu Celu ThresholdedRelu PRelu Sigmoid HardSigmoid HardSwish Tanh "
    "Sin Cos Tan Sinh Cosh Asin Acos Atan Asinh Acosh Atanh Exp Log Sqrt Abs Neg Sign Reciprocal Floor Ceil Round "
    "Not IsNaN IsInf Erf Gelu Mish Swish Softplus Softsign Shrink Softmax LogSoftmax Hardmax Clip Dropout CumSum "
    "Trilu LRN LpNormalization MeanVarianceNormalization QuantizeLinear DequantizeLinear DynamicQuantizeLinear "
    "FastGelu QuickGelu BiasGelu QLinearSigmoid QLinearLeakyRelu Normalizer Scaler Imputer Binarizer LabelEncoder "
    "GroupNormalization RotaryEmbedding ScatterND ScatterElements Scatter Bernoulli"
).split()
_BROADCAST = "Add Sub Mul Div Pow Mod And Or Xor BitwiseAnd BitwiseOr Where Max Min Sum Mean BitShift".split()
_COMPARE = "Equal Less Greater LessOrEqual GreaterOrEqual".split()
_REDUCE = "Mean Sum Max Min Prod L1 L2 LogSum LogSumExp SumSquare".split()
_CARRY = frozenset(
    "Identity Cast CastLike Reshape Unsqueeze Squeeze Flatten Transpose Slice Gather Expand Concat Clip Tile Pad Split "
    "Where Max Min Relu".split()
)
"""Ops whose output holds values of their inputs: an id stays an id."""

_RULES: dict[str, Rule] = {
    **dict.fromkeys(_UNARY, shapes.same),
    **dict.fromkeys(_BROADCAST, shapes.broadcast),
    **dict.fromkeys(_COMPARE, meaning.compare),
    **{f"Reduce{name}": shapes.reduce for name in _REDUCE},
    "ArgMax": shapes.arg_reduce,
    "ArgMin": shapes.arg_reduce,
    "MatMul": meaning.matmul(0, 1),
    "MatMulInteger": meaning.matmul(0, 1),
    "QLinearMatMul": meaning.matmul(0, 3),
    "DynamicQuantizeMatMul": meaning.matmul(0, 1),
    "MatMulIntegerToFloat": meaning.matmul(0, 1),
    "MatMulNBits": meaning.nbits,
    "Gemm": meaning.gemm,
    "FusedGemm": meaning.gemm,
    "Conv": meaning.conv(1),
    "FusedConv": meaning.conv(1),
    "ConvInteger": meaning.conv(1),
    "QLinearConv": meaning.conv(3),
    "ConvTranspose": meaning.conv(1, is_transposed=True),
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool", "DepthToSpace", "SpaceToDepth"), meaning.pool),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"), meaning.global_pool),
    **dict.fromkeys(("Resize", "Upsample"), shapes.resize),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), meaning.recurrent),
    "Transpose": shapes.transpose,
    "Unsqueeze": shapes.unsqueeze,
    "Squeeze": shapes.squeeze,
    "Reshape": shapes.reshape,
    "Flatten": shapes.flatten,
    "Concat": shapes.concat,
    "Slice": shapes.cut,
    "Pad": shapes.pad,
    "Split": shapes.split,
    "Gather": meaning.gather,
    "OneHot": meaning.one_hot,
    "Einsum": meaning.einsum,
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), meaning.normalise),
    **dict.fromkeys(("SimplifiedLayerNormalization", "SkipLayerNormalization"), meaning.normalise),
    **dict.fromkeys(("BatchNormalization", "InstanceNormalization"), meaning.batch_normalise),
    **dict.fromkeys(("Attention", "MultiHeadAttention", "GroupQueryAttention"), meaning.attention),
    "EmbedLayerNormalization": meaning.embed,
    "NonMaxSuppression": meaning.suppress,
}


def walk(model: ModelProto, dims: tuple[InputDim, ...]) -> Trace:
    """Follow `dims` (those of the fed inputs, in order) through the model. Linear in the number of nodes."""
    trace = Trace(dims)
    for i, dim in enumerate(dims):
        trace.extents[dim.input] = (*trace.extents.get(dim.input, ()), At(i))
    fed = {value.name for value in model.graph.input} - {tensor.name for tensor in model.graph.initializer}
    for name in fed:
        trace.origins[name] = name
        trace.extents.setdefault(name, ())
    _graph(trace, model.graph)
    return trace


def _graph(trace: Trace, graph: GraphProto) -> None:
    for tensor in graph.initializer:
        trace.add_constant(tensor.name, tensor)
    for node in graph.node:
        _node(trace, node)


def _node(trace: Trace, node: NodeProto) -> None:
    if node.op_type == "Constant":
        _constant(trace, node)
        return
    if node.op_type == "Loop" and node.input and node.input[0] in trace.origins:
        trace.evidence.trips.add(trace.origins[node.input[0]])
    inner = subgraphs(node)  # nested at most as deep as protobuf parses (100 messages), so recursion is bounded
    for graph in inner:
        scope = trace.inner()
        _enter(scope, node, graph)
        _graph(scope, graph)
    rule = _RULES.get(node.op_type)
    if rule is not None and not inner:
        for name, extents in zip(node.output, rule(trace, node), strict=False):
            if name and extents is not None:
                trace.extents[name] = extents
    if node.op_type in _CARRY:
        origin = next((trace.origins[name] for name in node.input if name in trace.origins), None)
        for name in node.output if origin is not None else ():
            trace.origins[name] = str(origin)


def _constant(trace: Trace, node: NodeProto) -> None:
    if not node.output:
        return
    value = attribute(node, "value")
    if value is not None:
        trace.add_constant(node.output[0], value.t)
        return
    ints, one = attribute(node, "value_ints"), attribute(node, "value_int")
    if ints is not None:
        trace.constants[node.output[0]] = tuple(int(v) for v in ints.ints)
        trace.extents[node.output[0]] = (len(ints.ints),)
    elif one is not None:
        trace.constants[node.output[0]] = (int(one.i),)
        trace.extents[node.output[0]] = ()


def _enter(scope: Trace, node: NodeProto, graph: GraphProto) -> None:
    """Names of a Loop's body that stand for the node's own inputs: carried values start with their extents."""
    if node.op_type == "Loop":
        pairs = zip(list(graph.input)[2:], list(node.input)[2:], strict=False)
        for inner, outer in pairs:
            if (extents := scope.extents.get(outer)) is not None:
                scope.extents[inner.name] = loosen(extents)
