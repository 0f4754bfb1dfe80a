"""Runs into self times per node. A node is a row: path of the graphs around it, index, name."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field

from onnxdyno.measuring.profiling.events import Args, Details, read_number
from onnxdyno.measuring.profiling.nesting import NONE, depths_of, enclosing
from onnxdyno.measuring.profiling.runs import Columns, Node, Run, Runs

MOST_SLICES = 20_000
"""Events of a run beyond which its course is not kept, only its sums."""
_Key = tuple[str, int, str]
"""Path, index, name: indices and names may repeat across subgraphs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One node of the published profile; `first` is what its first event said of shapes and sizes."""

    path: str
    node: Node
    first: Details


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The events of one run: row, start after the run's own, length, depth."""

    rows: array[int]
    starts_us: array[int]
    lengths_us: array[int]
    depths: array[int]

    @property
    def order(self) -> list[int]:
        """Positions, an outer event before those inside it, else by time."""
        return sorted(range(len(self.rows)), key=lambda at: (self.starts_us[at], self.depths[at], at))


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """One run: the rows it has and their self times, which add up where a body ran often."""

    length_us: int
    rows: array[int]
    self_us: array[int]
    device_us: dict[int, int]
    arena_peak_bytes: int | None
    arena_held_bytes: int | None
    timeline: Timeline | None


@dataclass(slots=True)
class Rows:
    """Rows by number, in order of first appearance."""

    rows: list[Row] = field(default_factory=list)
    _numbers: dict[_Key, int] = field(default_factory=dict)
    _last: tuple[array[int], array[int]] = field(default_factory=lambda: (array("l"), array("l")))

    def fold(self, run: Run, runs: Runs) -> Folded:
        """One run into its self times."""
        columns = run.columns
        if runs.holders.isdisjoint(columns.nodes):
            numbers, self_us = self._top_level(columns, runs), columns.lengths_us
            depths = array("l", bytes(array("l").itemsize * len(numbers)))
        else:
            inside = enclosing(columns, runs.holders)
            depths = depths_of(inside)
            numbers, self_us = self._nested(columns, runs, inside, depths), _self_times(columns.lengths_us, inside)
        timeline = None
        if len(numbers) <= MOST_SLICES:
            starts_us = array("q", (start_us - run.start_us for start_us in columns.starts_us))
            timeline = Timeline(rows=numbers, starts_us=starts_us, lengths_us=columns.lengths_us, depths=depths)
        device_us: dict[int, int] = defaultdict(int)
        for at, part_us in columns.device_us.items():
            device_us[numbers[at]] += part_us
        if len(set(numbers)) < len(numbers):
            numbers, self_us = _summed(numbers, self_us)
        arena = _arena(columns, runs)
        return Folded(
            length_us=run.length_us,
            rows=numbers,
            self_us=self_us,
            device_us=dict(device_us),
            arena_peak_bytes=read_number(bytes(arena.mem_in_use_peak)),
            arena_held_bytes=read_number(bytes(arena.mem_arena_held)),
            timeline=timeline,
        )

    def _top_level(self, columns: Columns, runs: Runs) -> array[int]:
        """Row of each event of a run without subgraphs; runs are mostly like the one before."""
        last_nodes, last_rows = self._last
        if columns.nodes == last_nodes:
            return last_rows
        rows = array(
            "l", (self._number("", runs.nodes[n], columns.details.get(at)) for at, n in enumerate(columns.nodes))
        )
        self._last = (columns.nodes, rows)
        return rows

    def _nested(self, columns: Columns, runs: Runs, inside: array[int], depths: array[int]) -> array[int]:
        """Row of each event: an outer event before those inside it, else by time."""
        numbers = array("l", [0]) * len(inside)
        paths: dict[int, str] = {NONE: ""}
        for at in sorted(range(len(inside)), key=lambda at: (columns.starts_us[at], depths[at], at)):
            number, path = columns.nodes[at], paths[inside[at]]
            node = runs.nodes[number]
            numbers[at] = self._number(path, node, columns.details.get(at))
            if number in runs.holders:
                paths[at] = f"{path}/{node.name}" if path else node.name
        return numbers

    def _number(self, path: str, node: Node, details: Details | None) -> int:
        key = (path, node.index, node.name)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.rows)
            self.rows.append(Row(path=path, node=node, first=details or Details()))
        return number


def _summed(rows: array[int], self_us: array[int]) -> tuple[array[int], array[int]]:
    spent: dict[int, int] = defaultdict(int)
    for number, part_us in zip(rows, self_us, strict=True):
        spent[number] += part_us
    return array("l", spent), array("q", spent.values())


def _arena(columns: Columns, runs: Runs) -> Args:
    """The last event on the device, or on the host where there is no other: an arena's peak is of its whole life."""
    wanted = runs.on_device or columns.last
    return next((columns.last[number] for number in reversed(columns.nodes) if number in wanted), Args())


def _self_times(lengths_us: array[int], inside: array[int]) -> array[int]:
    """What is nested in an If, Loop or Scan is taken off it."""
    self_us = array("q", lengths_us)
    for at, outer in enumerate(inside):
        if outer != NONE:
            self_us[outer] -= lengths_us[at]
    return array("q", (max(0, part_us) for part_us in self_us))


class Kept:
    """The last whole runs. Which are whole is known at the end, so the last of each number of rows are kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._counts: Counter[int] = Counter()
        self._last: dict[int, deque[tuple[int, Folded]]] = {}
        self._seen = 0

    def add(self, folded: Folded) -> None:
        """The next run."""
        count = len(folded.rows)
        self._counts[count] += 1
        self._last.setdefault(count, deque(maxlen=self._most)).append((self._seen, folded))
        self._seen += 1

    def runs(self) -> list[Folded]:
        """The last whole runs, in order: those with as many nodes as most runs have, or more."""
        if not self._counts:
            return []
        usual = self._counts.most_common(1)[0][0]
        whole = [pair for count, last in self._last.items() if count >= usual for pair in last]
        return [folded for _, folded in sorted(whole, key=lambda pair: pair[0])[-self._most :]]
