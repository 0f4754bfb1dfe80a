"""ONNX Runtime's profile, read into one row per node: median self time over whole runs (protocol, section 5)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from onnxdyno.domain.outcomes import NodeTiming, Profile, Slice
from onnxdyno.domain.plan import Point
from onnxdyno.measuring.profiling.events import Events, read_number
from onnxdyno.measuring.profiling.folding import Folded, Kept, Row, Rows
from onnxdyno.measuring.profiling.runs import Runs

__all__ = ["summarise"]

_LONGEST = 2_000
NO_DEVICE_EVENTS = "this build of ONNX Runtime writes no kernels of the device into its profile."


def summarise(path: Path, point: Point, *, keep_runs: int) -> Profile:
    """The profile of one point: the last `keep_runs` whole runs; what came before was warm-up.

    `is_complete` is False for a file that the runtime or something else cut; only whole runs are then used. The file is
    streamed: memory grows with one run and with the rows, not with the file.
    """
    events, runs, rows, kept = Events(path), Runs(), Rows(), Kept(keep_runs)
    for run in runs.of(events.blocks()):
        kept.add(rows.fold(run, runs))
    return _profile(point, kept.runs(), rows.rows, runs, is_whole=events.is_whole and not runs.is_cut)


def _profile(point: Point, kept: Sequence[Folded], rows: Sequence[Row], runs: Runs, *, is_whole: bool) -> Profile:
    if not kept:
        reason = "the profile holds no whole run."
        return Profile(point=point, is_complete=False, runs=0, model_run_ns=None, nodes=(), reason=reason)
    peak_bytes = _most(folded.arena_peak_bytes for folded in kept)
    held_bytes = _most(folded.arena_held_bytes for folded in kept)
    nodes = _nodes(kept, rows)
    is_told = peak_bytes is not None and held_bytes is not None
    return Profile(
        point=point,
        is_complete=is_whole,
        runs=len(kept),
        model_run_ns=round(median(folded.length_us for folded in kept) * 1000),
        nodes=tuple(nodes.values()),
        slices=_slices(kept, {row: place for place, row in enumerate(nodes)}),
        reason=None if is_whole else f"the profile was cut; {len(kept)} whole runs of it are used.",
        arena_peak_bytes=peak_bytes,
        arena_held_bytes=held_bytes,
        arena_reason=None if is_told else "the events of this profile do not say what the arena held.",
        kernels_reason=_kernels_reason(runs),
    )


def _most(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _kernels_reason(runs: Runs) -> str | None:
    if not runs.device_events:
        return NO_DEVICE_EVENTS
    return f"{runs.unlinked_us} µs of kernels name no node." if runs.unlinked_us else None


def _nodes(kept: Sequence[Folded], rows: Sequence[Row]) -> dict[int, NodeTiming]:
    """One timing per row that ran in a kept run, by its number, in order of first appearance."""
    self_us: dict[int, list[int]] = defaultdict(list)
    device_us: dict[int, list[int]] = defaultdict(list)
    for folded in kept:
        for number, part_us in zip(folded.rows, folded.self_us, strict=True):
            self_us[number].append(part_us)
        for number, part_us in folded.device_us.items():
            device_us[number].append(part_us)
    return {
        number: _node(rows[number], self_us[number], device_us.get(number), len(kept)) for number in sorted(self_us)
    }


def _slices(kept: Sequence[Folded], places: Mapping[int, int]) -> tuple[Slice, ...]:
    """The course of the kept run that took nearest to the median."""
    typical_us = median(folded.length_us for folded in kept)
    timeline = min(kept, key=lambda folded: abs(folded.length_us - typical_us)).timeline
    if timeline is None:
        return ()
    return tuple(
        Slice(
            node=places[timeline.rows[at]],
            start_ns=timeline.starts_us[at] * 1000,
            length_ns=timeline.lengths_us[at] * 1000,
            depth=timeline.depths[at],
        )
        for at in timeline.order
    )


def _node(row: Row, self_us: Sequence[int], device_us: Sequence[int] | None, runs: int) -> NodeTiming:
    return NodeTiming(
        path=row.path,
        index=row.node.index,
        name=row.node.name,
        op_type=row.node.op_type,
        provider=row.node.provider,
        self_ns=_typical_ns(self_us, runs),
        runs=len(self_us),
        output_bytes=read_number(row.first.output_size),
        input_shapes=_shapes(row.first.input_type_shape),
        output_shapes=_shapes(row.first.output_type_shape),
        kernel_ns=None if device_us is None else _typical_ns(device_us, runs),
    )


def _typical_ns(spent_us: Sequence[int], runs: int) -> int:
    """The median; a node that ran in only some of the runs (a branch) counts as 0 in the others."""
    return round(median([*spent_us, *([0] * (runs - len(spent_us)))]) * 1000)


def _shapes(value: Any) -> str:
    """`float[1,3,224,224] float[16]` from the runtime's list of {dtype: dims}."""
    if not isinstance(value, list):
        return ""
    parts = [
        f"{dtype}[{','.join(str(size) for size in dims)}]"
        for entry in value
        if isinstance(entry, dict)
        for dtype, dims in entry.items()
        if isinstance(dims, list)
    ]
    return " ".join(parts)[:_LONGEST]
