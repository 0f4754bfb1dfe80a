"""Shapes that have a batch written into them, made to follow a dynamic one, node by node along the walk."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

from onnxdyno.domain.errors import RebatchRefused
from onnxdyno.domain.text import printable
from onnxdyno.graphs.shapes import axes_of
from onnxdyno.graphs.tracing import At, Extent, Extents, InputDim, Trace, integer, integers
from onnxdyno.graphs.walking import Walk

_RECURRENT = ("LSTM", "GRU", "RNN")


class Rewriter:
    """One pass over the main graph. `batch` are the indices of the dimensions that are it, `was` is its old size."""

    def __init__(self, model: ModelProto, dims: tuple[InputDim, ...], *, batch: frozenset[int], was: int) -> None:
        self.batch = batch
        self.changes: list[str] = []
        self._model = model
        self._was = was
        self._dims = dims
        self._walk = Walk(model, dims)
        self._nodes: list[NodeProto] = []
        self._added = 0
        self._size_name: str | None = None
        self._taken = {name for node in model.graph.node for name in (*node.input, *node.output)}
        self._taken.update(tensor.name for tensor in model.graph.initializer)

    @property
    def trace(self) -> Trace:
        """What the walk knows so far of the copy."""
        return self._walk.trace

    def rewrite(self) -> None:
        """Change the model in place. Raises `RebatchRefused` naming the node that cannot follow a batch."""
        for node in list(self._model.graph.node):
            known = self._change(node)
            self._append(node)
            if known is not None:
                self.trace.extents[node.output[0]] = known
        del self._model.graph.node[:]
        self._model.graph.node.extend(self._nodes)

    def _append(self, node: NodeProto) -> None:
        self._nodes.append(node)
        self._walk.node(self.trace, node)

    def _change(self, node: NodeProto) -> Extents | None:
        """Make one node follow the batch; the extents of its output, where they are known better than by the walk."""
        match node.op_type:
            case "Reshape":
                return self._reshape(node)
            case "Expand":
                self._target(node, 1, of_itself=True)
            case "Resize" if len(node.input) > 3:
                self._target(node, 3, of_itself=False)
            case "Squeeze":
                self._squeeze(node)
            case "Concat":
                self._concat(node)
            case op if op in _RECURRENT:
                self._states(node)
            case _:
                pass
        return None

    def _reshape(self, node: NodeProto) -> Extents | None:
        """The batch goes where as many elements stand before it as in the input: -1, 0, or computed."""
        x, target = self._extents(node, 0), self._constants(node, 1)
        given = integers(node, "shape")
        if target is None and given is not None:
            raise self._refused(node, "holds its shape in an attribute (opset below 5)")
        at = None if x is None else next((i for i, e in enumerate(x) if self._carries(e)), None)
        to = None if x is None or target is None or at is None else self._place(x[:at], target)
        if x is None or target is None or at is None or to is None:
            return None
        if target[to] % self._was and target[to] > 0:
            raise self._refused(node, f"reshapes to {list(target)}, which no multiple of a batch fits")
        label = x[at]
        is_alone = self._is_batch(label) and (target[to] == self._was or (target[to] == 0 and to == at))
        self._free(node, target, to, may_copy=is_alone and to == at)
        kept = [(x[i] if i < len(x) else None) if size == 0 else size for i, size in enumerate(target)]
        known = [None if size == -1 else size for size in kept]
        known[to] = label if is_alone or not isinstance(label, At) else replace(label, exact=False)
        return tuple(known)

    def _free(self, node: NodeProto, target: tuple[int, ...], to: int, *, may_copy: bool) -> None:
        """A target that the batch is written into at one place: -1 if that is free, 0, else computed."""
        if target[to] < 1:
            return
        new = list(target)
        if -1 not in target:
            new[to] = -1
        elif may_copy and integer(node, "allowzero", 0) == 0:
            new[to] = 0
        else:
            self._follow(node, 1, target, to)
            return
        self._replace(node, 1, target, new)

    def _place(self, before: Extents, target: Sequence[int]) -> int | None:
        """Position in a target before which the elements of the dimensions in front of the batch stand."""
        sizes = [self.trace.size(e) for e in before]
        if any(size is None for size in sizes):
            return len(before) if len(before) < len(target) else None
        wanted = prod(size for size in sizes if size is not None)
        fits = [i for i in range(len(target)) if prod(target[:i]) == wanted and all(t > 0 for t in target[:i])]
        by_zero = len(before) if len(before) < len(target) and all(t == 0 for t in target[: len(before)]) else None
        exact = [i for i in fits if target[i] in (self._was, 0, -1)]
        return next(iter(exact or fits), by_zero)

    def _target(self, node: NodeProto, position: int, *, of_itself: bool) -> None:
        """Expand (its input broadcasts by itself: 1) and Resize (the size must be given)."""
        x, target = self._extents(node, 0), self._constants(node, position)
        if x is None or target is None:
            return
        shift = len(target) - len(x)
        for i, extent in enumerate(x):
            at = i + shift
            if at < 0 or not self._is_batch(extent) or target[at] != self._was:
                continue
            if not of_itself:
                self._follow(node, position, target, at)
            elif self._was != 1:
                self._replace(node, position, target, [*target[:at], 1, *target[at + 1 :]])

    def _squeeze(self, node: NodeProto) -> None:
        x = self._extents(node, 0)
        if x is None:
            return
        axes = axes_of(self.trace, node, 1, len(x))
        gone = [e for i, e in enumerate(x) if self._carries(e) and (axes is None or i in axes)]
        if gone and self._was == 1:
            raise self._refused(node, "drops the batch as a dimension of 1")

    def _concat(self, node: NodeProto) -> None:
        """What is joined to a batch beside it (a class token) is repeated for every item."""
        known = [self.trace.extents.get(name) for name in node.input]
        ranks = {len(e) for e in known if e is not None}
        if len(ranks) != 1:
            return
        (rank,) = ranks
        axis = integer(node, "axis", 0) % rank if rank else 0
        for at in range(rank):
            if at != axis and any(e is not None and self._is_batch(e[at]) for e in known):
                for i, extents in enumerate(known):
                    self._repeat(node, i, extents, at)

    def _states(self, node: NodeProto) -> None:
        """Initial states and lengths that are stored for one item."""
        x, is_first = self._extents(node, 0), integer(node, "layout", 0) == 1
        if x is None or len(x) != 3 or not self._is_batch(x[0 if is_first else 1]):
            return
        for position, at in ((4, 0), (5, 0 if is_first else 1), (6, 0 if is_first else 1)):
            self._repeat(node, position, self._extents(node, position), at)

    def _repeat(self, node: NodeProto, position: int, extents: Extents | None, at: int) -> None:
        if extents is None or at >= len(extents) or isinstance(extents[at], At) or extents[at] is None:
            return
        if self._was != 1 or extents[at] != 1:
            raise self._refused(node, f"joins a constant of {extents[at]} to the batch")
        ones = [1] * len(extents)
        out = self._new_name("repeated")
        expand = helper.make_node("Expand", [node.input[position], self._computed(ones, at, 1)], [out], name=out)
        self._append(expand)
        self.changes.append(f"{_shown(node)}: input {position} is repeated for every item")
        node.input[position] = out

    def _follow(self, node: NodeProto, position: int, target: Sequence[int], at: int) -> None:
        node.input[position] = self._computed(target, at, target[at] // self._was)
        shape = [*(str(t) for t in target[:at]), "batch", *(str(t) for t in target[at + 1 :])]
        self.changes.append(f"{_shown(node)}: its shape {list(target)} is [{', '.join(shape)}]")

    def _replace(self, node: NodeProto, position: int, old: Sequence[int], new: list[int]) -> None:
        node.input[position] = self._store(new)
        self.changes.append(f"{_shown(node)}: its shape {list(old)} is {new}")

    def _computed(self, target: Sequence[int], at: int, factor: int) -> str:
        """Name of a shape with the batch, times a factor, at one place."""
        size = self._batch_size()
        if factor != 1:
            size = self._make("Mul", [size, self._store([factor])])
        parts = [self._store(list(target[:at]))] if at else []
        rest = [self._store(list(target[at + 1 :]))] if at + 1 < len(target) else []
        return self._make("Concat", [*parts, size, *rest], axis=0)

    def _batch_size(self) -> str:
        """Name of the batch, read from the first input that has it."""
        if self._size_name is None:
            dim = self._dims[min(self.batch)]
            shape = self._make("Shape", [dim.input])
            self._size_name = self._make("Gather", [shape, self._store([dim.position])], axis=0)
        return self._size_name

    def _make(self, op: str, inputs: list[str], **attributes: int) -> str:
        out = self._new_name(op.lower())
        self._append(helper.make_node(op, inputs, [out], name=out, **attributes))  # type: ignore[arg-type]
        return out

    def _store(self, values: list[int]) -> str:
        name = self._new_name("shape")
        tensor = numpy_helper.from_array(np.array(values, dtype=np.int64), name)
        self._append(helper.make_node("Constant", [], [name], name=name, value=tensor))
        return name

    def _new_name(self, what: str) -> str:
        name = f"rebatch_{what}_{self._added}"
        while name in self._taken:
            name += "_"
        self._added += 1
        self._taken.add(name)
        return name

    def _extents(self, node: NodeProto, position: int) -> Extents | None:
        return self.trace.extents.get(node.input[position]) if position < len(node.input) else None

    def _constants(self, node: NodeProto, position: int) -> tuple[int, ...] | None:
        return self.trace.constants(node.input[position]) if position < len(node.input) else None

    def _carries(self, extent: Extent) -> bool:
        return isinstance(extent, At) and extent.dim in self.batch

    def _is_batch(self, extent: Extent) -> bool:
        return isinstance(extent, At) and extent.exact and extent.dim in self.batch

    @staticmethod
    def _refused(node: NodeProto, why: str) -> RebatchRefused:
        return RebatchRefused(
            f"rebatch: the model cannot get a dynamic batch: {_shown(node)} {why}. Export it with a dynamic batch."
        )


def _shown(node: NodeProto) -> str:
    name = node.name or (node.output[0] if node.output else "")
    return f"{printable(node.op_type, 60)} '{printable(name, 120)}'"
