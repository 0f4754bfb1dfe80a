"""Ops that give dimensions a meaning: products, convolutions, recurrences, look-ups. See `tracing`."""

from onnx import NodeProto

from onnxdyno.domain.axes import Role
from onnxdyno.graphs.shapes import Outputs, Rule, broadcast, constant_of, extents_of, origin_of
from onnxdyno.graphs.targets import limit
from onnxdyno.graphs.tracing import Extent, Extents, Trace, attribute, integer, integers, loosen

_SPATIAL = {
    3: (Role.TIME,),
    4: (Role.HEIGHT, Role.WIDTH),
    5: (Role.OTHER, Role.HEIGHT, Role.WIDTH),
}


def matmul(left: int, right: int) -> Rule:
    """MatMul and its quantised kin; the arguments are the positions of the two operands."""

    def rule(trace: Trace, node: NodeProto) -> Outputs:
        a, b = extents_of(trace, node, left), extents_of(trace, node, right)
        if not a or not b:
            return [None]
        trace.contract(a[-1], b[-2] if len(b) > 1 else b[-1])
        rank = max(len(a), len(b))
        columns = [[e[len(e) - back] for e in (a, b) if len(e) >= back] for back in range(rank, 2, -1)]
        tail = (*a[-2:-1], *(b[-1:] if len(b) > 1 else ()))
        return [(*(trace.meet(column) for column in columns), *tail)]

    return rule


def gemm(trace: Trace, node: NodeProto) -> Outputs:
    """Gemm with its transpositions."""
    a, b = extents_of(trace, node, 0), extents_of(trace, node, 1)
    if a is None or b is None or len(a) != 2 or len(b) != 2:
        return [None]
    a = a[::-1] if integer(node, "transA", 0) else a
    b = b[::-1] if integer(node, "transB", 0) else b
    trace.contract(a[1], b[0])
    return [(a[0], b[1])]


def nbits(trace: Trace, node: NodeProto) -> Outputs:
    """MatMulNBits: the weight is packed, its size is in the attributes."""
    a = extents_of(trace, node, 0)
    if not a:
        return [None]
    trace.pin(a[-1], integer(node, "K", 0))
    return [(*a[:-1], integer(node, "N", 0) or None)]


def image(trace: Trace, extents: Extents) -> None:
    """Votes of an op whose input is [batch, channels, spatial...]."""
    roles = _SPATIAL.get(len(extents))
    if roles is not None:
        trace.vote(extents[0], Role.BATCH, 5)
        trace.vote(extents[1], Role.CHANNELS, 9)
        for extent, role in zip(extents[2:], roles, strict=True):
            trace.vote(extent, role, 8 if role is Role.TIME else 6)


def conv(weight: int, *, is_transposed: bool = False) -> Rule:
    """Convolutions; the argument is the position of the weight."""

    def rule(trace: Trace, node: NodeProto) -> Outputs:
        x, w = extents_of(trace, node, 0), extents_of(trace, node, weight)
        if x is None or len(x) < 3:
            return [None]
        image(trace, x)
        if w is None or len(w) != len(x):
            return [(x[0], None, *loosen(x[2:]))]
        groups = integer(node, "group", 1)
        expected, made = (w[0], w[1]) if is_transposed else (w[1], w[0])
        trace.pin(x[1], expected * groups if isinstance(expected, int) and not is_transposed else expected)
        is_pointwise = all(size == 1 for size in w[2:]) and set(integers(node, "strides") or (1,)) == {1}
        return [(x[0], made if isinstance(made, int) else None, *(x[2:] if is_pointwise else loosen(x[2:])))]

    return rule


def pool(trace: Trace, node: NodeProto) -> Outputs:
    """Local pooling and resizing: batch and channels stay."""
    x = extents_of(trace, node, 0)
    if x is None or len(x) < 3:
        return [None]
    image(trace, x)
    return [(x[0], x[1], *loosen(x[2:]))]


def global_pool(trace: Trace, node: NodeProto) -> Outputs:
    """Global pooling: spatial dimensions become 1."""
    x = extents_of(trace, node, 0)
    if x is None or len(x) < 3:
        return [None]
    image(trace, x)
    return [(x[0], x[1], *(1 for _ in x[2:]))]


def recurrent(trace: Trace, node: NodeProto) -> Outputs:
    """LSTM, GRU, RNN: X[T,N,I], states [D,N,H]; with layout 1 batch comes first."""
    x, w = extents_of(trace, node, 0), extents_of(trace, node, 1)
    batch_first = integer(node, "layout", 0) == 1
    states = [s for i in (5, 6) if (s := extents_of(trace, node, i)) is not None and len(s) == 3]
    lengths = extents_of(trace, node, 4)
    batches: list[Extent] = [state[0 if batch_first else 1] for state in states]
    batches.extend(lengths[:1] if lengths else ())
    if x is not None and len(x) == 3:
        batch, steps = (x[0], x[1]) if batch_first else (x[1], x[0])
        batches.insert(0, batch)
        trace.vote(steps, Role.SEQUENCE, 8)
        trace.pin(x[2], w[2] if w is not None and len(w) == 3 else None)
    else:
        steps = None
    for batch in batches:
        trace.vote(batch, Role.BATCH, 8)
    together = trace.meet(batches) if batches else None
    origin = origin_of(trace, node, 4)
    if origin is not None:
        trace.evidence.lengths.setdefault(origin, steps)
    for state in states:
        trace.pin(state[2], integer(node, "hidden_size", 0))
    directions = w[0] if w else None
    state_out: Extents = (directions, together, integer(node, "hidden_size", 0) or None)
    y: Extents = (steps, directions, together, state_out[2])
    if batch_first:
        y, state_out = (together, steps, directions, state_out[2]), (together, directions, state_out[2])
    return [y, state_out, state_out]


def gather(trace: Trace, node: NodeProto) -> Outputs:
    """Look-up: the indices of a constant table are token ids below its size."""
    data, indices = extents_of(trace, node, 0), extents_of(trace, node, 1)
    if not data:
        return [None]
    axis = integer(node, "axis", 0) % len(data)
    size = trace.size(data[axis])
    origin = origin_of(trace, node, 1)
    counted = trace.counted.get(node.input[1]) if len(node.input) > 1 else None
    if counted is not None and isinstance(size, int):
        limit(trace, counted, size)
    if isinstance(size, int) and origin is not None:
        trace.evidence.tables.setdefault(origin, []).append(size)
        tokens(trace, indices)
    return [None if indices is None else (*data[:axis], *indices, *data[axis + 1 :])]


def tokens(trace: Trace, ids: Extents | None) -> None:
    """Votes of an input whose values are looked up."""
    trace.vote_all(ids, (Role.BATCH, Role.SEQUENCE), 4)


def one_hot(trace: Trace, node: NodeProto) -> Outputs:
    """OneHot over the last dimension; its depth bounds the values."""
    indices, depth = extents_of(trace, node, 0), constant_of(trace, node, 1)
    origin = origin_of(trace, node, 0)
    if depth and origin is not None:
        trace.evidence.tables.setdefault(origin, []).append(depth[0])
    return [
        (*indices, depth[0] if depth else None) if indices is not None and integer(node, "axis", -1) == -1 else None
    ]


def compare(trace: Trace, node: NodeProto) -> Outputs:
    """Comparisons with a constant say which values the model knows."""
    for this, that in ((0, 1), (1, 0)):
        values = constant_of(trace, node, that)
        origin = origin_of(trace, node, this)
        if origin is None or that >= len(node.input):
            continue
        if values is not None and len(values) == 1:
            trace.evidence.compared.setdefault(origin, []).append(values[0])
        elif node.op_type == "Equal" and (depth := trace.ramp(node.input[that])) is not None:
            trace.evidence.tables.setdefault(origin, []).append(depth)  # a one-hot spelt out
    return broadcast(trace, node)


def normalise(trace: Trace, node: NodeProto) -> Outputs:
    """LayerNormalization and kin: the scale has the size of the last dimension."""
    x = extents_of(trace, node, 0)
    scales = [s for i in (1, 2) if (s := extents_of(trace, node, i)) is not None and len(s) == 1]
    if x and scales and "Skip" not in node.op_type:
        trace.pin(x[-1], scales[0][0])
    return [x]


def batch_normalise(trace: Trace, node: NodeProto) -> Outputs:
    """BatchNormalization: the scale has the size of the channels."""
    x, scale = extents_of(trace, node, 0), extents_of(trace, node, 1)
    if x is not None and len(x) > 1 and scale:
        trace.pin(x[1], scale[0])
        trace.vote(x[1], Role.CHANNELS, 7)
    return [x]


def attention(trace: Trace, node: NodeProto) -> Outputs:
    """Attention in its fused forms: the first input is [batch, sequence, hidden]."""
    x = extents_of(trace, node, 0)
    trace.vote_all(x and x[:2], (Role.BATCH, Role.SEQUENCE), 5)
    return [x if node.op_type != "Attention" else None]


def embed(trace: Trace, node: NodeProto) -> Outputs:
    """EmbedLayerNormalization(ids, segments, word table, position table, segment table)."""
    ids = extents_of(trace, node, 0)
    for position, table in ((0, 2), (1, 4)):
        rows, origin = extents_of(trace, node, table), origin_of(trace, node, position)
        if rows and isinstance(rows[0], int) and origin is not None:
            trace.evidence.tables.setdefault(origin, []).append(rows[0])
    tokens(trace, ids)
    return [(*ids, None) if ids is not None else None]


def suppress(trace: Trace, node: NodeProto) -> Outputs:
    """NonMaxSuppression: boxes [batch, boxes, 4], scores [batch, classes, boxes]."""
    boxes, scores = extents_of(trace, node, 0), extents_of(trace, node, 1)
    if boxes is not None and scores is not None and len(boxes) == len(scores) == 3:
        trace.meet([boxes[0], scores[0]])
        trace.meet([boxes[1], scores[2]])
        trace.vote(boxes[0], Role.BATCH, 5)
        trace.vote(boxes[1], Role.OTHER, 5)
        trace.pin(boxes[2], 4)
    return [(None, 3)]


def einsum(trace: Trace, node: NodeProto) -> Outputs:
    """One letter, one extent."""
    found = attribute(node, "equation")
    equation = found.s.decode("ascii", "replace").replace(" ", "") if found is not None else ""
    left, arrow, right = equation.partition("->")
    if not arrow or "." in equation:
        return [None]
    letters: dict[str, list[Extent]] = {}
    for position, term in enumerate(left.split(",")):
        extents = extents_of(trace, node, position)
        if extents is not None and len(extents) == len(term):
            for letter, extent in zip(term, extents, strict=True):
                letters.setdefault(letter, []).append(extent)
    for extents_here in letters.values():
        sizes = [e for e in extents_here if isinstance(e, int) and e > 1]
        for extent in extents_here:
            trace.pin(extent, sizes[0] if sizes else None)
    met = {letter: trace.meet(extents_here) for letter, extents_here in letters.items()}
    return [tuple(met.get(letter) for letter in right)]
