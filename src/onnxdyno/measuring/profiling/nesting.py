"""Which node events ran inside which: those of a subgraph inside their If, Loop or Scan."""

from __future__ import annotations

from array import array
from collections.abc import Set
from itertools import pairwise

from onnxdyno.measuring.profiling.runs import Columns

NONE = -1


def enclosing(columns: Columns, holders: Set[int]) -> array[int]:
    """For each event the position of the event that it ran directly inside, or `NONE`.

    `holders` are the numbers of nodes that may hold others. Written when they end, inner events stand before
    the outer one; events that are sorted by start are first put into that order.
    """
    starts_us, lengths_us = columns.starts_us, columns.lengths_us
    inside = array("l", [NONE]) * len(starts_us)
    is_by_start = all(early <= late for early, late in pairwise(starts_us))
    order = _by_end(columns, holders) if is_by_start else range(len(starts_us))
    roots: list[int] = []
    for at in order:
        if columns.nodes[at] in holders:
            start_us, end_us = starts_us[at], starts_us[at] + lengths_us[at]
            while roots and _ran_inside(starts_us[roots[-1]], lengths_us[roots[-1]], start_us, end_us):
                inside[roots.pop()] = at
        roots.append(at)
    return inside


def depths_of(inside: array[int]) -> array[int]:
    """For each event how many it runs inside of."""
    depths = array("l", [NONE]) * len(inside)
    for first in range(len(inside)):
        chain = []
        at = first
        while at != NONE and depths[at] == NONE:
            chain.append(at)
            at = inside[at]
        reached = 0 if at == NONE else depths[at] + 1
        for place in reversed(chain):
            depths[place] = reached
            reached += 1
    return depths


def _by_end(columns: Columns, holders: Set[int]) -> list[int]:
    """Positions as if events were written when they end; the outer one last, whose end may be cut one short."""

    def key(at: int) -> tuple[int, bool, int]:
        is_outer = columns.nodes[at] in holders
        return (columns.starts_us[at] + columns.lengths_us[at] + is_outer, is_outer, -columns.starts_us[at])

    return sorted(range(len(columns.nodes)), key=key)


def _ran_inside(start_us: int, length_us: int, outer_start_us: int, outer_end_us: int) -> bool:
    """Whether an event that ended before the outer one did ran inside it.

    Start and length are cut to microseconds apart, so an end may seem one later than it was. A node that took no time
    in the microsecond in which the outer one began ended before it: a subgraph takes longer to set up.
    """
    began_inside = start_us > outer_start_us or (start_us == outer_start_us and length_us > 0)
    return began_inside and start_us + length_us <= outer_end_us + 1
