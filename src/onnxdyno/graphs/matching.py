"""Nodes of a profile -> what the model's own arithmetic says of them. The profile is of the optimised graph.

The runtime keeps the name of a node that it leaves alone, and puts words around it where it fuses others into it. A
node that it lays out anew is named after the tensor it makes, with `_nchwc` behind. What it adds (changes of layout,
fusions of small nodes) has names of its own, but few operators, whose cost follows from shapes.
"""

import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path

from onnx import GraphProto, ModelProto

from onnxdyno.domain.cost import Cost, NodeCost, NodeWork
from onnxdyno.domain.outcomes import NodeTiming
from onnxdyno.graphs.cost.walking import shown
from onnxdyno.graphs.made_nodes import work_by_shapes
from onnxdyno.graphs.reading import open_model

_LAID_OUT = "_nchwc"
_REWRITTEN = (_LAID_OUT, f"_bn{_LAID_OUT}", f"_mul{_LAID_OUT}")
"""The last two: a scale or a BatchNormalization that became a Conv."""
_PUT_AROUND = re.compile(r"^fused |/\w+Fusion/?$")
_MADE_ANEW = re.compile(r"^InsertedPrecisionFreeCast_|_token_\d+$")
"""Around the name of a node, or of the tensor it makes, when the runtime makes it again for another type or layout."""
_QUANTISED = "QLinear"
_ITEM_BYTES = {"float": 4, "double": 8, "float16": 2, "bfloat16": 2, "uint8": 1, "int8": 1}
_OTHER_NAMES = {"Upsample": "Resize"}
"""Operators that go by another name once they are laid out anew."""
_MOST_LOOKED_AT = 24
"""Nodes of the file between a tensor and the node that computes it: bias, scale, activation, sum."""


def match(model: Path | ModelProto, cost: Cost, timings: Sequence[NodeTiming]) -> tuple[NodeWork, ...]:
    """The work of each node of a profile at the sizes of `cost`, which must list its nodes; in the same order."""
    read = open_model(model) if isinstance(model, Path) else model
    file = _File(read.graph, cost.nodes)
    anchors = {at for timing in timings if (at := file.anchor(timing)) is not None}
    return tuple(_work(file, timing, anchors) for timing in timings)


class _File:
    """The nodes of the file, by what a profile may call them."""

    def __init__(self, graph: GraphProto, costs: Iterable[NodeCost]) -> None:
        self._graph = graph
        self._named: dict[str, list[NodeCost]] = {}
        self._placed: dict[int, NodeCost] = {}
        for cost in costs:
            self._named.setdefault(cost.name or f"{cost.op_type}_{cost.index}", []).append(cost)
            if not cost.path:
                self._placed[cost.index] = cost
        self._makers = {name: at for at, node in enumerate(graph.node) for name in node.output if name}

    def named(self, name: str, timing: NodeTiming) -> NodeCost | None:
        """The node of this name on the level of a timing; of several the one of its operator and index."""
        found = [each for each in self._named.get(shown(name), ()) if bool(each.path) == bool(timing.path)]
        found.sort(key=lambda each: (not _is_of(each, timing), each.index != timing.index))
        return found[0] if found else None

    def anchor(self, timing: NodeTiming) -> int | None:
        """Place of the node that makes the very tensor that a node is named after, if it is of its operator."""
        at = self._maker(timing) if timing.name.endswith(_LAID_OUT) else None
        return at if at is not None and _is_of(self._placed[at], timing) else None

    def _maker(self, timing: NodeTiming) -> int | None:
        """Place of the node that makes the tensor, or else has the name, that stands before the suffix."""
        plain = _MADE_ANEW.sub("", timing.name)
        names = [plain.removesuffix(each) for each in _REWRITTEN]
        name = names[0]
        at = next((self._makers[name] for name in names if name in self._makers), None)
        if at is None:
            named = self.named(name, timing)
            at = named.index if named is not None and not named.path else None
        return at if at in self._placed else None

    def fused(self, timing: NodeTiming, anchors: set[int]) -> list[NodeCost]:
        """From the tensor that a node is named after back to the nearest node of its operator; empty if unknown.

        `anchors` are nodes that stand for themselves: a sum reads two of them, and only the other one was fused.
        Without a node of the operator the first one was rewritten (a BatchNormalization into a Conv).
        """
        first = self._maker(timing)
        if first is None:
            return []
        readers: dict[int, int | None] = {first: None}
        waiting = deque([first])
        while waiting and len(readers) < _MOST_LOOKED_AT:
            at = waiting.popleft()
            if _is_of(self._placed[at], timing) and (at == first or at not in anchors):
                return self._chain(at, readers)
            for maker in self._before(at):
                if maker not in readers and maker not in anchors:
                    readers[maker] = at
                    waiting.append(maker)
        return [self._placed[first]]

    def followed_by_activation(self, cost: NodeCost) -> list[NodeCost]:
        """A node and the one that reads its output, the last first, if it is the only one and makes the same shape."""
        readers = [at for at, node in enumerate(self._graph.node) if cost.output in node.input]
        after = self._placed.get(readers[0]) if len(readers) == 1 and not cost.path else None
        return [after, cost] if after is not None and after.output_shapes == cost.output_shapes else [cost]

    def _before(self, at: int) -> list[int]:
        """Places whose outputs this node reads, but for what is computed once at load."""
        makers = (self._makers[name] for name in self._graph.node[at].input if name in self._makers)
        return [maker for maker in makers if maker in self._placed and self._placed[maker].runs != 0]

    def _chain(self, at: int, readers: dict[int, int | None]) -> list[NodeCost]:
        chain: list[NodeCost] = []
        place: int | None = at
        while place is not None:
            chain.append(self._placed[place])
            place = readers[place]
        return chain[::-1]


def _work(file: _File, timing: NodeTiming, anchors: set[int]) -> NodeWork:
    chain = _chain_of(file, timing, anchors)
    if not chain:
        return work_by_shapes(timing)
    is_of_another_type = timing.op_type.startswith(_QUANTISED) or _MADE_ANEW.search(timing.name)
    return _in_its_type(_sum(chain), chain[0], timing) if is_of_another_type else _sum(chain)


def _chain_of(file: _File, timing: NodeTiming, anchors: set[int]) -> Sequence[NodeCost]:
    """Nodes of the file that ran as this one, the last first; empty if its cost follows from shapes, or not at all."""
    named = file.named(timing.name, timing)
    if named is not None:
        return [named]
    if timing.name.endswith(_LAID_OUT) and not timing.path and (chain := file.fused(timing, anchors)):
        return chain
    plain = _MADE_ANEW.sub("", _PUT_AROUND.sub("", timing.name))
    inner = file.named(plain, timing) if work_by_shapes(timing).basis is None else None
    if inner is None:
        return []
    return [inner] if timing.op_type.startswith(_QUANTISED) else file.followed_by_activation(inner)


def _in_its_type(work: NodeWork, last: NodeCost, timing: NodeTiming) -> NodeWork:
    """The bytes of as many values in the type that it ran in: that of its output in the profile."""
    ran_in = _ITEM_BYTES.get(timing.output_shapes.partition("[")[0])
    values = sum(prod(size or 0 for size in shape) for shape in last.output_shapes if shape is not None)
    if ran_in is None or not values or work.read_bytes is None or not work.written_bytes:
        return work
    scale = ran_in * values / work.written_bytes
    return replace(work, read_bytes=round(work.read_bytes * scale), written_bytes=ran_in * values)


def _of(cost: NodeCost) -> NodeWork:
    return NodeWork(
        flops=cost.flops,
        read_bytes=cost.read_bytes,
        written_bytes=cost.written_bytes,
        basis="name",
        reason=cost.reason,
    )


def _sum(chain: Sequence[NodeCost]) -> NodeWork:
    """Nodes run as one, the last first: what passes between them is neither read nor written."""
    if len(chain) == 1:
        return _of(chain[0])
    reads = [each.read_bytes for each in chain]
    between = [each.written_bytes for each in chain[1:]]
    read_bytes = None if None in reads or None in between else (_total(reads) or 0) - (_total(between) or 0)
    return NodeWork(
        flops=_total([each.flops for each in chain]),
        read_bytes=None if read_bytes is None else max(0, read_bytes),
        written_bytes=chain[0].written_bytes,
        basis="fused",
        reason=next((each.reason for each in chain if each.reason), None),
    )


def _total(counts: Sequence[int | None]) -> int | None:
    return None if None in counts else sum(count or 0 for count in counts)


def _is_of(cost: NodeCost, timing: NodeTiming) -> bool:
    """Whether a node is of the operator of a timing, or of the one that was fused or laid out into it."""
    plain = cost.op_type.rpartition(":")[2]
    return plain in (timing.op_type, _OTHER_NAMES.get(timing.op_type), timing.op_type.removeprefix("Fused"))
