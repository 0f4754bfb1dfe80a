"""The walk: every node in running order, with what is known of its operands; graphs inside nodes in their scope."""

from collections import ChainMap
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from onnx import GraphProto, NodeProto

from onnxdyno.domain.cost import NodeCost
from onnxdyno.domain.text import printable
from onnxdyno.graphs.cost import control
from onnxdyno.graphs.cost.evaluate import evaluate
from onnxdyno.graphs.cost.formulas import flops
from onnxdyno.graphs.cost.inference import ONNX, Inference
from onnxdyno.graphs.cost.liveness import Liveness
from onnxdyno.graphs.cost.operands import Operands, attributes_of
from onnxdyno.graphs.cost.ordering import Order
from onnxdyno.graphs.cost.traffic import made_bytes, traffic
from onnxdyno.graphs.cost.values import UNKNOWN, NotCounted, Value, constant, found, stored

Scope = MutableMapping[str, Value]

_T = TypeVar("_T")

_DRAWS = frozenset("RandomNormal RandomNormalLike RandomUniform RandomUniformLike Bernoulli Multinomial".split())

_MOST_MADE_ELEMENTS = 1 << 31
"""A constant larger than this is made when the model runs, not kept as a weight (as in `graphs.weights`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Walked:
    """One graph, executed once."""

    nodes: tuple[NodeCost, ...]
    outputs: tuple[Value, ...]
    peak_bytes: int | None
    peak_reason: str | None
    notes: tuple[str, ...] = ()


class Walk:
    """A walk over one model. `most_visits` bounds how often nested loops may be walked again to settle their shapes."""

    def __init__(self, inference: Inference, most_visits: int) -> None:
        self._inference = inference
        self._visits_left = most_visits

    @property
    def is_spent(self) -> bool:
        """Whether no graph may be walked again."""
        return self._visits_left <= 0

    def graph(self, graph: GraphProto, scope: Scope, path: str, entering: Sequence[str] = ()) -> Walked:
        """Walk a graph whose inputs are in `scope`, which it fills; `entering` are inputs that live in this graph."""
        for tensor in graph.initializer:
            scope[tensor.name] = stored(tensor)
        for sparse in graph.sparse_initializer:
            scope[sparse.values.name] = Value(elem_type=sparse.values.data_type, shape=None, is_constant=True)
        order = Order(graph)
        life = Liveness(order.uses, [output.name for output in graph.output])
        for name in entering:
            life.enter(name, scope.get(name, UNKNOWN))
        nodes: list[NodeCost] = []
        notes: list[str] = []
        for place in order.places:
            self._visits_left -= 1
            step = _Step(
                walk=self,
                scope=scope,
                path=path,
                place=place,
                reads=order.needs[place],
                holds_graphs=place in order.holders,
                life=life,
            )
            nodes.extend(step.take(graph.node[place], notes))
        nodes.extend(_stuck(graph.node[place], place, path) for place in order.stuck)
        if order.stuck:
            life.reason = life.reason or f"{len(order.stuck)} nodes wait for one another in a cycle"
        outputs = tuple(scope.get(output.name, UNKNOWN) for output in graph.output)
        return Walked(
            nodes=tuple(nodes), outputs=outputs, peak_bytes=life.peak_bytes, peak_reason=life.reason, notes=tuple(notes)
        )

    def infer(self, op: Operands) -> str | None:
        """Fill in the outputs of a node; why a shape is unknown, if one is."""
        outputs, reason = self._inference.outputs(op)
        op.outputs = outputs
        elements = evaluate(op)
        is_constant = _is_constant(op)
        for place, value in enumerate(outputs):
            known = elements[place] if elements is not None and place < len(elements) else None
            if value is not None and (is_constant or known is not None):
                fits = known is not None and known.shape == value.shape
                outputs[place] = replace(value, known=known if fits else None, is_constant=is_constant)
        return reason


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """One node at its place in the walk."""

    walk: Walk
    scope: Scope
    path: str
    place: int
    reads: set[str]
    holds_graphs: bool
    life: Liveness

    def take(self, node: NodeProto, notes: list[str]) -> list[NodeCost]:
        op = Operands(node=node, inputs=found(self.scope, node.input), outputs=(), attributes=attributes_of(node))
        if node.op_type == "Constant" and node.domain in ONNX:
            op.outputs = [constant(node)] * len(node.output)
            return [self._done(op, None)]
        if self.holds_graphs:
            return self._inside(op, notes)
        return [self._done(op, self.walk.infer(op))]

    def _done(self, op: Operands, reason: str | None) -> NodeCost:
        self._publish(op)
        self.life.step(op, self.reads)
        return node_cost(op, path=self.path, place=self.place, reason=reason)

    def _inside(self, op: Operands, notes: list[str]) -> list[NodeCost]:
        name = shown(op.node.name) or f"{shown(op.node.op_type)}_{self.place}"
        path = f"{self.path}/{name}" if self.path else name
        done = control.run(self.walk, op, ChainMap({}, self.scope), path)
        op.outputs = [value if name else None for name, value in zip(op.node.output, done.outputs, strict=True)]
        self._publish(op)
        self.life.hold(op, self.reads, done.peaks)
        notes.extend(done.notes)
        own = node_cost(op, path=self.path, place=self.place, reason=None)
        held = replace(own, flops=None if done.reason else 0, read_bytes=0, written_bytes=0, reason=done.reason)
        return [held, *done.nodes]

    def _publish(self, op: Operands) -> None:
        for name, value in zip(op.node.output, op.outputs, strict=True):
            if name:
                self.scope[name] = value or UNKNOWN


def node_cost(op: Operands, *, path: str, place: int, reason: str | None) -> NodeCost:
    """Cost of one execution; what is computed once at load or is shape arithmetic has no FLOPs.

    `reason` is why a shape is not known; whatever else is missing follows from that.
    """
    made = [value for value in op.outputs if value is not None]
    is_constant = bool(made) and all(value.is_constant for value in made)
    reasons: list[str] = []
    is_arithmetic = bool(made) and all(value.known is not None for value in made)
    counted = 0 if is_constant or is_arithmetic else _or_reason(flops, op, reasons)
    moved = (0, 0) if is_constant else _or_reason(traffic, op, reasons) or (None, None)
    size = _or_reason(made_bytes, op, reasons)
    domain = "" if op.node.domain in ONNX else f"{op.node.domain}:"
    return NodeCost(
        path=path,
        index=place,
        name=shown(op.node.name),
        op_type=shown(f"{domain}{op.node.op_type}"),
        output=shown(next((name for name in op.node.output if name), "")),
        runs=0 if is_constant else 1,
        flops=counted,
        read_bytes=moved[0],
        written_bytes=moved[1],
        output_bytes=size,
        output_shapes=tuple(None if value is None else value.shape for value in op.outputs),
        reason=(reason or "; ".join(dict.fromkeys(reasons))) if None in (counted, *moved, size) else None,
    )


def _or_reason(count: Callable[[Operands], _T], op: Operands, reasons: list[str]) -> _T | None:
    try:
        return count(op)
    except NotCounted as error:
        reasons.append(str(error))
        return None


def shown(name: str | bytes) -> str:
    """A name made safe to print. Protobuf hands out bytes where a name is not UTF-8."""
    text = name if isinstance(name, str) else name.decode("utf-8", "backslashreplace")
    return text if text.isprintable() and len(text) <= 300 else printable(text)


def _stuck(node: NodeProto, place: int, path: str) -> NodeCost:
    op = Operands(node=node, inputs=[UNKNOWN] * len(node.input), outputs=[UNKNOWN] * len(node.output), attributes={})
    reason = "it waits, directly or through others, for its own output"
    return replace(node_cost(op, path=path, place=place, reason=reason), flops=None, reason=reason)


def _is_constant(op: Operands) -> bool:
    """Whether a runtime computes the node once, at load: everything it reads is stored in the file."""
    if not op.inputs or not all(value is None or value.is_constant for value in op.inputs):
        return False
    if op.node.op_type in _DRAWS or op.node.domain not in ONNX:
        return False
    sizes = [value.elements for value in op.outputs if value is not None]
    return all(size is not None and size <= _MOST_MADE_ELEMENTS for size in sizes)
