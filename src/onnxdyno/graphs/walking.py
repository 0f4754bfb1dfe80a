"""The walk itself: every node of a graph in order, subgraphs in the scope they see. See `tracing`."""

from collections.abc import Iterable, Sequence

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

from onnxdyno.graphs import arithmetic, meaning, shapes, targets
from onnxdyno.graphs.shapes import Rule
from onnxdyno.graphs.tracing import MOST_ELEMENTS, At, Extents, InputDim, Trace, attribute, loosen, subgraphs

MOST_INLINED = 100_000
"""Nodes of local functions that are walked in all: functions that call one another can stand for any number."""
MOST_DEPTH = 32
"""Calls of local functions within one another; a function that reaches itself is not a model."""

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

_KEEP_COUNT = frozenset("Identity Cast Unsqueeze Squeeze Reshape Expand".split())
"""Ops whose output counts 0, 1, 2 ... if their input does."""

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
    "Reshape": targets.reshape,
    "Flatten": targets.flatten,
    "Concat": shapes.concat,
    "Slice": targets.cut,
    "Expand": targets.expand,
    "Tile": targets.tile,
    "Range": targets.count,
    "ConstantOfShape": targets.made,
    **dict.fromkeys(("Shape", "Size"), targets.sized),
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
    step = Walk(model, dims)
    for node in model.graph.node:
        step.node(step.trace, node)
    return step.trace


class Walk:
    """A walk over one model, node by node: its local functions, and how many of their nodes were seen."""

    def __init__(self, model: ModelProto, dims: tuple[InputDim, ...]) -> None:
        self.functions = {(f.domain, f.name, f.overload): f for f in model.functions}
        self.inlined = 0
        self.calls: list[tuple[str, str, str]] = []
        self.trace = _start(model, dims)

    def node(self, trace: Trace, node: NodeProto) -> None:
        """Take one node, in the scope it stands in."""
        if self.calls:
            self.inlined += 1
            if self.inlined > MOST_INLINED:
                return
        called = self.functions.get((node.domain, node.op_type, node.overload)) if self.functions else None
        if called is not None:
            self.call(trace, node, called)
            return
        if node.op_type == "Constant":
            _constant(trace, node)
            return
        if node.op_type == "Loop" and node.input and node.input[0] in trace.origins:
            trace.evidence.trips.add(trace.origins[node.input[0]])
        inner = subgraphs(node)  # nested at most as deep as protobuf parses (100 messages), so recursion is bounded
        if inner:
            self.inside(trace, node, inner)
        else:
            _apply(trace, node)
        if node.op_type in _CARRY:
            origin = next((trace.origins[name] for name in node.input if name in trace.origins), None)
            for name in node.output if origin is not None else ():
                trace.origins[name] = str(origin)

    def inside(self, trace: Trace, node: NodeProto, inner: Sequence[GraphProto]) -> None:
        """Subgraphs in the scope they see. What both branches of an If agree on is known of its outputs."""
        ends: list[list[Extents | None]] = []
        for graph in inner:
            scope = trace.inner()
            _enter(scope, node, graph)
            for tensor in graph.initializer:
                scope.add_constant(tensor.name, tensor)
            for part in graph.node:
                self.node(scope, part)
            ends.append([scope.extents.get(value.name) for value in graph.output])
        if node.op_type != "If" or len(ends) != 2:
            return
        for name, one, other in zip(node.output, *ends, strict=False):
            if name and one is not None and other is not None and len(one) == len(other):
                trace.extents[name] = tuple(a if a == b else loosen([a])[0] for a, b in zip(one, other, strict=True))

    def call(self, trace: Trace, node: NodeProto, function: FunctionProto) -> None:
        """The body of a local function, with this node's inputs in place of its own: a view, nothing is copied."""
        name = (function.domain, function.name, function.overload)
        if name in self.calls or len(self.calls) >= MOST_DEPTH or self.inlined > MOST_INLINED:
            return
        scope = trace.inner(is_closed=True)
        for outer, inner in zip(node.input, function.input, strict=False):
            trace.hand_over(outer, scope, inner)
        self.calls.append(name)
        given = {a.name: a for a in (*function.attribute_proto, *node.attribute)}
        for part in function.node:
            if any(a.ref_attr_name for a in part.attribute):
                self.inlined += part.ByteSize() // 100  # a copy costs what it holds
                if self.inlined > MOST_INLINED:
                    break
                self.node(scope, _resolved(part, given))
            else:
                self.node(scope, part)
        self.calls.pop()
        for outer, inner in zip(node.output, function.output, strict=False):
            if outer:
                scope.hand_over(inner, trace, outer)


def _start(model: ModelProto, dims: tuple[InputDim, ...]) -> Trace:
    """What is known before the first node: fed inputs and stored tensors."""
    trace = Trace(dims)
    found: dict[str, list[At]] = {}
    for i, dim in enumerate(dims):
        found.setdefault(dim.input, []).append(At(i))
    trace.extents.update((name, tuple(extents)) for name, extents in found.items() if len(extents) <= MOST_ELEMENTS)
    fed = {value.name for value in model.graph.input} - {tensor.name for tensor in model.graph.initializer}
    for name in fed:
        trace.origins[name] = name
        if name not in found:
            trace.extents.setdefault(name, ())
    for tensor in model.graph.initializer:
        trace.add_constant(tensor.name, tensor)
    return trace


def _resolved(node: NodeProto, given: dict[str, AttributeProto]) -> NodeProto:
    """The node with attributes that refer to the function's own replaced by what the call gives."""
    copy = NodeProto()
    copy.CopyFrom(node)
    del copy.attribute[:]
    for a in node.attribute:
        if not a.ref_attr_name:
            copy.attribute.append(a)
        elif a.ref_attr_name in given:
            copy.attribute.append(given[a.ref_attr_name])
            copy.attribute[-1].name = a.name
    return copy


def _apply(trace: Trace, node: NodeProto) -> None:
    """What the rules say of the extents and of the elements of a node's outputs."""
    rule = _RULES.get(node.op_type)
    for name, extents in zip(node.output, rule(trace, node), strict=False) if rule is not None else ():
        if name and extents is not None and len(extents) <= MOST_ELEMENTS:
            trace.extents[name] = extents
    rule_of_values = arithmetic.VALUES.get(node.op_type)
    values = rule_of_values(trace, node) if rule_of_values is not None and node.output else None
    if values is not None and len(values) <= MOST_ELEMENTS:
        trace.values[node.output[0]] = values
    if node.op_type in _KEEP_COUNT and node.input and node.input[0] in trace.counted:
        trace.counted.update(dict.fromkeys(node.output[:1], trace.counted[node.input[0]]))


def _constant(trace: Trace, node: NodeProto) -> None:
    if not node.output:
        return
    value = attribute(node, "value")
    if value is not None:
        trace.add_constant(node.output[0], value.t)
        return
    ints, one = attribute(node, "value_ints"), attribute(node, "value_int")
    if ints is not None:
        trace.extents[node.output[0]] = (len(ints.ints),)
        if len(ints.ints) <= MOST_ELEMENTS:
            trace.values[node.output[0]] = tuple(int(v) for v in ints.ints)
    elif one is not None:
        trace.values[node.output[0]] = (int(one.i),)
        trace.extents[node.output[0]] = ()


def _enter(scope: Trace, node: NodeProto, graph: GraphProto) -> None:
    """Names of a Loop's body that stand for the node's own inputs: carried values start with their extents."""
    if node.op_type == "Loop":
        pairs: Iterable[tuple[str, str]] = zip(
            [value.name for value in graph.input[2:]], list(node.input)[2:], strict=False
        )
        for inner, outer in pairs:
            if (extents := scope.extents.get(outer)) is not None:
                scope.extents[inner] = loosen(extents)
