"""What the calls of a run cost by the model's own arithmetic; where that would take long, a reason instead."""

from collections.abc import Iterable
from dataclasses import replace

from onnxdyno.analysis.requirements.arithmetic import point_work
from onnxdyno.domain.axes import AxisSizes
from onnxdyno.domain.cost import Cost, NodeWork, PointWork
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.graphs.cost import cost_at
from onnxdyno.graphs.matching import match

MOST_NODES = 20_000
"""Beyond this the cost of one point takes seconds."""
MOST_CLASSES = 50_000
"""Of nodes, that a run keeps at all points together; a large model has hundreds at each."""


def counted(run: BenchmarkRun) -> BenchmarkRun:
    """The run with its costs: at every planned point, of a huge graph only at the base; and what its profiles did."""
    sizes = tuple(dict.fromkeys(point.sizes for point in (run.plan.base, *run.plan.points)))
    is_huge = run.signature.node_count > MOST_NODES
    at_points = [_at(run, each) for each in (sizes[:1] if is_huge else sizes)]
    huge = f"the graph has more than {MOST_NODES:,} nodes: its work was counted at the first point alone"
    left_out = tuple(PointWork(sizes=each, classes=(), reason=huge) for each in sizes[len(at_points) :])
    return replace(
        run,
        costs=tuple(cost for cost, _ in at_points),
        arithmetic=(*kept(work for _, work in at_points), *left_out),
        work=() if is_huge else _profiled(run),
    )


def _at(run: BenchmarkRun, sizes: AxisSizes) -> tuple[Cost, PointWork]:
    """Without the nodes one by one: they would not fit into memory for every point of a large graph."""
    cost = cost_at(run.plan.model.path, run.signature, sizes)
    return replace(cost, nodes=()), point_work(cost)


def kept(works: Iterable[PointWork], most: int = MOST_CLASSES) -> tuple[PointWork, ...]:
    """The first of them until they have too many classes together; the rest have a reason, the very first never."""
    found: list[PointWork] = []
    classes = 0
    for each in works:
        classes += len(each.classes)
        found.append(each if classes <= most or not found else _without_classes(each.sizes, most))
    return tuple(found)


def _without_classes(sizes: AxisSizes, most: int) -> PointWork:
    reason = f"its nodes are of more than {most:,} kinds at all points together: kept at the first of them"
    return PointWork(sizes=sizes, classes=(), reason=reason)


def _profiled(run: BenchmarkRun) -> tuple[tuple[NodeWork, ...], ...]:
    """What the nodes of each profile compute and move."""
    path = run.plan.model.path
    return tuple(
        match(path, cost_at(path, run.signature, profile.point.sizes), profile.nodes) for profile in run.profiles
    )
