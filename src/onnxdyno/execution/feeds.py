"""Input sets of a point: made from seeds, held against the model's own relations, told apart by a digest."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from onnxdyno.domain.assignments import Assignment, Turn
from onnxdyno.domain.axes import AxisSizes
from onnxdyno.execution.outputs import describe_value
from onnxdyno.graphs.feeds import check
from onnxdyno.graphs.materialise import materialise

Feeds = dict[str, Any]

MOST_INPUT_BYTES = 256 * 2**20
"""Input sets beyond this are not made: rotation must not turn into a memory test."""


def make_feeds(assignment: Assignment, sizes: AxisSizes, ordinal: int) -> Feeds:
    """One input set, held against the model's own relations before it runs: that it runs would be no proof.

    The seed depends on the spec's seed and the set, so that every launch sees the same sets.
    """
    seed = assignment.seed * 1_000 + ordinal
    values = {recipe.name: materialise(recipe, sizes, seed) for recipe in assignment.recipes}
    check(values, assignment.recipes, sizes)
    return {name: value for name, value in values.items() if value is not None}


def more_sets(assignment: Assignment, turn: Turn, first: Feeds, set_ns: int) -> list[Feeds]:
    """Further input sets to rotate through: as many as memory, and a tenth of the turn's time, can hold.

    `set_ns` is what the first took to make and to bind, which makes a call: at a slow point the time goes into samples.
    """
    by_memory = MOST_INPUT_BYTES // max(1, size_bytes(first.values())) - 1
    by_time = turn.budget_ns // 10 // max(1, set_ns)
    count = max(0, min(assignment.protocol.input_sets - 1, by_memory, by_time))
    return [make_feeds(assignment, turn.point.sizes, ordinal) for ordinal in range(1, 1 + count)]


def size_bytes(values: Iterable[Any]) -> int:
    """Bytes of all that are tensors."""
    return sum(value.nbytes for value in values if isinstance(value, np.ndarray))


def digest_inputs(sets: Sequence[Feeds]) -> str:
    """Sha256 over names, types, shapes and bytes of every input set, in order."""
    digest = hashlib.sha256()
    for feeds in sets:
        for name in sorted(feeds):
            value = feeds[name]
            digest.update(f"{name}\0{describe_value(value)}\0".encode("utf-8", "surrogateescape"))
            digest.update(_content(value))
    return digest.hexdigest()


def _content(value: Any) -> Any:
    """What a digest is taken over: the bytes of an array (bfloat16 has no buffer of its own), else its text."""
    if not isinstance(value, np.ndarray) or value.dtype == object:
        exact = value.tolist() if isinstance(value, np.ndarray) else [each.tolist() for each in value]
        return repr(exact).encode("utf-8", "surrogateescape")
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)
