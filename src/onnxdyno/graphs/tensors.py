"""Walks over everything a model file holds. Iterative: nesting is as deep as the file says, not as Python's stack."""

from collections import deque
from collections.abc import Iterable, Iterator

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto


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
