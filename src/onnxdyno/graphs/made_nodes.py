"""Nodes that the runtime made itself: their cost from the shapes that the profile tells, where shapes are enough."""

import re

from onnx import NodeProto, TensorProto

from onnxdyno.domain.cost import NodeWork
from onnxdyno.domain.outcomes import NodeTiming
from onnxdyno.graphs.cost.formulas.table import flops
from onnxdyno.graphs.cost.operands import Operands
from onnxdyno.graphs.cost.traffic import traffic
from onnxdyno.graphs.cost.values import NotCounted, Value

_MOVES = frozenset("ReorderInput ReorderOutput MemcpyFromHost MemcpyToHost".split())
"""Operators of the runtime's own that change where or how values lie."""

_BY_SHAPES = frozenset(
    """
    Add Sub Mul Div Pow Max Min Sum Abs Neg Sqrt Exp Log Erf Tanh Sigmoid Relu LeakyRelu Clip HardSigmoid HardSwish Elu
    Gelu BiasGelu FastGelu QuickGelu QLinearAdd QLinearMul QLinearSigmoid QLinearLeakyRelu
    SkipLayerNormalization SkipSimplifiedLayerNormalization LayerNormalization SimplifiedLayerNormalization Softmax
    QuantizeLinear DequantizeLinear DynamicQuantizeLinear Cast Transpose Concat Split Identity Where
    Reshape Squeeze Unsqueeze Flatten
    """.split()
)
"""Operators whose formula asks for nothing but the shapes of the operands."""

_CONTRIB = frozenset(
    """
    BiasGelu FastGelu QuickGelu QLinearAdd QLinearMul QLinearSigmoid QLinearLeakyRelu SkipLayerNormalization
    SkipSimplifiedLayerNormalization SimplifiedLayerNormalization
    """.split()
)
_TYPES = {
    "float": TensorProto.FLOAT,
    "double": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "bool": TensorProto.BOOL,
    **{
        name: getattr(TensorProto, name.upper()) for name in "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
    },
}
_TENSOR = re.compile(r"(\w+)\[([\d,]*)\](?: |$)")


def work_by_shapes(timing: NodeTiming) -> NodeWork:
    """The work of a node with no counterpart in the file."""
    op_type = timing.op_type
    if op_type not in _MOVES | _BY_SHAPES:
        return _unmatched(f"{op_type} has no counterpart of its name in the file")
    domain = "com.microsoft" if op_type in _CONTRIB else ""
    inputs, outputs = _tensors(timing.input_shapes), _tensors(timing.output_shapes)
    if not inputs or not outputs:
        return _unmatched("the profile does not tell its shapes")
    node = NodeProto(op_type=op_type, domain=domain)
    node.input.extend(f"i{at}" for at in range(len(inputs)))
    node.output.extend(f"o{at}" for at in range(len(outputs)))
    op = Operands(node=node, inputs=inputs, outputs=outputs, attributes={})
    try:
        read_bytes, written_bytes = traffic(op)
        counted = 0 if op_type in _MOVES else flops(op)
    except NotCounted as error:
        return _unmatched(str(error))
    return NodeWork(flops=counted, read_bytes=read_bytes, written_bytes=written_bytes, basis="shapes")


def _tensors(text: str) -> list[Value]:
    """`float[1,3] int64[]` as values; empty if any is no tensor of numbers."""
    found = _TENSOR.findall(text)
    if sum(len(dtype) + len(dims) + 3 for dtype, dims in found) - 1 != len(text):
        return []
    if any(dtype not in _TYPES for dtype, _ in found):
        return []
    return [
        Value(elem_type=_TYPES[dtype], shape=tuple(int(size) for size in dims.split(",") if size))
        for dtype, dims in found
    ]


def _unmatched(reason: str) -> NodeWork:
    return NodeWork(flops=None, read_bytes=None, written_bytes=None, basis=None, reason=reason)
