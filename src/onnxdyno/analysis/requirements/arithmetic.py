"""A model's own arithmetic as the nodes of a prediction, where nothing was measured."""

from collections import Counter
from collections.abc import Sequence

from onnxdyno.analysis.prediction import ProfileNode
from onnxdyno.domain.cost import Cost, NodeCost, PointWork, WorkClass
from onnxdyno.domain.findings import NodeFinding

MOST_EXECUTIONS = 100_000
MOST_UNMATCHED = 0.05
"""Of a profile's time without FLOPs or bytes, beyond which arithmetic alone would say too little."""


def point_work(cost: Cost) -> PointWork:
    """Every execution of every node as the file has it, unfused; none, with a reason, where a part is not known.

    A total that lacks a part is a lower bound, and a target that it meets may be missed.
    """
    reason = _why_not(cost)
    counts: Counter[tuple[str, float, float]] = Counter()
    for node in () if reason else cost.nodes:
        counts[_kind(node)] += node.runs or 0
    classes = tuple(
        WorkClass(op_type=op_type, flops=flops, moved_bytes=moved_bytes, count=count)
        for (op_type, flops, moved_bytes), count in counts.items()
        if count
    )
    return PointWork(sizes=cost.sizes, classes=classes, reason=None if classes else reason or "no node runs")


def as_nodes(work: PointWork) -> tuple[ProfileNode, ...]:
    """One node for each execution."""
    return tuple(
        ProfileNode(kind=each.op_type, flops=each.flops, bytes=each.moved_bytes, latency_ns=None)
        for each in work.classes
        for _ in range(each.count)
    )


def nodes_at(
    work: PointWork | None, profiled: Sequence[NodeFinding], where: str
) -> tuple[tuple[ProfileNode, ...], str | None, str]:
    """The file's own arithmetic where it is known, else that of the profiled nodes; why not; and what it is."""
    if work is not None and work.classes:
        found = as_nodes(work)
        return found, None, f"arithmetic of the file's {len(found)} nodes"
    found, reason = _of_profile(profiled, where)
    if found:
        return found, None, f"arithmetic of the profiled nodes ({len(found)})"
    return (), work.reason if work is not None else reason, "memory alone"


def _why_not(cost: Cost) -> str | None:
    for count, what in ((cost.flops, "FLOPs"), (cost.read_bytes, "bytes read"), (cost.written_bytes, "bytes written")):
        if count.value is None:
            return count.reason or f"{what} are not known"
    if any(node.runs is None for node in cost.nodes):
        return "how often a loop runs depends on data"
    if sum(node.runs or 0 for node in cost.nodes) > MOST_EXECUTIONS:
        return f"more than {MOST_EXECUTIONS:,} nodes run in one call"
    return None


def _kind(node: NodeCost) -> tuple[str, float, float]:
    """What an execution is like."""
    runs = node.runs or 1
    moved_bytes = (node.read_bytes or 0) + (node.written_bytes or 0)
    return node.op_type, (node.flops or 0) / runs, moved_bytes / runs


def _of_profile(nodes: Sequence[NodeFinding], where: str) -> tuple[tuple[ProfileNode, ...], str | None]:
    """What the profiled nodes compute and move, without their times; empty with a reason where too much is unknown."""
    if not nodes:
        return (), f"{where} has neither arithmetic nor a profile in the tables: give the model's file"
    lost = sum(each.share for each in nodes if not _is_known(each))
    if lost > MOST_UNMATCHED:
        return (), f"{lost:.0%} of the profiled time of {where} has no FLOPs or bytes: give the model's file"
    return tuple(
        ProfileNode(
            kind=each.node.op_type,
            flops=float(each.work.flops or 0),
            bytes=float((each.work.read_bytes or 0) + (each.work.written_bytes or 0)),
            latency_ns=None,
        )
        for each in nodes
        if _is_known(each)
    ), None


def _is_known(each: NodeFinding) -> bool:
    return None not in (each.work.flops, each.work.read_bytes, each.work.written_bytes)
