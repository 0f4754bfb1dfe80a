"""Parameters and bytes of a model: initializers, Constant weights, weights that ConstantOfShape makes at load."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from onnxdyno.graphs.dtypes import bits_of, dtype_name
from onnxdyno.graphs.tensors import graphs, nodes
from onnxdyno.graphs.tracing import attribute, small_integers

_NOT_WEIGHTS = ("int64", "bool", "string", "unknown")
"""Types of shapes, axes, position buffers and texts: stored in the file, but nothing was trained."""

_MOST_RANK = 64

_MOST_MADE_ELEMENTS = 1 << 31
"""More than this from a ConstantOfShape is an attack or an activation, not a weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """One tensor of weights."""

    name: str
    dtype: str
    elements: int

    @property
    def size_bytes(self) -> int:
        """Bytes it takes; 4-bit types are packed."""
        return (self.elements * bits_of(self.dtype) + 7) // 8


def weights(model: ModelProto) -> tuple[Weight, ...]:
    """Every weight once."""
    found = [weight for graph in graphs(model) for weight in _of_graph(graph)]
    found.extend(w for function in model.functions for w in _of_constants(function.node))
    return tuple(weight for weight in found if weight.dtype not in _NOT_WEIGHTS)


def precision(model: ModelProto, found: tuple[Weight, ...], input_dtype: str) -> str:
    """The type that holds most bytes; `/QDQ` or `/QLinear` says that it is used quantised. No weights: the input's."""
    sizes: Counter[str] = Counter()
    for weight in found:
        sizes[weight.dtype] += weight.size_bytes
    if not sizes:
        return input_dtype
    most = sizes.most_common(1)[0][0]
    ops = {node.op_type for node in nodes(model)}
    if bits_of(most) > 8:
        return most
    if any(op.startswith("QLinear") or op in ("ConvInteger", "MatMulInteger") for op in ops):
        return f"{most}/QLinear"
    return f"{most}/QDQ" if "DequantizeLinear" in ops else most


def _of_graph(graph: GraphProto) -> Iterator[Weight]:
    for tensor in graph.initializer:
        yield Weight(name=tensor.name, dtype=dtype_name(tensor.data_type), elements=_elements(tensor))
    for sparse in graph.sparse_initializer:
        values = sparse.values
        yield Weight(name=values.name, dtype=dtype_name(values.data_type), elements=_elements(values))
    yield from _of_constants(graph.node)
    shapes = {tensor.name: values for tensor in graph.initializer if (values := small_integers(tensor)) is not None}
    for node in graph.node:
        made = _made(node, shapes)
        if made is not None:
            yield made


def _of_constants(within: "Iterator[NodeProto] | list[NodeProto]") -> Iterator[Weight]:
    """Constant nodes of more than one element; single numbers are part of a formula."""
    for node in within:
        value = attribute(node, "value") if node.op_type == "Constant" else None
        if value is not None and node.output and _elements(value.t) > 1:
            yield Weight(name=node.output[0], dtype=dtype_name(value.t.data_type), elements=_elements(value.t))


def _made(node: NodeProto, shapes: dict[str, tuple[int, ...]]) -> Weight | None:
    """ConstantOfShape of a stored shape with a value other than 0: how files without weights stand for them."""
    shape = shapes.get(node.input[0]) if node.op_type == "ConstantOfShape" and node.input else None
    value = attribute(node, "value")
    if shape is None or value is None or not node.output or prod(shape) > _MOST_MADE_ELEMENTS:
        return None
    return Weight(name=node.output[0], dtype=dtype_name(value.t.data_type), elements=prod(shape))


def _elements(tensor: TensorProto) -> int:
    """0 for a tensor of more dimensions than any runtime takes: the product of millions of them would not end."""
    return 0 if len(tensor.dims) > _MOST_RANK else prod(max(0, int(size)) for size in tensor.dims)
