"""Axes: the dimensions of a model's inputs that can be varied, solved jointly, each with its role."""

import re
from dataclasses import dataclass, replace

from onnx import ModelProto

from onnxdyno.domain.axes import Axis, Role
from onnxdyno.domain.models import Dim
from onnxdyno.domain.text import printable
from onnxdyno.graphs.declared import Declared, Sum, as_sum, is_generated
from onnxdyno.graphs.grouping import Roles, grouped
from onnxdyno.graphs.roles import named_role, positional_roles
from onnxdyno.graphs.tracing import At, Evidence, Extent, InputDim
from onnxdyno.graphs.walking import walk

_MERGED_ROLES = (Role.BATCH, Role.SEQUENCE, Role.HEIGHT, Role.WIDTH)
_LISTED_WHEN_FIXED = (Role.BATCH, Role.HEIGHT, Role.WIDTH, Role.SEQUENCE)
_TOTAL = re.compile(r"total.*(seq|len)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """Axes of a model, the dimensions of each fed input in terms of them, and what the walk saw of values."""

    axes: tuple[Axis, ...]
    dims: dict[str, tuple[Dim, ...]]
    evidence: Evidence
    notes: tuple[str, ...]
    outputs: dict[str, tuple[Axis | None, ...]]
    """Output -> the axis that each dimension is as long as, where the walk could follow one to it."""
    limits: tuple[tuple[str, int], ...]
    """(axis, largest size) that tables of positions in the file allow."""
    counted: dict[str, Dim]
    """Input -> the dimension that its values count (lengths of sequences)."""


def solve(model: ModelProto, inputs: tuple[Declared, ...]) -> Solved:
    """Which dimensions are one, what they mean, and which stay free. Reads the graph, runs nothing."""
    sums, notes = _sums(inputs)
    dims = _input_dims(inputs, sums)
    trace = walk(model, dims)
    evidence = trace.evidence
    by_position = {value.name: positional_roles(value) for value in inputs}
    roles = Roles(by_position=by_position, dims=dims, evidence=evidence)
    groups, taken_apart = grouped(inputs, dims, roles, sums)
    axes = _Axes(dims=dims, groups=groups, roles=roles, sums=sums)
    solved = {value.name: tuple(axes.dim(value, i) for i in range(len(value.dims or ()))) for value in inputs}
    return Solved(
        axes=axes.listed(),
        dims=solved,
        evidence=evidence,
        notes=(*notes, *taken_apart, *axes.notes),
        outputs={
            value.name: tuple(axes.followed(extent) for extent in trace.extents.get(value.name, ()))
            for value in model.graph.output
        },
        limits=axes.limits({**_positions(dims, evidence), **evidence.limits}),
        counted={name: dim for name, at in evidence.lengths.items() if (dim := axes.counted(at)) is not None},
    )


def _positions(dims: tuple[InputDim, ...], evidence: Evidence) -> dict[int, int]:
    """Last dimensions of inputs that hold positions, and the rows of the tables that these index."""
    return {
        i: min(evidence.tables[dim.input])
        for i, dim in enumerate(dims)
        if "position" in dim.input.lower() and dim.input in evidence.tables and dim.position == dim.rank - 1
    }


def _sums(inputs: tuple[Declared, ...]) -> tuple[dict[str, Sum], list[str]]:
    """Symbols that spell a sum of others, and notes on those that are taken for one."""
    symbols = [dim.symbol for value in inputs for dim in value.dims or () if dim.symbol is not None]
    known = frozenset(symbols)
    sums = {symbol: found for symbol in symbols if (found := as_sum(symbol, known)) is not None}
    plain = [symbol for symbol in dict.fromkeys(symbols) if symbol not in sums]
    past = [symbol for symbol in plain if "past" in symbol.lower()]
    total = [symbol for symbol in plain if _TOTAL.search(symbol)]
    now = [s for s in plain if s not in past and s not in total and (r := named_role(s)) and r[0] is Role.SEQUENCE]
    notes = []
    for symbol in total if past and now else ():
        sums[symbol] = Sum(plus=(past[0], now[0]), minus=(), constant=0)
        notes.append(f"'{symbol}' is taken for {past[0]} + {now[0]}.")
    return sums, notes


def _input_dims(inputs: tuple[Declared, ...], sums: dict[str, Sum]) -> tuple[InputDim, ...]:
    """Every input dimension, then one without an input for each symbol that only sums mention."""
    dims = [
        InputDim(input=value.name, position=i, rank=len(value.dims or ()), size=dim.size, symbol=dim.symbol)
        for value in inputs
        for i, dim in enumerate(value.dims or ())
    ]
    plain = {dim.symbol for dim in dims}
    mentioned = dict.fromkeys(name for total in sums.values() for name in (*total.plus, *total.minus))
    dims.extend(InputDim(input="", position=0, rank=0, size=None, symbol=s) for s in mentioned if s not in plain)
    return tuple(dims)


class _Axes:
    """Names for the groups of dimensions that are free, in the order of the inputs."""

    def __init__(self, *, dims: tuple[InputDim, ...], groups: list[int], roles: Roles, sums: dict[str, Sum]) -> None:
        self._dims, self._groups, self._roles, self._sums = dims, groups, roles, sums
        members: dict[int, list[int]] = {}
        for i, group in enumerate(groups):
            members.setdefault(group, []).append(i)
        self._members = members
        self._index = {(dim.input, dim.position): i for i, dim in enumerate(dims)}
        self._first_of = {dim.symbol: i for i, dim in reversed(list(enumerate(dims))) if dim.symbol is not None}
        self._free_ranks = {dim.rank for dim in dims if dim.size is None and dim.position == 0}
        self._taken: set[str] = set()
        self._pins = {groups[i]: size for i, size in roles.evidence.pinned.items()}
        self.notes: list[str] = []
        self._by_group: dict[int, Axis] = {}
        self._name_free_groups()
        self._fixed = self._fixed_axes()

    def listed(self) -> tuple[Axis, ...]:
        """Free axes, then fixed ones."""
        return (*dict.fromkeys(self._by_group.values()), *self._fixed)

    def dim(self, value: Declared, position: int) -> Dim:
        """One dimension of one input in terms of the axes."""
        i = self._index[value.name, position]
        declared = self._dims[i]
        if declared.size is not None:
            return Dim(role=self._roles.of([i])[0], constant=declared.size)
        if declared.symbol in self._sums:
            constant, plus, minus = self._terms(declared.symbol, frozenset())
            return Dim(role=Role.SEQUENCE, constant=constant, axes=plus, negative=minus, symbol=declared.symbol)
        group = self._groups[i]
        if group in self._pins:
            return Dim(role=self._roles.of(self._members[group])[0], constant=self._pins[group], symbol=declared.symbol)
        axis = self._by_group[group]
        return Dim(role=self._roles.spatial(i) or axis.role, axes=(axis.name,), symbol=declared.symbol)

    def followed(self, extent: Extent) -> Axis | None:
        """The axis that a followed extent still is as long as."""
        if not isinstance(extent, At) or not extent.exact or self._dims[extent.dim].size is not None:
            return None
        return self._by_group.get(self._groups[extent.dim])

    def counted(self, extent: Extent) -> Dim | None:
        """What values that count this extent are, if it is one dimension of an input."""
        if not isinstance(extent, At) or not self._dims[extent.dim].input:
            return None
        size, axis = self._dims[extent.dim].size, self.followed(replace(extent, exact=True))
        if size is not None:
            return Dim(role=Role.SEQUENCE, constant=size)
        return None if axis is None else Dim(role=axis.role, axes=(axis.name,))

    def limits(self, rows: dict[int, int]) -> tuple[tuple[str, int], ...]:
        """(axis name, rows of its smallest table of positions)."""
        found: dict[str, int] = {}
        for dim, most in rows.items():
            axis = self.followed(At(dim))
            if axis is not None:
                found[axis.name] = min(most, found.get(axis.name, most))
        return tuple(sorted(found.items()))

    def _terms(self, symbol: str, seen: frozenset[str]) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
        """(constant, axes added, axes subtracted) that a symbol stands for; sums within sums are taken apart too."""
        total = self._sums.get(symbol)
        if total is None or symbol in seen:
            group = self._groups[self._first_of[symbol]]
            axis = self._by_group.get(group)
            return (self._pins.get(group, 0), (), ()) if axis is None else (0, (axis.name,), ())
        constant = total.constant
        plus: list[str] = []
        minus: list[str] = []
        for sign, terms in ((1, total.plus), (-1, total.minus)):
            for term in terms:
                more = self._terms(term, seen | {symbol})
                constant += sign * more[0]
                plus += more[1] if sign > 0 else more[2]
                minus += more[2] if sign > 0 else more[1]
        return constant, tuple(plus), tuple(minus)

    def _name_free_groups(self) -> None:
        unnamed: dict[Role, Axis] = {}
        for group, members in self._members.items():
            first = self._dims[members[0]]
            symbols = tuple(dict.fromkeys(s for i in members if (s := self._dims[i].symbol) is not None))
            if first.size is not None or (symbols and self._sums.keys() >= set(symbols)):
                continue
            if group in self._pins:
                self.notes.append(
                    f"dimension {first.position} of '{printable(first.input)}' is declared dynamic; "
                    f"the weights leave only {self._pins[group]}."
                )
                continue
            role = self._roles.of(members)[0]
            own = next((s for s in symbols if not is_generated(s)), None)
            if own is None and role in unnamed:
                self._by_group[group] = unnamed[role]
                continue
            name = self._free_name(own, role, f"{printable(first.input)}:{first.position}")
            axis = Axis(name=name, role=role, size=None, symbols=symbols)
            self._by_group[group] = axis
            if own is None and role in _MERGED_ROLES:
                unnamed[role] = axis

    def _free_name(self, own: str | None, role: Role, place: str) -> str:
        wishes = [*([own] if own is not None else []), *([role.value] if role is not Role.OTHER else [])]
        name = next((name for name in wishes if name not in self._taken), place)
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def _fixed_axes(self) -> tuple[Axis, ...]:
        """Fixed batch, height, width and sequence, where no free axis has that role."""
        free = {axis.role for axis in self._by_group.values()}
        free.update(r for i, d in enumerate(self._dims) if d.size is None and (r := self._roles.spatial(i)) is not None)
        found: dict[Role, tuple[int, Axis]] = {}
        for i, dim in enumerate(self._dims):
            if dim.size is None:
                continue
            role, weight = self._roles.of([i])
            if role in free or role not in _LISTED_WHEN_FIXED or not self._may_list(dim, role, weight):
                continue
            rank = weight * 10 + dim.rank
            if role not in found or rank > found[role][0]:
                name = role.value if role.value not in self._taken else f"fixed_{role.value}"
                found[role] = (rank, Axis(name=name, role=role, size=dim.size))
        return tuple(axis for _, axis in found.values())

    def _may_list(self, dim: InputDim, role: Role, weight: int) -> bool:
        """Position alone is enough for the batch of an input with something behind it, not for a sequence."""
        if role is Role.BATCH:
            return dim.rank >= 2 and (weight > 1 or dim.rank not in self._free_ranks)
        return weight > 1 or role is not Role.SEQUENCE
