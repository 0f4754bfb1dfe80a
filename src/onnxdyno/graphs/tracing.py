"""Where every dimension of every input goes: a walk over the graph that follows extents and collects evidence.

Roles, equalities and value ranges come from what the graph does with an input (convolves it, feeds it to a recurrent
state, looks it up in a table), not from names alone. Nothing is computed; what an op does to its shape is either known
here or the trace ends. Shapes that the graph computes (Shape, Gather, Concat ...) are followed as values, see
`arithmetic`.
"""

from collections import ChainMap
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, numpy_helper

from onnxdyno.domain.axes import Role

_SMALL_ELEMENTS = 256
_MOST_RAMP_ELEMENTS = 1 << 16
MOST_ELEMENTS = 64
"""Dimensions of a value, and elements of a tensor, that are followed: no real shape has more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputDim:
    """One dimension of one fed input as declared; `size` None = dynamic."""

    input: str
    position: int
    rank: int
    size: int | None
    symbol: str | None


@dataclass(frozen=True, slots=True)
class At:
    """An extent that comes from input dimension number `dim`; `exact`: it still has that dimension's size."""

    dim: int
    exact: bool = True


Extent = int | At | None
Extents = tuple[Extent, ...]
"""Sizes of the dimensions of a value; or, of a small integer tensor, its elements in order."""


@dataclass(slots=True, kw_only=True)
class Evidence:
    """What the walk saw. Dimensions are indices into `Trace.dims`; weights are compared, never added up."""

    equal: list[tuple[int, int]] = field(default_factory=list)
    votes: dict[int, dict[Role, int]] = field(default_factory=dict)
    pinned: dict[int, int] = field(default_factory=dict)
    """Dynamic dimensions that a constant weight leaves only one size."""
    tables: dict[str, list[int]] = field(default_factory=dict)
    """Input -> sizes of the tables that its values index."""
    compared: dict[str, list[int]] = field(default_factory=dict)
    """Input -> integer constants that its values are compared with."""
    trips: set[str] = field(default_factory=set)
    """Inputs whose value is a trip count."""
    lengths: dict[str, Extent] = field(default_factory=dict)
    """Input -> the dimension that its values count (lengths of sequences)."""
    limits: dict[int, int] = field(default_factory=dict)
    """Dynamic dimension -> rows of the smallest table of positions that it indexes."""


class Trace:
    """State of the walk: extents, small integer values and value origins of every name in scope."""

    def __init__(self, dims: Sequence[InputDim]) -> None:
        self.dims = dims
        self.evidence = Evidence()
        self.extents: MutableMapping[str, Extents] = {}
        self.values: MutableMapping[str, Extents] = {}
        self.origins: MutableMapping[str, str] = {}
        self.stored: MutableMapping[str, TensorProto] = {}
        self.counted: MutableMapping[str, At] = {}
        """Names that hold 0, 1, 2 ... up to a dimension's size."""

    def add_constant(self, name: str, tensor: TensorProto) -> None:
        """A tensor stored in the file: its extents, and its values if they are few integers."""
        self.extents[name] = tuple(int(size) for size in tensor.dims)
        self.stored[name] = tensor
        values = small_integers(tensor)
        if values is not None and len(values) <= MOST_ELEMENTS:
            self.values[name] = values

    def inner(self, *, is_closed: bool = False) -> "Trace":
        """A scope; what it defines stays inside, what it finds is shared. A closed one sees nothing of this one."""
        scope = Trace(self.dims)
        scope.evidence = self.evidence
        if not is_closed:
            scope.extents = ChainMap({}, self.extents)
            scope.values = ChainMap({}, self.values)
            scope.origins = ChainMap({}, self.origins)
            scope.stored = ChainMap({}, self.stored)
            scope.counted = ChainMap({}, self.counted)
        return scope

    def hand_over(self, name: str, scope: "Trace", inner_name: str) -> None:
        """What is known of `name` here is known of `inner_name` in another scope."""
        if name in self.extents:
            scope.extents[inner_name] = self.extents[name]
        if name in self.values:
            scope.values[inner_name] = self.values[name]
        if name in self.origins:
            scope.origins[inner_name] = self.origins[name]
        if name in self.stored:
            scope.stored[inner_name] = self.stored[name]
        if name in self.counted:
            scope.counted[inner_name] = self.counted[name]

    def constants(self, name: str) -> tuple[int, ...] | None:
        """Values of a small integer tensor, if all are known numbers."""
        values = self.values.get(name)
        if values is None:
            return None
        sizes = [self.size(value) for value in values]
        return None if None in sizes else tuple(size for size in sizes if size is not None)

    def size(self, extent: Extent) -> int | None:
        """The number behind an extent: known where the file fixes it."""
        if isinstance(extent, At):
            return self.dims[extent.dim].size if extent.exact else None
        return extent

    def ramp(self, name: str) -> int | None:
        """n, if the file stores 0, 1 ... n - 1 under this name."""
        tensor = self.stored.get(name)
        return None if tensor is None else _ramp(tensor)

    def is_dynamic(self, extent: Extent) -> bool:
        """Whether the extent comes from an input dimension without a declared size."""
        return isinstance(extent, At) and self.dims[extent.dim].size is None

    def vote(self, extent: Extent, role: Role, weight: int) -> None:
        """Evidence for the role of the dimension this extent comes from."""
        if isinstance(extent, At):
            votes = self.evidence.votes.setdefault(extent.dim, {})
            votes[role] = max(weight, votes.get(role, 0))

    def vote_all(self, extents: Extents | None, roles: Sequence[Role], weight: int) -> None:
        """One vote per dimension, if the rank agrees."""
        if extents is not None and len(extents) == len(roles):
            for extent, role in zip(extents, roles, strict=True):
                self.vote(extent, role, weight)

    def pin(self, extent: Extent, size: Extent) -> None:
        """The extent must have exactly the size of a constant weight."""
        if isinstance(extent, At) and extent.exact and self.is_dynamic(extent) and isinstance(size, int) and size > 0:
            self.evidence.pinned.setdefault(extent.dim, size)

    def meet(self, extents: Sequence[Extent]) -> Extent:
        """The extent of dimensions that must be equal (or 1): dynamic ones are recorded as equal."""
        dynamic = [e for e in extents if isinstance(e, At) and self.is_dynamic(e)]
        exact = [e for e in dynamic if e.exact]
        self.evidence.equal.extend((exact[0].dim, other.dim) for other in exact[1:] if other.dim != exact[0].dim)
        if exact:
            return exact[0] if None not in extents else replace(exact[0], exact=False)
        labels = dynamic or [e for e in extents if isinstance(e, At)]
        if labels:
            return labels[0]
        sizes = [e for e in extents if isinstance(e, int) and e != 1]
        return sizes[0] if sizes else (None if None in extents else 1)

    def contract(self, left: Extent, right: Extent) -> None:
        """Two dimensions that a product sums over: equal, or as large as the constant one."""
        both = [e for e in (left, right) if isinstance(e, At) and e.exact and self.is_dynamic(e)]
        if len(both) == 2 and both[0].dim != both[1].dim:
            self.meet(both)
            for extent in both:
                self.vote(extent, Role.OTHER, 2)
        self.pin(left, right)
        self.pin(right, left)


def _ramp(tensor: TensorProto) -> int | None:
    count = int(np.prod([int(size) for size in tensor.dims], dtype=object))
    is_integer = tensor.data_type in (TensorProto.INT64, TensorProto.INT32)
    if not is_integer or not 2 <= count <= _MOST_RAMP_ELEMENTS or tensor.data_location == TensorProto.EXTERNAL:
        return None
    try:
        values = numpy_helper.to_array(tensor).reshape(-1)
    except (ValueError, TypeError):
        return None
    return count if len(values) == count and bool((values == np.arange(count)).all()) else None


def loosen(extents: Sequence[Extent]) -> Extents:
    """The same origins, with sizes that may have changed."""
    return tuple(replace(e, exact=False) if isinstance(e, At) else None for e in extents)


def small_integers(tensor: TensorProto) -> tuple[int, ...] | None:
    """Values of a stored integer tensor of few elements, else None."""
    is_integer = tensor.data_type in (TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL, TensorProto.UINT8)
    is_small = all(0 <= size <= _SMALL_ELEMENTS for size in tensor.dims) and len(tensor.dims) <= 1
    if not is_integer or not is_small or tensor.data_location == TensorProto.EXTERNAL:
        return None
    try:
        return tuple(int(value) for value in numpy_helper.to_array(tensor).reshape(-1))
    except (ValueError, TypeError):
        return None


def attribute(node: NodeProto, name: str) -> AttributeProto | None:
    """The attribute of this name, or None."""
    return next((a for a in node.attribute if a.name == name), None)


def integer(node: NodeProto, name: str, default: int) -> int:
    """An integer attribute."""
    found = attribute(node, name)
    return default if found is None else int(found.i)


def integers(node: NodeProto, name: str) -> tuple[int, ...] | None:
    """An attribute that lists integers, or None."""
    found = attribute(node, name)
    return None if found is None else tuple(int(value) for value in found.ints)


def subgraphs(node: NodeProto) -> list[GraphProto]:
    """Graphs held by this node (branches of If, bodies of Loop and Scan)."""
    return [a.g for a in node.attribute if a.HasField("g")] + [g for a in node.attribute for g in a.graphs]
