"""The node events of each run, as columns: which node, when, how long. 24 bytes an event instead of its text."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from onnxdyno.measuring.profiling.events import SUFFIX, Args, Block, Details, Event, read_number

_HOST = "CPUExecutionProvider"
_FARTHEST = 8
_MOST_INDEX = 2**31
_MOST_DETAILS = 8
"""Nodes of one name, index and operator in different subgraphs whose shapes are told apart."""

CONTROL_FLOW = frozenset({"If", "Loop", "Scan", "SequenceMap"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What its events say of a node; nodes of different subgraphs may say the same."""

    name: str
    index: int
    op_type: str
    provider: str


@dataclass(slots=True)
class Columns:
    """Node events in the order of the file; all times in microseconds."""

    nodes: array[int] = field(default_factory=lambda: array("l"))
    starts_us: array[int] = field(default_factory=lambda: array("q"))
    lengths_us: array[int] = field(default_factory=lambda: array("q"))
    details: dict[int, Details] = field(default_factory=dict)
    """By position, for the first events of each node only."""
    device_us: dict[int, int] = field(default_factory=dict)
    """By position: kernels that the node launched, where the file has them."""
    last: dict[int, Args] = field(default_factory=dict)
    """By node: its last event, which tells what the arena held."""

    def appends(self) -> tuple[Callable[[int], None], Callable[[int], None], Callable[[int], None]]:
        """The calls that append a node's number, its start and its length."""
        return self.nodes.append, self.starts_us.append, self.lengths_us.append

    def split(self, from_us: int) -> tuple[Columns, Columns]:
        """(what began before, what began then or later), each in order."""
        if not self.starts_us or min(self.starts_us) >= from_us:
            return Columns(), self
        if max(self.starts_us) < from_us:
            return self, Columns()
        early, late = Columns(), Columns()
        for at, start_us in enumerate(self.starts_us):
            (late if start_us >= from_us else early).take(self, at)
        return early, late

    def take(self, other: Columns, at: int) -> None:
        """Append one event of other columns."""
        place = len(self.nodes)
        self.nodes.append(other.nodes[at])
        self.starts_us.append(other.starts_us[at])
        self.lengths_us.append(other.lengths_us[at])
        if at in other.details:
            self.details[place] = other.details[at]
        if at in other.device_us:
            self.device_us[place] = other.device_us[at]
        self.last.update(other.last)

    def extend(self, other: Columns) -> None:
        """Append all events of other columns."""
        for at in range(len(other.nodes)):
            self.take(other, at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One call of the model and the events of its nodes."""

    start_us: int
    length_us: int
    columns: Columns


class Runs:
    """Split a stream of events into runs. Afterwards `nodes` tells the numbers in the columns apart."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.holders: set[int] = set()
        """Numbers of nodes that other nodes run inside of."""
        self.on_device: set[int] = set()
        self.is_cut = False
        """Whether the runtime said that it dropped events."""
        self.device_events = 0
        self.unlinked_us = 0
        """Time of kernels on the device that name no node."""
        self._numbers: dict[tuple[str, str, str], int] = {}
        self._young: dict[int, int] = {}

    def of(self, blocks: Iterable[Block]) -> Iterator[Run]:
        """Each run as soon as the next one begins.

        The runtime writes an event when it ends, so those of a run stand before its `model_run`; where a provider adds
        its own events, it sorts them all by start, and they stand after it. Both are told by their times.
        """
        opened: Event | None = None
        held, loose = Columns(), Columns()
        numbers, young = self._numbers, self._young
        last, (add_node, add_start_us, add_length_us) = loose.last, loose.appends()
        for block in blocks:
            for event in block.events:  # a million times: nothing here but the essential
                if event.cat == "Node":
                    name = event.name
                    if name.endswith(SUFFIX):
                        args = event.args
                        number = numbers.get((name, args.node_index, args.op_name))
                        if number is None or number in young:
                            number = self._introduce(event, block, loose)
                        add_node(number)
                        add_start_us(event.ts)
                        add_length_us(event.dur)
                        last[number] = args
                elif event.cat == "Kernel":
                    self._link(event, loose)
                elif event.is_run:
                    early, late = loose.split(event.ts)
                    if opened is not None:
                        yield _run(opened, held, early)
                    opened, held, loose = event, late, Columns()
                    last, (add_node, add_start_us, add_length_us) = loose.last, loose.appends()
                elif event.is_cut_mark:
                    self.is_cut = True
        if opened is not None:
            before_end, _ = loose.split(opened.ts + opened.dur + 1)
            yield _run(opened, held, before_end)

    def _introduce(self, event: Event, block: Block, columns: Columns) -> int:
        """The number of a node that is new, or was a few events ago; what its event says of shapes is kept."""
        args, details = event.args, block.details(event)
        key = (event.name, args.node_index, args.op_name)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.nodes)
            self._young[number] = 0
            name = event.name.removesuffix(SUFFIX)
            node = Node(name=name, index=_index(args.node_index), op_type=args.op_name, provider=details.provider)
            self.nodes.append(node)
            if node.op_type in CONTROL_FLOW:
                self.holders.add(number)
            if node.provider != _HOST:
                self.on_device.add(number)
        columns.details[len(columns.nodes)] = details
        self._young[number] += 1
        if self._young[number] == _MOST_DETAILS:
            del self._young[number]
        return number

    def _link(self, event: Event, columns: Columns) -> None:
        """A kernel on the device, to the node that launched it: its kernels follow its own event in the file."""
        self.device_events += 1
        launcher = event.args.parent_name.removesuffix(SUFFIX)
        for place in range(len(columns.nodes) - 1, max(-1, len(columns.nodes) - 1 - _FARTHEST), -1):
            if self.nodes[columns.nodes[place]].name == launcher:
                columns.device_us[place] = columns.device_us.get(place, 0) + event.dur
                return
        self.unlinked_us += event.dur


def _run(opened: Event, before: Columns, after: Columns) -> Run:
    columns = before if before.nodes else after
    if before.nodes and after.nodes:
        before.extend(after)
    return Run(start_us=opened.ts, length_us=opened.dur, columns=columns)


def _index(text: str) -> int:
    number = read_number(text)
    return -1 if number is None or abs(number) > _MOST_INDEX else number
