"""How the time of a run is shared out. Pure arithmetic on predicted times of one call."""

from collections.abc import Mapping, Sequence
from math import prod

from onnxdyno.domain.plan import Point

LEAST_CALLS = 4
"""Calls that one launch needs at least for a point: the cold one, one warm-up, two samples."""
FURTHER_NS = 1_000_000_000
"""What a further launch needs for a point: a steady state where the first two windows do not agree, and samples."""
MEMORY_CALLS = 2
"""Calls of a point in its memory process."""
SHARE = 0.75
"""Share of the time left that the least needs of all points may add up to: the rest is for better intervals."""
MEMORY_SHARE = 0.35
"""Share of the budget after which no further memory process starts."""
BESIDE_SHARE = 0.4
"""The same for memory read in other ways, which come after."""
FIRST_NS = 2_000_000_000
FIRST_CALLS = 60
FIRST_SHARE = 0.4
"""What the base takes of the spare time before the others: at most this share."""
WANTED_NS = 8_000_000_000
WANTED_CALLS = 60


def work(point: Point) -> int:
    """Product of a point's sizes: what the time of a call is taken to grow with until it was seen."""
    return prod(max(1, size) for _, size in point.sizes)


def predict_ns(point: Point, seen_ns: Mapping[Point, int]) -> int | None:
    """Time of one call: as seen, else from the nearest smaller point (else the smallest larger one) by its work."""
    if point in seen_ns:
        return seen_ns[point]
    if not seen_ns:
        return None
    mine = work(point)
    smaller = [other for other in seen_ns if work(other) <= mine]
    nearest = max(smaller, key=work) if smaller else min(seen_ns, key=work)
    return max(1, seen_ns[nearest] * mine // work(nearest))


def least_ns(call_ns: int, launches: int, *, is_memory_left: bool) -> int:
    """The least that a point costs from here on: its launches and, if it is still to come, its memory process."""
    return call_ns * (LEAST_CALLS * launches + (MEMORY_CALLS if is_memory_left else 0))


def has_room(call_ns: int, others_ns: Sequence[int], launches: int, left_ns: int) -> bool:
    """Whether one more point, its memory process included, fits beside what the others need at least."""
    committed_ns = sum(least_ns(other_ns, launches, is_memory_left=False) for other_ns in others_ns)
    return committed_ns + least_ns(call_ns, launches, is_memory_left=True) <= SHARE * left_ns


def affordable(points: Sequence[Point], calls_ns: Mapping[Point, int], launches: int, left_ns: int) -> frozenset[Point]:
    """The points whose least needs fit into the time left: the first of them in any case, then the cheapest first."""
    kept: set[Point] = set()
    spent_ns = 0
    for point in (*points[:1], *sorted(points[1:], key=lambda point: calls_ns[point])):
        if point in kept:
            continue
        spent_ns += least_ns(calls_ns[point], launches, is_memory_left=False)
        if kept and spent_ns > SHARE * left_ns:
            break
        kept.add(point)
    return frozenset(kept)


def share_out(
    points: Sequence[Point], calls_ns: Mapping[Point, int], left_ns: int, first: Point | None
) -> dict[Point, int]:
    """Time for each point of one launch: its least, and an even share of what that leaves, up to what it can use.

    `first`, the point that a reader looks at first, is served before the others with what a steady state and a narrow
    interval usually take; None = all are served alike. The sum exceeds `left_ns` only where the least needs alone do.
    """
    budgets = {point: LEAST_CALLS * calls_ns[point] for point in points}
    spare_ns = max(0, left_ns - sum(budgets.values()))
    if first is not None and first in budgets and len(points) > 1:
        extra_ns = min(FIRST_NS + FIRST_CALLS * calls_ns[first], round(FIRST_SHARE * spare_ns))
        budgets[first] += extra_ns
        spare_ns -= extra_ns
    for place, point in enumerate(sorted(points, key=calls_ns.__getitem__)):
        wanted_ns = max(0, WANTED_NS + WANTED_CALLS * calls_ns[point] - budgets[point])
        extra_ns = min(wanted_ns, spare_ns // (len(points) - place))
        budgets[point] += extra_ns
        spare_ns -= extra_ns
    return budgets
