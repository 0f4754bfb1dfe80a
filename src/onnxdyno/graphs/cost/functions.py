"""Functions that a model defines itself: written out in the graph, as runtimes do, within bounds."""

from collections.abc import Iterator

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, inliner

from onnxdyno.graphs.cost.values import MOST_KNOWN_ELEMENTS, NotCounted, Value
from onnxdyno.graphs.tracing import subgraphs

_MOST_NODES = 1_000_000
_MOST_DEPTH = 100
"""Calls within calls; the inliner recurses."""

_Key = tuple[str, str, str]


def without_functions(model: ModelProto) -> ModelProto:
    """The model with every call of its own functions written out; weights become empty tensors of the same shape.

    Raises `NotCounted` if functions call themselves, nest too deeply or would grow beyond bounds.
    """
    if not model.functions:
        return model
    bodies = {_name(function): function for function in model.functions}
    sizes = _sizes(bodies)
    total = sum(sizes.get(_called(node), 1) for node in _every_node(model.graph.node))
    if total > _MOST_NODES:
        raise NotCounted(f"its functions written out have {total} nodes; at most {_MOST_NODES} are counted")
    light = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    light.graph.CopyFrom(_without_weights(model.graph))
    try:
        inlined: ModelProto = inliner.inline_local_functions(light)
    except (RuntimeError, ValueError) as error:
        raise NotCounted("its functions cannot be written out") from error
    return inlined


def _sizes(bodies: dict[_Key, FunctionProto]) -> dict[_Key, int]:
    """Nodes of each function with all calls in it written out. Iterative: calls may nest as deep as the file says."""
    calls = {key: [_called(node) for node in _every_node(body.node)] for key, body in bodies.items()}
    inner = {key: {called for called in found if called in bodies} for key, found in calls.items()}
    sizes: dict[_Key, int] = {}
    for _ in range(_MOST_DEPTH):
        ready = [key for key in bodies if key not in sizes and inner[key] <= sizes.keys()]
        for key in ready:
            sizes[key] = 1 + sum(sizes.get(called, 1) for called in calls[key])
        if len(sizes) == len(bodies):
            return sizes
        if not ready:
            raise NotCounted("its functions call one another in a circle")
    raise NotCounted(f"its functions nest more than {_MOST_DEPTH} deep")


def _every_node(nodes: "Iterator[NodeProto] | list[NodeProto]") -> Iterator[NodeProto]:
    pending = list(nodes)
    while pending:
        node = pending.pop()
        yield node
        for graph in subgraphs(node):
            pending.extend(graph.node)


def _name(function: FunctionProto) -> _Key:
    return function.domain, function.name, function.overload


def _called(node: NodeProto) -> _Key:
    return node.domain, node.op_type, node.overload


def _without_weights(graph: GraphProto) -> GraphProto:
    light = GraphProto(name=graph.name, node=graph.node, input=graph.input, output=graph.output)
    for tensor in graph.initializer:
        is_small = Value(elem_type=tensor.data_type, shape=tuple(tensor.dims)).elements
        if is_small is not None and is_small <= MOST_KNOWN_ELEMENTS:
            light.initializer.append(tensor)
        else:
            light.initializer.append(
                TensorProto(
                    name=tensor.name,
                    data_type=tensor.data_type,
                    dims=tensor.dims,
                    data_location=TensorProto.EXTERNAL,
                )
            )
    return light
