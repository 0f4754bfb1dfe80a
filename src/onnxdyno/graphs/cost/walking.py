"""The walk: every node in running order, with what is known of its operands; graphs inside nodes in their scope."""

from collections import ChainMap
from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import dataclass, replace

from onnx import GraphProto, NodeProto

from onnxdyno.domain.cost import NodeCost
from onnxdyno.domain.text import printable
from onnxdyno.graphs.cost import control
from onnxdyno.graphs.cost.counting import Counted, Counting, counted
from onnxdyno.graphs.cost.inference import ONNX, Inference
from onnxdyno.graphs.cost.liveness import Liveness
from onnxdyno.graphs.cost.operands import Operands, attributes_of
from onnxdyno.graphs.cost.ordering import Order
from onnxdyno.graphs.cost.values import UNKNOWN, Value, constant, found, stored

Scope = MutableMapping[str, Value]


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
        self.counting = Counting(inference)
        self._visits_left = most_visits

    @property
    def is_spent(self) -> bool:
        """Whether no graph may be walked again."""
        return self._visits_left <= 0

    def graph(self, graph: GraphProto, scope: Scope, path: str, entering: Sequence[str] = ()) -> Walked:
        """Walk a graph whose inputs are in `scope`, which it fills; `entering` are inputs that live in this graph."""
        for tensor in graph.initializer:
            scope[tensor.name] = self.counting.same(stored(tensor))
        for sparse in graph.sparse_initializer:
            scope[sparse.values.name] = Value(elem_type=sparse.values.data_type, shape=None, is_constant=True)
        order = Order(graph)
        life = Liveness(order.uses, [output.name for output in graph.output])
        for name in entering:
            life.enter(name, scope.get(name, UNKNOWN))
        nodes: list[NodeCost] = []
        notes: list[str] = []
        steps = _Steps(walk=self, scope=scope, path=path, order=order, life=life)
        for place in order.places:
            self._visits_left -= 1
            nodes.extend(steps.take(place, graph.node[place], notes))
        nodes.extend(_stuck(graph.node[place], place, path) for place in order.stuck)
        if order.stuck:
            life.reason = life.reason or f"{len(order.stuck)} nodes wait for one another in a cycle"
        outputs = tuple(scope.get(output.name, UNKNOWN) for output in graph.output)
        return Walked(
            nodes=tuple(nodes), outputs=outputs, peak_bytes=life.peak_bytes, peak_reason=life.reason, notes=tuple(notes)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steps:
    """The nodes of one graph, one after another."""

    walk: Walk
    scope: Scope
    path: str
    order: Order
    life: Liveness

    def take(self, place: int, node: NodeProto, notes: list[str]) -> list[NodeCost]:
        op = Operands(node=node, inputs=found(self.scope, node.input), outputs=(), attributes=attributes_of(node))
        if node.op_type == "Constant" and node.domain in ONNX:
            op.outputs = [self.walk.counting.same(constant(node))] * len(node.output)
            return [self._done(place, op, counted(op, None))]
        if place in self.order.holders:
            return self._inside(place, op, notes)
        return [self._done(place, op, self.walk.counting.count(op))]

    def _done(self, place: int, op: Operands, count: Counted) -> NodeCost:
        op.outputs = count.outputs
        self._publish(op)
        self.life.step(op, self.order.needs[place])
        return node_cost(op.node, count, path=self.path, place=place)

    def _inside(self, place: int, op: Operands, notes: list[str]) -> list[NodeCost]:
        name = shown(op.node.name) or f"{shown(op.node.op_type)}_{place}"
        path = f"{self.path}/{name}" if self.path else name
        done = control.run(self.walk, op, ChainMap({}, self.scope), path)
        made = [self.walk.counting.same(value) for value in done.outputs]
        op.outputs = [value if name else None for name, value in zip(op.node.output, made, strict=True)]
        self._publish(op)
        self.life.hold(op, self.order.needs[place], done.peaks)
        notes.extend(done.notes)
        own = node_cost(op.node, counted(op, None), path=self.path, place=place)
        held = replace(own, flops=None if done.reason else 0, read_bytes=0, written_bytes=0, reason=done.reason)
        return [held, *done.nodes]

    def _publish(self, op: Operands) -> None:
        for name, value in zip(op.node.output, op.outputs, strict=True):
            if name:
                self.scope[name] = value or UNKNOWN


def node_cost(node: NodeProto, count: Counted, *, path: str, place: int) -> NodeCost:
    """The count under the name and at the place of this node."""
    return NodeCost(
        path=path,
        index=place,
        name=shown(node.name),
        op_type=shown(node.op_type if node.domain in ONNX else f"{node.domain}:{node.op_type}"),
        output=shown(_first(node.output)),
        runs=count.runs,
        flops=count.flops,
        read_bytes=count.read_bytes,
        written_bytes=count.written_bytes,
        output_bytes=count.output_bytes,
        output_shapes=count.shapes,
        reason=count.reason,
    )


def _first(names: Iterable[str]) -> str:
    for name in names:
        if name:
            return name
    return ""


def shown(name: str | bytes) -> str:
    """A name made safe to print. Protobuf hands out bytes where a name is not UTF-8."""
    text = name if isinstance(name, str) else name.decode("utf-8", "backslashreplace")
    return text if text.isprintable() and len(text) <= 300 else printable(text)


def _stuck(node: NodeProto, place: int, path: str) -> NodeCost:
    op = Operands(node=node, inputs=[UNKNOWN] * len(node.input), outputs=[UNKNOWN] * len(node.output), attributes={})
    reason = "it waits, directly or through others, for its own output"
    return replace(node_cost(node, counted(op, reason), path=path, place=place), flops=None, reason=reason)
