"""ONNX Runtime's profile, read into one row per node: median self time over whole runs (protocol, section 5)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import msgspec

from onnxdyno.domain.outcomes import NodeTiming, Profile
from onnxdyno.domain.plan import Point

_SUFFIX = "_kernel_time"
_CONTROL_FLOW = frozenset({"If", "Loop", "Scan", "SequenceMap"})
_LONGEST = 2_000


class _Args(msgspec.Struct):
    """What is read of an event's details: a long profile has a million of them, so the rest is not kept."""

    op_name: str = ""
    provider: str = ""
    node_index: str = "-1"
    output_size: str | None = None
    input_type_shape: Any = None
    output_type_shape: Any = None


class _Event(msgspec.Struct):
    """One event of the file. Times in microseconds, cut to whole ones."""

    cat: str = ""
    name: str = ""
    ts: int = 0
    dur: int = 0
    args: _Args = msgspec.field(default_factory=_Args)

    @property
    def is_kernel(self) -> bool:
        return self.cat == "Node" and self.name.endswith(_SUFFIX)


@dataclass(frozen=True, slots=True)
class _Nested:
    """A kernel and those of its subgraphs' nodes that ran inside it."""

    event: _Event
    inside: tuple[_Nested, ...]


@dataclass(frozen=True, slots=True)
class _Key:
    """What tells nodes apart: indices and names may repeat across subgraphs."""

    path: str
    index: int
    name: str


def read_events(text: bytes) -> tuple[list[_Event], bool]:
    """Events of a profile and whether the file is whole; of a cut file, those that can still be read."""
    try:
        events = msgspec.json.decode(text, type=list[_Event])
    except msgspec.MsgspecError:
        return list(_salvaged(text)), False
    return events, not any(_is_of_session(event, "profile_truncated") for event in events)


def summarise(text: bytes, point: Point, *, keep_runs: int) -> Profile:
    """The profile of one point: the last `keep_runs` whole runs; what came before was warm-up.

    `is_complete` is False for a file that the runtime or something else cut; only whole runs are then used.
    """
    events, is_whole = read_events(text)
    runs = _whole_runs(events)
    kept = runs[-keep_runs:]
    if not kept:
        reason = "the profile holds no whole run."
        return Profile(point=point, is_complete=False, runs=0, model_run_ns=None, nodes=(), reason=reason)
    cut = None if is_whole else f"the profile was cut; {len(kept)} whole runs of it are used."
    return Profile(
        point=point,
        is_complete=is_whole,
        runs=len(kept),
        model_run_ns=round(median(run.dur for run, _ in kept) * 1000),
        nodes=_nodes([nodes for _, nodes in kept]),
        reason=cut,
    )


def _salvaged(text: bytes) -> Iterator[_Event]:
    for line in text.splitlines():
        try:
            yield msgspec.json.decode(line.strip().strip(b"[],"), type=_Event)
        except msgspec.MsgspecError:
            continue


def _is_of_session(event: _Event, name: str) -> bool:
    return event.cat == "Session" and event.name == name


def _whole_runs(events: Iterable[_Event]) -> list[tuple[_Event, list[_Event]]]:
    """(model_run, its kernel events) of each run; runs with fewer kernels than most are not whole.

    The runtime writes an event when it ends, so those of a run stand before its `model_run`.
    """
    split: list[tuple[_Event, list[_Event]]] = []
    kernels: list[_Event] = []
    for event in events:
        if event.is_kernel:
            kernels.append(event)
        elif _is_of_session(event, "model_run"):
            split.append((event, [kernel for kernel in kernels if kernel.ts >= event.ts]))
            kernels = []
    if not split:
        return []
    distinct = [len({(event.name, event.args.node_index) for event in nodes}) for _, nodes in split]
    usual = Counter(distinct).most_common(1)[0][0]
    return [pair for pair, count in zip(split, distinct, strict=True) if count >= usual]


def _nodes(runs: Sequence[Sequence[_Event]]) -> tuple[NodeTiming, ...]:
    """One row per node, in order of first appearance; self times within a run add up (a loop's body runs often)."""
    times: dict[_Key, list[int]] = defaultdict(list)
    first: dict[_Key, _Event] = {}
    for run in runs:
        spent: dict[_Key, int] = defaultdict(int)
        for key, event, self_us in _self_times(_nest(run), path=""):
            spent[key] += self_us
            first.setdefault(key, event)
        for key, self_us in spent.items():
            times[key].append(self_us)
    return tuple(_node(key, first[key], self_us, len(runs)) for key, self_us in times.items())


def _nest(kernels: Iterable[_Event]) -> tuple[_Nested, ...]:
    """Kernels in the order of the file, with those that ran inside an If, Loop or Scan below it."""
    roots: list[_Nested] = []
    for event in kernels:
        inside: list[_Nested] = []
        if event.args.op_name in _CONTROL_FLOW:
            while roots and _holds(event, roots[-1].event):
                inside.append(roots.pop())
        roots.append(_Nested(event, tuple(reversed(inside))))
    return tuple(roots)


def _holds(parent: _Event, earlier: _Event) -> bool:
    """Whether an event that was written before `parent` ran inside it.

    Start and length are cut to microseconds apart, so an end may seem one later than it was. A node that took no time
    in the microsecond in which `parent` began ended before it: a subgraph takes longer to set up.
    """
    began_inside = earlier.ts > parent.ts or (earlier.ts == parent.ts and earlier.dur > 0)
    return began_inside and earlier.ts + earlier.dur <= parent.ts + parent.dur + 1


def _self_times(nested: Iterable[_Nested], path: str) -> Iterator[tuple[_Key, _Event, int]]:
    """Each kernel with its own time in microseconds: that of nested subgraph nodes is taken off If, Loop and Scan."""
    for each in nested:
        event = each.event
        name = event.name.removesuffix(_SUFFIX)
        inner_us = sum(below.event.dur for below in each.inside)
        yield _Key(path, int(event.args.node_index), name), event, max(0, event.dur - inner_us)
        yield from _self_times(each.inside, f"{path}/{name}" if path else name)


def _node(key: _Key, event: _Event, self_us: Sequence[int], runs: int) -> NodeTiming:
    """A node that ran in only some of the runs (a branch) counts as 0 in the others."""
    padded = [*self_us, *([0] * (runs - len(self_us)))]
    size = event.args.output_size
    return NodeTiming(
        path=key.path,
        index=key.index,
        name=key.name,
        op_type=event.args.op_name,
        provider=event.args.provider,
        self_ns=round(median(padded) * 1000),
        runs=len(self_us),
        output_bytes=int(size) if size is not None else None,
        input_shapes=_shapes(event.args.input_type_shape),
        output_shapes=_shapes(event.args.output_type_shape),
    )


def _shapes(value: Any) -> str:
    """`float[1,3,224,224] float[16]` from the runtime's list of {dtype: dims}."""
    if not isinstance(value, list):
        return ""
    parts = [
        f"{dtype}[{','.join(str(size) for size in dims)}]"
        for entry in value
        if isinstance(entry, dict)
        for dtype, dims in entry.items()
    ]
    return " ".join(parts)[:_LONGEST]
