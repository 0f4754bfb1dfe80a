"""A profile on its own: JSON, and tables by node, operator and layer. Schema: docs/schema/profile.schema.json."""

from collections.abc import Sequence

from onnxdyno.analysis.nodes import by_layer, by_op_type
from onnxdyno.domain.findings import NodeGroup, ProfileFinding
from onnxdyno.domain.numbers import percent
from onnxdyno.domain.outcomes import Profile
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.reporting import units
from onnxdyno.reporting.documents import FORMAT, Document, model_part, profile_part
from onnxdyno.reporting.grid import Cell, Column, Grid, node_cells, node_columns, profile_caption

_NS_PER_MS = 1e6


def profile_document(run: BenchmarkRun, profile: Profile, finding: ProfileFinding, most: int) -> Document:
    """The profile of one point; nodes up to `most`, groups all."""
    return {
        "format": FORMAT,
        "model": model_part(run.plan.model.ref, run.signature),
        "profile": profile_part(finding, most)
        | {
            "runs": profile.runs,
            "model_run_ms": None if profile.model_run_ns is None else profile.model_run_ns / _NS_PER_MS,
            "arena_peak_bytes": profile.arena_peak_bytes,
            "arena_held_bytes": profile.arena_held_bytes,
            "arena_reason": profile.arena_reason,
            "kernels_reason": profile.kernels_reason,
        },
        "by_op_type": [_group(each) for each in by_op_type(finding)],
        "by_layer": [_group(each) for each in by_layer(finding)],
    }


def _group(group: NodeGroup) -> Document:
    return {
        "name": group.name,
        "nodes": group.nodes,
        "self_ms": group.self_ns / _NS_PER_MS,
        "share": float(f"{group.share:.8g}"),
        "flops": group.flops,
    }


def slowest_grid(finding: ProfileFinding, most: int) -> Grid:
    """The slowest nodes with their work."""
    shown = finding.nodes[:most]
    unit = units.latency_unit([each.node.self_ns for each in shown])
    rows = tuple(
        (
            *node_cells(each, unit),
            Cell(text=_work(each.work.flops), reason=each.work.reason),
            Cell(text=_moved(each.work.read_bytes, each.work.written_bytes), reason=each.work.reason),
            Cell(text=each.node.output_shapes or units.MISSING),
        )
        for each in shown
    )
    return Grid(
        title=f"Slowest {len(shown)} of {len(finding.nodes)} nodes",
        columns=(
            *node_columns(unit),
            Column(title="work", is_number=True),
            Column(title="moved", is_number=True, is_minor=True),
            Column(title="output", is_minor=True),
        ),
        rows=rows,
        caption=_caption(finding),
    )


def groups_grid(title: str, groups: Sequence[NodeGroup], most: int) -> Grid:
    """Nodes that belong together: how many, their share, time and work."""
    shown = groups[:most]
    unit = units.latency_unit([each.self_ns for each in shown])
    rows = tuple(
        (
            Cell(text=units.percent(each.share)),
            Cell(text=units.number(each.self_ns, unit)),
            Cell(text=units.count(each.nodes)),
            Cell(text=each.name),
            Cell(text=_work(each.flops)),
        )
        for each in shown
    )
    columns = (
        Column(title="share", is_number=True),
        Column(title=f"self {unit.name}", is_number=True),
        Column(title="nodes", is_number=True),
        Column(title="which"),
        Column(title="work", is_number=True),
    )
    more = f"{len(groups) - most} more in --json" if len(groups) > most else ""
    return Grid(title=title, columns=columns, rows=rows, caption=more)


def _caption(finding: ProfileFinding) -> str:
    parts = [profile_caption(finding)]
    if finding.matched_share is not None:
        parts.append(f"{percent(1 - finding.matched_share)} of the time has no FLOPs")
    if finding.cpu_share is not None:
        parts.append(f"{percent(finding.cpu_share)} of the host's time on CPU nodes, {finding.copy_nodes} copies")
    return "; ".join(parts)


def _work(flops: int | None) -> str:
    return units.MISSING if flops is None else units.flops(flops)


def _moved(read_bytes: int | None, written_bytes: int | None) -> str:
    return units.MISSING if read_bytes is None or written_bytes is None else units.size(read_bytes + written_bytes)
