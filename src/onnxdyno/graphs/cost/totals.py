"""The front of this package: a model and a point in, its cost out."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from onnx import GraphProto, ModelProto, helper

from onnxdyno.domain.axes import AxisSizes
from onnxdyno.domain.cost import Cost, Count, NodeCost, Uncounted
from onnxdyno.domain.models import InputRecipe, Signature
from onnxdyno.graphs.cost.functions import without_functions
from onnxdyno.graphs.cost.inference import Inference
from onnxdyno.graphs.cost.values import MOST_COUNT, UNKNOWN, NotCounted, Value, declared
from onnxdyno.graphs.cost.walking import Scope, Walk, Walked
from onnxdyno.graphs.materialise import dim_size
from onnxdyno.graphs.reading import open_model
from onnxdyno.graphs.tensors import nodes

_VISITS_PER_NODE = 4
"""A body is walked up to three times to settle its shapes; nested bodies share this bound instead of multiplying."""

_MOST_NOTES = 20


def cost_at(model: Path | ModelProto, signature: Signature, sizes: AxisSizes) -> Cost:
    """Cost of one inference of a model at a point. Weights stay where they are; nothing runs; linear in the nodes.

    Raises `PointError` (shape_error) if an axis has no size here, and `ModelError` as `reading.open_model`.
    """
    read = open_model(model) if isinstance(model, Path) else model
    fed = {recipe.name: _fed(recipe, read.graph, sizes) for recipe in signature.recipes}
    try:
        walked = _walk(without_functions(read), fed)
    except NotCounted as error:
        return _unknown(signature, sizes, str(error))
    return _cost(signature, sizes, walked, list(fed.values()))


def _walk(model: ModelProto, fed: dict[str, Value]) -> Walked:
    opsets = {opset.domain: int(opset.version) for opset in model.opset_import}
    every = sum(1 for _ in nodes(model))
    walk = Walk(Inference(opsets, int(model.ir_version)), most_visits=_VISITS_PER_NODE * every)
    scope: Scope = {value.name: declared(value.type) for value in model.graph.input}
    scope.update(fed)
    return walk.graph(model.graph, scope, "")


def _fed(recipe: InputRecipe, graph: GraphProto, sizes: AxisSizes) -> Value:
    """One fed tensor. A single integer that is always fed with the same value is known: a rate, a trip count."""
    shape = tuple(dim_size(dim, sizes) for dim in recipe.dims)
    value = next((declared(each.type) for each in graph.input if each.name == recipe.name), UNKNOWN)
    if value.other_type is not None:
        return value
    is_certain = recipe.rule == "constant" and recipe.dtype.startswith(("int", "uint")) and set(shape) <= {1}
    known = None
    if is_certain:
        try:
            known = np.full(shape, int(recipe.low), dtype=helper.tensor_dtype_to_np_dtype(value.elem_type))
        except (KeyError, TypeError, OverflowError):
            known = None
    return Value(elem_type=value.elem_type, shape=shape, known=known)


def _cost(signature: Signature, sizes: AxisSizes, walked: Walked, fed: Sequence[Value]) -> Cost:
    every = walked.nodes
    uncounted = _uncounted(every)
    why = _why(every, uncounted)
    return Cost(
        sizes=sizes,
        flops=_total((node.flops for node in every), why),
        least_flops=min(MOST_COUNT, sum(node.flops or 0 for node in every)),
        read_bytes=_total((node.read_bytes for node in every), _bytes_reason(every)),
        written_bytes=_total((node.written_bytes for node in every), _bytes_reason(every)),
        parameters=signature.parameters,
        weight_bytes=signature.weight_bytes,
        input_bytes=_sizes(fed, "an input"),
        output_bytes=_sizes(walked.outputs, "an output"),
        activation_peak_bytes=Count(value=walked.peak_bytes, reason=walked.peak_reason),
        nodes=every,
        uncounted=uncounted,
        notes=_few(walked.notes),
    )


def _total(counts: Iterable[int | None], reason: str) -> Count:
    total = 0
    for count in counts:
        if count is None:
            return Count(value=None, reason=reason)
        total += count
    if total > MOST_COUNT:
        return Count(value=None, reason=f"more than {MOST_COUNT}: these sizes are no real ones")
    return Count(value=total)


def _uncounted(every: Sequence[NodeCost]) -> tuple[Uncounted, ...]:
    """By type, the most frequent first; the reason is that of the first node."""
    first: dict[str, str] = {}
    many: dict[str, int] = {}
    for node in every:
        if node.flops is None:
            first.setdefault(node.op_type, node.reason or "")
            many[node.op_type] = many.get(node.op_type, 0) + 1
    found = [Uncounted(op_type=op_type, nodes=count, reason=first[op_type]) for op_type, count in many.items()]
    return tuple(sorted(found, key=lambda each: (-each.nodes, each.op_type)))


def _why(every: Sequence[NodeCost], uncounted: Sequence[Uncounted]) -> str:
    """What is not known, and where it began: a shape that is lost takes all later ones with it."""
    shown = ", ".join(f"{each.nodes} × {each.op_type}" for each in uncounted[:4])
    more = f" and {len(uncounted) - 4} more types" if len(uncounted) > 4 else ""
    first = next((node for node in every if node.reason and node.runs != 0), None)
    return f"not known for {shown}{more}; first at {_described(first)}" if first else f"not known for {shown}{more}"


def _described(node: NodeCost) -> str:
    return f"{node.op_type} '{node.name or node.output}': {node.reason}"


def _bytes_reason(every: Sequence[NodeCost]) -> str:
    return next((_described(node) for node in every if node.read_bytes is None), "")


def _sizes(values: Sequence[Value], what: str) -> Count:
    total = 0
    for value in values:
        size = value.size_bytes
        if size is None:
            return Count(value=None, reason=value.why_unknown(what))
        total += size
    return Count(value=total)


def _few(notes: Sequence[str]) -> tuple[str, ...]:
    more = (f"and {len(notes) - _MOST_NOTES} more Ifs, Loops and Scans.",) if len(notes) > _MOST_NOTES else ()
    return (*notes[:_MOST_NOTES], *more)


def _unknown(signature: Signature, sizes: AxisSizes, reason: str) -> Cost:
    nothing = Count(value=None, reason=reason)
    return Cost(
        sizes=sizes,
        flops=nothing,
        least_flops=0,
        read_bytes=nothing,
        written_bytes=nothing,
        parameters=signature.parameters,
        weight_bytes=signature.weight_bytes,
        input_bytes=nothing,
        output_bytes=nothing,
        activation_peak_bytes=nothing,
        nodes=(),
        uncounted=(),
        notes=(reason,),
    )
