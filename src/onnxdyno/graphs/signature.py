"""The signature of a model: everything its file says that a benchmark needs, read without running it."""

from collections import Counter
from pathlib import Path

from onnx import ModelProto, NodeProto

from onnxdyno.domain.axes import Role
from onnxdyno.domain.models import Dim, Signature, TensorSpec
from onnxdyno.domain.text import printable
from onnxdyno.graphs.axes import Solved, solve
from onnxdyno.graphs.declared import Declared, declared, fed_inputs, is_generated
from onnxdyno.graphs.inputs import recipes
from onnxdyno.graphs.reading import named_files, open_model
from onnxdyno.graphs.tensors import nodes
from onnxdyno.graphs.weights import precision, weights

_DEFAULT_DOMAINS = ("", "ai.onnx")


def read_signature(path: Path) -> Signature:
    """Signature of the model at `path`. Raises `ModelError` as `reading.open_model` and `reading.external_files`."""
    return signature_of(open_model(path))


def signature_of(model: ModelProto) -> Signature:
    """Signature of a parsed model. Linear in the number of nodes; weights are not looked at."""
    inputs = fed_inputs(model)
    solved = solve(model, inputs)
    found = weights(model)
    every_node = list(nodes(model))
    return Signature(
        inputs=tuple(_spec(value, solved.dims.get(value.name)) for value in inputs),
        outputs=tuple(_output(declared(value), solved) for value in model.graph.output),
        axes=solved.axes,
        recipes=recipes(inputs, solved),
        opset=next((int(o.version) for o in model.opset_import if o.domain in _DEFAULT_DOMAINS), 0),
        domains=tuple((printable(o.domain), int(o.version)) for o in model.opset_import),
        ir_version=int(model.ir_version),
        producer=printable(f"{model.producer_name} {model.producer_version}".strip()),
        parameters=sum(weight.elements for weight in found),
        weight_bytes=sum(weight.size_bytes for weight in found),
        precision=precision(model, found, inputs[0].dtype if inputs else "unknown"),
        node_count=len(every_node),
        op_types=tuple(Counter(_op_type(node) for node in every_node).most_common()),
        external_files=named_files(model),
        notes=(*solved.notes, *_notes(model, inputs)),
        limits=solved.limits,
    )


def _spec(value: Declared, dims: tuple[Dim, ...] | None) -> TensorSpec:
    return TensorSpec(name=value.name, kind=value.kind, dtype=value.dtype, dims=None if value.dims is None else dims)


def _output(value: Declared, solved: Solved) -> TensorSpec:
    """Outputs name axes where the walk followed one to them, or the symbol is an input's: never needed to run."""
    by_symbol = {symbol: axis for axis in solved.axes for symbol in axis.symbols}
    followed = solved.outputs.get(value.name, ())
    dims = []
    for i, dim in enumerate(value.dims or ()):
        seen = followed[i] if len(followed) == len(value.dims or ()) and dim.size is None else None
        axis = seen or by_symbol.get(dim.symbol or "")
        if axis is not None:
            dims.append(Dim(role=axis.role, axes=(axis.name,), symbol=dim.symbol))
        else:
            says_nothing = dim.size is None and (dim.symbol is None or is_generated(dim.symbol))
            symbol = "?" if says_nothing else dim.symbol
            dims.append(Dim(role=Role.OTHER, constant=dim.size or 0, symbol=symbol))
    return _spec(value, tuple(dims))


def _op_type(node: NodeProto) -> str:
    is_default = node.domain in _DEFAULT_DOMAINS
    return printable(node.op_type if is_default else f"{node.domain}:{node.op_type}")


def _notes(model: ModelProto, inputs: tuple[Declared, ...]) -> list[str]:
    notes = [
        f"input '{printable(v.name)}' declares no rank; one dimension of 1 is tried." for v in inputs if v.dims is None
    ]
    outputs = [declared(value) for value in model.graph.output]
    other = [value for value in (*inputs, *outputs) if value.kind != "tensor" or value.dtype == "string"]
    if other:
        shown = ", ".join(f"'{printable(value.name)}' ({value.kind} of {value.dtype})" for value in other[:3])
        notes.append(f"not a numeric tensor: {shown}; measured with host values only (variant e2e).")
    return notes
