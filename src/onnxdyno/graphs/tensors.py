"""Walks over everything a model file holds. Iterative: nesting is as deep as the file says, not as Python's stack."""

from collections import deque
from collections.abc import Iterable, Iterator

from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    TensorShapeProto,
    ValueInfoProto,
)


def graphs(model: ModelProto) -> Iterator[GraphProto]:
    """The main graph, then every subgraph of If, Loop, Scan and of the model's functions, parents first."""
    pending = deque([model.graph])
    pending.extend(g for training in model.training_info for g in (training.initialization, training.algorithm))
    for function in model.functions:
        pending.extend(_subgraphs(function.node))
    while pending:
        graph = pending.popleft()
        yield graph
        pending.extend(_subgraphs(graph.node))


def nodes(model: ModelProto) -> Iterator[NodeProto]:
    """Every node of the main graph, of subgraphs and of functions."""
    for graph in graphs(model):
        yield from graph.node
    for function in model.functions:
        yield from function.node


def tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Every tensor stored in the file: initializers and attributes, sparse parts included."""
    for graph in graphs(model):
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield from _parts(sparse)
    for node in nodes(model):
        for attribute in node.attribute:
            yield from attribute_tensors(attribute)
    for function in model.functions:
        for attribute in function.attribute_proto:
            yield from attribute_tensors(attribute)


def texts(model: ModelProto) -> Iterator[str]:
    """Every name in the file that is read. Protobuf hands out bytes, not str, where one is not UTF-8."""
    yield from (model.producer_name, model.producer_version)
    yield from (opset.domain for opset in model.opset_import)
    for node in nodes(model):
        yield from (node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)
    for tensor in tensors(model):
        yield tensor.name
        yield from (text for entry in tensor.external_data for text in (entry.key, entry.value))
    for graph in graphs(model):
        for value in (*graph.input, *graph.output):
            yield value.name
            yield from (dim.dim_param for dim in _dims(value))


def _dims(value: ValueInfoProto) -> Iterator[TensorShapeProto.Dimension]:
    type_ = value.type
    while (which := type_.WhichOneof("value")) in ("sequence_type", "optional_type"):
        type_ = type_.sequence_type.elem_type if which == "sequence_type" else type_.optional_type.elem_type
    if which in ("tensor_type", "sparse_tensor_type"):
        yield from (type_.tensor_type if which == "tensor_type" else type_.sparse_tensor_type).shape.dim


def attribute_tensors(attribute: AttributeProto) -> Iterator[TensorProto]:
    """Tensors held directly by one attribute (those of its subgraphs come from `graphs`)."""
    if attribute.HasField("t"):
        yield attribute.t
    yield from attribute.tensors
    if attribute.HasField("sparse_tensor"):
        yield from _parts(attribute.sparse_tensor)
    for sparse in attribute.sparse_tensors:
        yield from _parts(sparse)


def _parts(sparse: SparseTensorProto) -> Iterator[TensorProto]:
    yield sparse.values
    yield sparse.indices


def _subgraphs(within: Iterable[NodeProto]) -> Iterator[GraphProto]:
    for node in within:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield attribute.g
            yield from attribute.graphs
