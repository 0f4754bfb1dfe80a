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


class _Event(msgspec.Struct):
    """One event of the file. Times in microseconds."""

    cat: str = ""
    name: str = ""
    ts: int = 0
    dur: int = 0
    args: dict[str, Any] = {}


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
    return events, not any(event.name == "profile_truncated" for event in events)


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


def _whole_runs(events: Sequence[_Event]) -> list[tuple[_Event, list[_Event]]]:
    """(model_run, its kernel events) of each run; runs with fewer kernels than most are not whole."""
    kernels = sorted(
        (event for event in events if event.cat == "Node" and event.name.endswith(_SUFFIX)),
        key=lambda event: (event.ts, -event.dur),
    )
    runs = sorted((event for event in events if event.name == "model_run"), key=lambda event: event.ts)
    split: list[tuple[_Event, list[_Event]]] = []
    at = 0
    for run in runs:
        mine = []
        while at < len(kernels) and kernels[at].ts <= run.ts + run.dur:
            if kernels[at].ts >= run.ts:
                mine.append(kernels[at])
            at += 1
        split.append((run, mine))
    if not split:
        return []
    distinct = [len({(event.name, event.args.get("node_index")) for event in nodes}) for _, nodes in split]
    usual = Counter(distinct).most_common(1)[0][0]
    return [pair for pair, count in zip(split, distinct, strict=True) if count >= usual]


def _nodes(runs: Sequence[Sequence[_Event]]) -> tuple[NodeTiming, ...]:
    """One row per node, in order of first appearance; self times within a run add up (a loop's body runs often)."""
    times: dict[_Key, list[int]] = defaultdict(list)
    first: dict[_Key, _Event] = {}
    for run in runs:
        spent: dict[_Key, int] = defaultdict(int)
        for key, event, self_us in _self_times(run):
            spent[key] += self_us
            first.setdefault(key, event)
        for key, self_us in spent.items():
            times[key].append(self_us)
    return tuple(_node(key, first[key], self_us, len(runs)) for key, self_us in times.items())


def _self_times(kernels: Iterable[_Event]) -> list[tuple[_Key, _Event, int]]:
    """Each kernel with its own time in microseconds: that of nested subgraph nodes is taken off If, Loop and Scan."""
    rows: list[tuple[_Key, _Event, int]] = []
    open_parents: list[int] = []
    for event in kernels:
        while open_parents and not _holds(rows[open_parents[-1]][1], event):
            open_parents.pop()
        path = ""
        if open_parents:
            key, parent, self_us = rows[open_parents[-1]]
            rows[open_parents[-1]] = (key, parent, max(0, self_us - event.dur))
            path = f"{key.path}/{key.name}" if key.path else key.name
        name = event.name.removesuffix(_SUFFIX)
        rows.append((_Key(path, int(event.args.get("node_index", -1)), name), event, event.dur))
        if event.args.get("op_name") in _CONTROL_FLOW:
            open_parents.append(len(rows) - 1)
    return rows


def _holds(parent: _Event, event: _Event) -> bool:
    return parent.ts <= event.ts and event.ts + event.dur <= parent.ts + parent.dur


def _node(key: _Key, event: _Event, self_us: Sequence[int], runs: int) -> NodeTiming:
    """A node that ran in only some of the runs (a branch) counts as 0 in the others."""
    padded = [*self_us, *([0] * (runs - len(self_us)))]
    size = event.args.get("output_size")
    return NodeTiming(
        path=key.path,
        index=key.index,
        name=key.name,
        op_type=str(event.args.get("op_name", "")),
        provider=str(event.args.get("provider", "")),
        self_ns=round(median(padded) * 1000),
        runs=len(self_us),
        output_bytes=int(size) if size is not None else None,
        input_shapes=_shapes(event.args.get("input_type_shape")),
        output_shapes=_shapes(event.args.get("output_type_shape")),
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
