"""If, Loop and Scan: which graph inside a node runs, how often, and with what shapes.

An If counts the branch that runs where its condition is known at the point, else the larger one. A Loop or Scan counts
its body times its trip count where that is known, else nothing of it is known.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from onnx import GraphProto, TensorProto

from onnxdyno.domain.cost import NodeCost
from onnxdyno.domain.text import printable
from onnxdyno.graphs.cost.inference import ONNX
from onnxdyno.graphs.cost.operands import Operands
from onnxdyno.graphs.cost.values import UNKNOWN, NotCounted, Value, declared, of_elements

if TYPE_CHECKING:
    from onnxdyno.graphs.cost.walking import Scope, Walk, Walked

_Peak = tuple[int | None, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """What the graphs of one node come to."""

    nodes: tuple[NodeCost, ...]
    outputs: tuple[Value, ...]
    peaks: tuple[_Peak, ...]
    reason: str | None = None
    notes: tuple[str, ...] = ()


def run(walk: Walk, op: Operands, scope: Scope, path: str) -> Inside:
    """Walk the graphs of a node by its rule."""
    rule = {"If": _branches, "Loop": _loop, "Scan": _scan}.get(op.node.op_type) if op.node.domain in ONNX else None
    unknown = (UNKNOWN,) * len(op.node.output)
    if rule is None:
        reason = f"no rule for the graphs inside {printable(op.node.op_type)}"
        return Inside(nodes=(), outputs=unknown, peaks=((None, reason),), reason=reason)
    try:
        return rule(walk, op, scope, path)
    except NotCounted as error:
        return Inside(nodes=(), outputs=unknown, peaks=((None, str(error)),), reason=str(error))


def times(nodes: Sequence[NodeCost], trips: int | None, reason: str) -> tuple[NodeCost, ...]:
    """Nodes of a graph that is executed `trips` times; None = unknown, for the `reason`."""
    if trips is None:
        return tuple(_unknown_times(node, reason) for node in nodes)
    return tuple(
        replace(
            node,
            runs=_product(node.runs, trips),
            flops=_product(node.flops, trips),
            read_bytes=_product(node.read_bytes, trips),
            written_bytes=_product(node.written_bytes, trips),
        )
        for node in nodes
    )


def _product(count: int | None, trips: int) -> int | None:
    return 0 if not trips else None if count is None else count * trips


def _unknown_times(node: NodeCost, reason: str) -> NodeCost:
    if node.runs == 0:
        return node
    each = f"{reason}; {node.flops} FLOPs each time" if node.flops is not None else reason
    return replace(
        node,
        runs=None,
        flops=_if_nothing(node.flops),
        read_bytes=_if_nothing(node.read_bytes),
        written_bytes=_if_nothing(node.written_bytes),
        reason=f"{node.reason}; {each}" if node.reason else each,
    )


def _if_nothing(count: int | None) -> int | None:
    """However often it runs: nothing stays nothing."""
    return 0 if count == 0 else None


def _graph_of(op: Operands, name: str) -> GraphProto:
    if name not in op.attributes:
        raise NotCounted(f"{op.node.op_type} has no {name}")
    return op.attributes[name].g


def _branches(walk: Walk, op: Operands, scope: Scope, path: str) -> Inside:
    names = ("then_branch", "else_branch")
    walked = [walk.graph(_graph_of(op, name), ChainMap({}, scope), f"{path}/{name}") for name in names]
    condition = op.inputs[0] if op.inputs else None
    is_known = condition is not None and condition.known is not None and condition.known.size == 1
    if is_known and condition is not None and condition.known is not None:
        taken = 0 if bool(condition.known.reshape(-1)[0]) else 1
        why = "runs at this point"
    else:
        taken = max((0, 1), key=lambda i: (_least_flops(walked[i]), -i))
        why = "is the larger"
    other = walked[1 - taken]
    reason = None
    if not is_known and any(node.flops is None for node in other.nodes):
        reason = "which branch is larger is not known: nodes of the other one have no count"
    notes = [f"If '{printable(path)}': {names[taken]} is counted, it {why}."]
    return Inside(
        nodes=(*walked[taken].nodes, *times(other.nodes, 0, "")),
        outputs=_fitted(walked[taken].outputs, len(op.node.output)),
        peaks=((walked[taken].peak_bytes, walked[taken].peak_reason),),
        reason=reason,
        notes=(*notes, *walked[taken].notes),
    )


def _least_flops(walked: Walked) -> int:
    return sum(node.flops or 0 for node in walked.nodes)


def _loop(walk: Walk, op: Operands, scope: Scope, path: str) -> Inside:
    """Inputs: most trips, condition, carried…; body: number, condition, carried… -> condition, carried…, rows…."""
    body = _graph_of(op, "body")
    most, condition = _most_trips(op), _truth(op.inputs[1] if op.has(1) else None, default=True)
    carried = [value or UNKNOWN for value in op.inputs[2:]]
    if most == 0 or condition is False:
        given = _fitted(tuple(carried), len(op.node.output))
        return Inside(nodes=(), outputs=given, peaks=((0, None),), notes=(f"Loop '{printable(path)}' does not run.",))
    number = Value(elem_type=TensorProto.INT64, shape=())
    truth = (
        of_elements(np.asarray(True), is_constant=False) if condition else Value(elem_type=TensorProto.BOOL, shape=())
    )
    settled = _Body(walk=walk, graph=body, scope=scope, path=path).settle([number, truth], carried, is_once=most == 1)
    walked = settled.walked
    goes_on = _truth(walked.outputs[0] if walked.outputs else None, default=None)
    trips = None if condition is None or goes_on is None else min(most or 1, 1) if not goes_on else most
    reason = f"how often Loop '{printable(path)}' runs depends on data"
    rows = [_rows(value, trips) for value in walked.outputs[1 + len(carried) :]]
    return Inside(
        nodes=times(walked.nodes, trips, reason),
        outputs=_fitted((*settled.carried, *rows), len(op.node.output)),
        peaks=((walked.peak_bytes, walked.peak_reason),),
        reason=settled.reason,
        notes=(f"Loop '{printable(path)}': {'an unknown number of' if trips is None else trips} trips.", *walked.notes),
    )


def _most_trips(op: Operands) -> int | None:
    value = op.inputs[0] if op.has(0) else None
    if value is None or value.known is None or value.known.size != 1:
        return None
    return max(0, int(value.known.reshape(-1)[0]))


def _truth(value: Value | None, *, default: bool | None) -> bool | None:
    """True, False, or None = depends on data; `default` where there is no such operand."""
    if value is None:
        return default
    return bool(value.known.reshape(-1)[0]) if value.known is not None and value.known.size == 1 else None


def _scan(walk: Walk, op: Operands, scope: Scope, path: str) -> Inside:
    """Inputs: states…, sequences…; the body takes one slice of each sequence at a time."""
    body = _graph_of(op, "body")
    sequences = op.integer("num_scan_inputs")
    states = len(op.inputs) - sequences
    if sequences < 1 or states < 0:
        raise NotCounted("num_scan_inputs does not fit the inputs")
    axes = op.integers("scan_input_axes") or (0,) * sequences
    if len(axes) != sequences:
        raise NotCounted("scan_input_axes does not fit the inputs")
    slices, trips = [], None
    for value, axis in zip(op.inputs[states:], axes, strict=True):
        cut, length = _slice(value or UNKNOWN, axis)
        slices.append(cut)
        trips = length if trips is None else trips
    carried = [value or UNKNOWN for value in op.inputs[:states]]
    settled = _Body(walk=walk, graph=body, scope=scope, path=path).settle(slices, carried, is_once=False, leads=False)
    out_axes = op.integers("scan_output_axes") or ()
    rows = [
        _rows(value, trips, out_axes[i] if i < len(out_axes) else 0)
        for i, value in enumerate(settled.walked.outputs[states:])
    ]
    return Inside(
        nodes=times(settled.walked.nodes, trips, f"the length of what Scan '{printable(path)}' runs over is not known"),
        outputs=_fitted((*settled.carried, *rows), len(op.node.output)),
        peaks=((settled.walked.peak_bytes, settled.walked.peak_reason),),
        reason=settled.reason,
        notes=(f"Scan '{printable(path)}': {'an unknown number of' if trips is None else trips} trips.",),
    )


def _slice(value: Value, axis: int) -> tuple[Value, int | None]:
    if value.shape is None or not -len(value.shape) <= axis < len(value.shape):
        return Value(elem_type=value.elem_type, shape=None), None
    place = axis % len(value.shape)
    return Value(elem_type=value.elem_type, shape=(*value.shape[:place], *value.shape[place + 1 :])), value.shape[place]


def _rows(value: Value, trips: int | None, axis: int = 0) -> Value:
    """What a body makes in every trip, stacked."""
    if value.shape is None or not -len(value.shape) - 1 <= axis <= len(value.shape):
        return Value(elem_type=value.elem_type, shape=None)
    place = axis % (len(value.shape) + 1)
    return Value(elem_type=value.elem_type, shape=(*value.shape[:place], trips, *value.shape[place:]))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settled:
    """A body walked with shapes that hold in every trip."""

    walked: Walked
    carried: tuple[Value, ...]
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Body:
    """The body of a Loop or Scan in the scope it sees."""

    walk: Walk
    graph: GraphProto
    scope: Scope
    path: str

    def settle(self, fed: list[Value], carried: list[Value], *, is_once: bool, leads: bool = True) -> _Settled:
        """Walk the body until carried shapes come out as they went in; what grows from trip to trip is unknown.

        `leads`: the fed values come before the carried ones and one output (the condition) before the carried ones.
        """
        given = carried if is_once else [value.varying() for value in carried]
        skip = 1 if leads else 0
        for _ in range(3):
            walked = self._walk([*fed, *given] if leads else [*given, *fed])
            made = _fitted(walked.outputs[skip : skip + len(given)], len(given))
            common = [_common(before, after) for before, after in zip(given, made, strict=True)]
            if is_once or [value.shape for value in common] == [value.shape for value in given]:
                return _Settled(walked=walked, carried=made if is_once else tuple(common), reason=None)
            if self.walk.is_spent:
                break
            given = common
        unsettled = tuple(Value(elem_type=value.elem_type, shape=None) for value in given)
        return _Settled(walked=walked, carried=unsettled, reason="shapes inside change from trip to trip")

    def _walk(self, values: list[Value]) -> Walked:
        names = [value.name for value in self.graph.input]
        scope: Scope = ChainMap({}, self.scope)
        for place, declaration in enumerate(self.graph.input):
            value = values[place] if place < len(values) else UNKNOWN
            scope[declaration.name] = value if value is not UNKNOWN else declared(declaration.type)
        return self.walk.graph(self.graph, scope, self.path, entering=names)


def _common(before: Value, after: Value) -> Value:
    """What holds for a carried tensor before and after a trip."""
    elem_type = before.elem_type or after.elem_type
    if before.other_type is not None or before.shape is None or after.shape is None:
        return Value(elem_type=elem_type, shape=None, other_type=before.other_type)
    if len(before.shape) != len(after.shape):
        return Value(elem_type=elem_type, shape=None)
    shape = tuple(a if a == b else None for a, b in zip(before.shape, after.shape, strict=True))
    return Value(elem_type=elem_type, shape=shape)


def _fitted(values: Sequence[Value], count: int) -> tuple[Value, ...]:
    return tuple(values[:count]) + (UNKNOWN,) * max(0, count - len(values))
