"""Models of a few nodes, made in a test, and their cost."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from onnxdyno.domain.axes import axis_sizes
from onnxdyno.domain.cost import Cost
from onnxdyno.graphs.cost import cost_at
from onnxdyno.graphs.signature import signature_of

FLOAT = TensorProto.FLOAT
Operand = tuple[int | str, ...] | tuple[tuple[int | str, ...], int] | np.ndarray[Any, Any] | None
"""A fed float tensor by its shape, or (shape, element type), a stored tensor, or None = left out."""


def model_of(
    nodes: Sequence[NodeProto],
    fed: dict[str, Any],
    outputs: Sequence[str],
    *,
    stored: dict[str, np.ndarray[Any, Any]] | None = None,
    opset: int = 17,
    functions: Sequence[FunctionProto] = (),
) -> ModelProto:
    """A model; `fed` maps a name to a shape or to (shape, element type)."""
    inputs = []
    for name, given in fed.items():
        shape, elem_type = given if given and isinstance(given[0], tuple) else (given, FLOAT)
        inputs.append(helper.make_tensor_value_info(name, elem_type, shape))
    graph = helper.make_graph(
        nodes,
        "graph",
        inputs,
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (stored or {}).items()],
    )
    domains = {"": opset, "com.microsoft": 1, "ai.onnx.ml": 3, "own": 1}
    imports = [helper.make_opsetid(domain, version) for domain, version in domains.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, functions=list(functions))


def cost_of(model: ModelProto, **sizes: int) -> Cost:
    """Its cost at these axis sizes."""
    return cost_at(model, signature_of(model), axis_sizes(sizes))


def cost_of_one(
    op_type: str, *operands: Operand, outputs: int = 1, domain: str = "", opset: int = 17, **attributes: Any
) -> Cost:
    """Cost of a model of one node."""
    names = ["" if operand is None else f"i{place}" for place, operand in enumerate(operands)]
    node = helper.make_node(op_type, names, [f"o{place}" for place in range(outputs)], domain=domain, **attributes)
    given = [(name, operand) for name, operand in zip(names, operands, strict=True) if operand is not None]
    fed = {name: operand for name, operand in given if not isinstance(operand, np.ndarray)}
    stored = {name: operand for name, operand in given if isinstance(operand, np.ndarray)}
    return cost_of(model_of([node], fed, list(node.output), stored=stored, opset=opset))


def subgraph(nodes: Sequence[NodeProto], inputs: dict[str, Any], outputs: Sequence[str]) -> GraphProto:
    """A branch or a body; inputs as in `model_of`."""
    return model_of(nodes, inputs, outputs).graph
