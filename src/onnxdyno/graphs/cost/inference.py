"""Types and shapes of a node's outputs from its inputs: onnx's own inference, one node at a time.

One node at a time, because between nodes the walk computes what shape arithmetic says; a whole-graph pass would need
as many rounds as such chains are long. Equal nodes with equal inputs are inferred once.
"""

from collections.abc import Sequence

from onnx import NodeProto, OperatorSetIdProto, TypeProto, defs, numpy_helper, shape_inference
from onnx.checker import ValidationError
from onnx.defs import SchemaError
from onnx.shape_inference import InferenceError

from onnxdyno.domain.text import printable
from onnxdyno.graphs.cost.contrib import borrowed, contrib_outputs
from onnxdyno.graphs.cost.gaps import RULES
from onnxdyno.graphs.cost.operands import Operands
from onnxdyno.graphs.cost.shapes import broadcast, type_at
from onnxdyno.graphs.cost.values import MOST_RANK, UNKNOWN, NotCounted, Shape, Value, declared, type_of

ONNX = ("", "ai.onnx")
DOMAINS = (*ONNX, "ai.onnx.ml", "com.microsoft", "com.ms.internal.nhwc")
"""Domains whose operators are known by name; the same name elsewhere means something else."""

_FLOATS_GIVE_SIZES = ("Resize", "Upsample", "Range")

_NOT_BY_ONNX = frozenset(("GatherND", "LayerNormalization", "Split"))
"""onnx 1.23 reads out of bounds on hostile attributes of these (found by fuzzing): `gaps` has their rules."""

_LISTS_GIVE_RANKS = frozenset("Expand ConstantOfShape Reshape Tile Resize Upsample Pad CenterCropPad Col2Im".split())

_REFUSALS = (
    InferenceError,
    ValidationError,
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    MemoryError,
)
"""What onnx raises on a node that breaks its operator's rules; C++ exceptions arrive under many names."""

_Outputs = tuple[tuple[Value, ...], str | None]


class Inference:
    """Shape inference for the nodes of one model."""

    def __init__(self, opsets: dict[str, int], ir_version: int) -> None:
        self._opsets = {("" if domain == "ai.onnx" else domain): version for domain, version in opsets.items()}
        self._imports = [OperatorSetIdProto(domain=domain, version=version) for domain, version in self._opsets.items()]
        self._ir_version = ir_version
        self._schemas: dict[tuple[str, str], defs.OpSchema | None] = {}
        self._remembered: dict[object, _Outputs] = {}

    def outputs(self, op: Operands) -> tuple[list[Value | None], str | None]:
        """One value per output name (None where the output is left out), and why shapes are unknown, if any is."""
        key = self._key(op)
        if key not in self._remembered:
            try:
                self._remembered[key] = self._infer(op), None
            except NotCounted as error:
                self._remembered[key] = (UNKNOWN,) * len(op.node.output), str(error)
        values, reason = self._remembered[key]
        return [value if name else None for name, value in zip(op.node.output, values, strict=True)], reason

    def _key(self, op: Operands) -> object:
        attributes = tuple(sorted(a.SerializeToString() for a in op.attributes.values()))
        inputs = tuple(None if value is None else _signature(op.node.op_type, value) for value in op.inputs)
        return op.node.domain, op.node.op_type, attributes, inputs, tuple(bool(name) for name in op.node.output)

    def _infer(self, op: Operands) -> tuple[Value, ...]:
        node = op.node
        if node.domain not in DOMAINS:
            raise NotCounted(f"nothing is known of operators of domain '{printable(node.domain)}'")
        _check_ranks(op)
        schema = None if node.op_type in _NOT_BY_ONNX else self._schema(node)
        if schema is not None:
            values = self._by_schema(schema, node, op.inputs)
            if all(value.shape is not None or value.other_type is not None for value in values):
                return values
            return self._by_rule(op) if node.op_type in RULES else _elementwise(op, values)
        like = borrowed(node.op_type)
        return self._as_if(op, *like) if like is not None else self._by_rule(op)

    def _by_rule(self, op: Operands) -> tuple[Value, ...]:
        made = contrib_outputs(op)
        if made is None:
            raise NotCounted(f"no shape rule for {printable(op.node.op_type)}")
        values = tuple(Value(elem_type=elem_type, shape=shape) for elem_type, shape in made)
        return (*values, *(UNKNOWN,) * len(op.node.output))[: len(op.node.output)]

    def _as_if(self, op: Operands, op_type: str, places: tuple[int, ...]) -> tuple[Value, ...]:
        """Shapes of an op that has the shape rule of another one."""
        given = [place for place in places if place < len(op.node.input)]
        node = NodeProto(op_type=op_type, output=op.node.output, input=[op.node.input[place] for place in given])
        schema = self._schema(node)
        if schema is None:
            raise NotCounted(f"no shape rule for {op.node.op_type}")
        node.attribute.extend(a for name, a in op.attributes.items() if name in schema.attributes)
        return self._by_schema(schema, node, [op.inputs[place] for place in given])

    def _schema(self, node: NodeProto) -> defs.OpSchema | None:
        domain = "" if node.domain == "ai.onnx" else node.domain
        key = domain, node.op_type
        if key not in self._schemas:
            version = self._opsets.get(domain, defs.onnx_opset_version() if not domain else 1)
            try:
                self._schemas[key] = defs.get_schema(node.op_type, max(1, min(version, 2**31 - 1)), domain)
            except SchemaError:
                self._schemas[key] = None
        return self._schemas[key]

    def _by_schema(self, schema: defs.OpSchema, node: NodeProto, inputs: Sequence[Value | None]) -> tuple[Value, ...]:
        types: dict[str, TypeProto] = {}
        elements = {}
        for name, value in zip(node.input, inputs, strict=True):
            if value is None:
                continue
            types[name] = type_of(value)
            if value.known is not None and _is_passed(node.op_type, value):
                elements[name] = numpy_helper.from_array(value.known, name)
        try:
            found = shape_inference.infer_node_outputs(
                schema, node, types, elements, opset_imports=self._imports, ir_version=self._ir_version
            )
        except _REFUSALS as error:
            raise NotCounted(printable(" ".join(str(error).split()), most=160)) from error
        return tuple(declared(found[name]) if name in found else UNKNOWN for name in node.output)


def _is_passed(op_type: str, value: Value) -> bool:
    """Whether inference is shown the elements: integers can be sizes, floats only for a few ops."""
    return value.known is not None and (value.known.dtype.kind in "iub" or op_type in _FLOATS_GIVE_SIZES)


def _signature(op_type: str, value: Value) -> object:
    if value.other_type is not None:
        return value.other_type.SerializeToString()
    elements = value.known.tobytes() if value.known is not None and _is_passed(op_type, value) else None
    return value.elem_type, value.shape, elements


def _check_ranks(op: Operands) -> None:
    """The length of a list of sizes is a rank: a hostile one would fill the memory."""
    if op.node.op_type not in _LISTS_GIVE_RANKS:
        return
    for value in op.inputs:
        is_list = value is not None and value.shape is not None and len(value.shape) == 1 and value.known is None
        if is_list and value is not None and (value.elements or 0) > MOST_RANK:
            raise NotCounted(f"a tensor of rank {value.elements}")


def _elementwise(op: Operands, values: tuple[Value, ...]) -> tuple[Value, ...]:
    """Old operator versions without shape inference: elementwise ones keep or broadcast the shape of their inputs."""
    keeps = _KEEPS.get(op.node.op_type)
    if keeps is None or not values:
        return values
    if op.node.op_type == "Dropout":
        return tuple(Value(elem_type=value.elem_type or type_at(op), shape=op.shape(0)) for value in values)
    shape: Shape = op.shape(0) if keeps == 1 else broadcast(*(op.shape(i) for i in range(len(op.inputs))))
    return (Value(elem_type=values[0].elem_type or type_at(op), shape=shape), *values[1:])


_KEEPS = {
    **dict.fromkeys("Relu Sigmoid Tanh Dropout Identity Cast Clip Elu Exp Log Sqrt Neg Abs LRN Softmax".split(), 1),
    **dict.fromkeys("Max Min Sum Mean".split(), 2),
}
