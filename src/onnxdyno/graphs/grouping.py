"""Which dimensions are one axis: the same symbol where the graph agrees, or equal by what the graph does with them."""

from collections.abc import Iterable
from dataclasses import dataclass

from onnxdyno.domain.axes import Role
from onnxdyno.graphs.declared import Declared, Sum
from onnxdyno.graphs.roles import is_cache, named_role
from onnxdyno.graphs.tracing import Evidence, InputDim

_SPATIAL_WEIGHT = 6
_SURE_WEIGHT = 4
"""What the graph does with a dimension, from a look-up (4) on, outweighs that its name stands elsewhere too."""

_SIDES = (Role.HEIGHT, Role.WIDTH)
_KIND = {
    Role.BATCH: Role.BATCH,
    Role.CHANNELS: Role.CHANNELS,
    **dict.fromkeys(_SIDES, Role.HEIGHT),
    **dict.fromkeys((Role.SEQUENCE, Role.TIME, Role.PAST), Role.SEQUENCE),
}
"""Roles that one symbol may well have at once are one kind: a square's sides, steps of a signal or of a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """The role of one dimension, and of all that are equal to it."""

    by_position: dict[str, tuple[Role, ...]]
    dims: tuple[InputDim, ...]
    evidence: Evidence

    def votes(self, i: int) -> dict[Role, int]:
        """Weights for one dimension: by use in the graph, by name, by position."""
        votes = dict(self.evidence.votes.get(i, {}))
        dim = self.dims[i]
        named = None if dim.symbol is None else named_role(dim.symbol)
        if named is not None:
            votes[named[0]] = max(named[1], votes.get(named[0], 0))
        if dim.input in self.by_position:
            votes.setdefault(self.by_position[dim.input][dim.position], 1)
        return votes

    def of(self, members: Iterable[int]) -> tuple[Role, int]:
        """(role, weight) of dimensions that are one."""
        best: dict[Role, int] = {}
        for i in members:
            for role, weight in self.votes(i).items():
                best[role] = max(weight, best.get(role, 0))
        return max(best.items(), key=lambda vote: vote[1], default=(Role.OTHER, 0))

    def spatial(self, i: int) -> Role | None:
        """HEIGHT or WIDTH where this very dimension is used as one."""
        votes = self.evidence.votes.get(i, {})
        return next((r for r in _SIDES if votes.get(r, 0) >= _SPATIAL_WEIGHT), None)

    def seen(self, i: int) -> Role | None:
        """The kind that the graph alone gives this very dimension, if it is sure."""
        votes = self.evidence.votes.get(i, {})
        role, weight = max(votes.items(), key=lambda vote: vote[1], default=(Role.OTHER, 0))
        return _KIND.get(role) if weight >= _SURE_WEIGHT else None

    def usual(self, i: int) -> Role | None:
        """The kind that its position alone gives this dimension."""
        dim = self.dims[i]
        return _KIND.get(self.by_position[dim.input][dim.position]) if dim.input in self.by_position else None


def grouped(
    inputs: tuple[Declared, ...], dims: tuple[InputDim, ...], roles: Roles, sums: dict[str, Sum]
) -> tuple[list[int], list[str]]:
    """For every dimension the first one that must be equal to it, and notes on symbols that were taken apart."""
    parent = list(range(len(dims)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    def tie(left: int, right: int) -> None:
        low, high = sorted((root(left), root(right)))
        parent[high] = low

    caches = {value.name for value in inputs if is_cache(value)}
    keys, notes = _keys(dims, roles, caches)
    first: dict[object, int] = {}
    for i, key in keys.items():
        tie(first.setdefault(key, i), i)
    for left, right in roles.evidence.equal:
        if dims[left].symbol not in sums and dims[right].symbol not in sums:
            tie(left, right)
    return [root(i) for i in range(len(dims))], notes


def _keys(dims: tuple[InputDim, ...], roles: Roles, caches: set[str]) -> tuple[dict[int, object], list[str]]:
    """Dimension -> what all dimensions of its axis share; and notes."""
    keys: dict[int, object] = {}
    members: dict[str, list[int]] = {}
    for i, dim in enumerate(dims):
        if dim.size is None and dim.symbol is not None:
            members.setdefault(dim.symbol, []).append(i)
        elif dim.size is None and dim.input in caches:
            keys[i] = (dim.rank, dim.position)
    notes = []
    for symbol, named in members.items():
        parts = {i: roles.seen(i) for i in named}
        kinds = list(dict.fromkeys(role for role in parts.values() if role is not None))
        for i, seen in parts.items():
            fallback = roles.usual(i) if roles.usual(i) in kinds else (kinds[0] if kinds else None)
            keys[i] = symbol if len(kinds) < 2 else (symbol, seen or fallback)
        if len(kinds) > 1:
            notes.append(f"the name '{symbol}' stands for {' and '.join(kinds)} alike; they are varied separately.")
    return keys, notes
