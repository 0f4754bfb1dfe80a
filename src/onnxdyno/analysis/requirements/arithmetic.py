"""A model's own arithmetic as the nodes of a prediction, where nothing was measured."""

from onnxdyno.analysis.prediction import ProfileNode
from onnxdyno.domain.cost import Cost, NodeCost

MOST_NODES = 100_000


def arithmetic_nodes(cost: Cost) -> tuple[tuple[ProfileNode, ...], str | None]:
    """Every execution of every node as the file has it, unfused; empty with a reason where a part is not known.

    A total that lacks a part is a lower bound, and a target that it meets may be missed.
    """
    if cost.flops.value is None:
        return (), cost.flops.reason or "FLOPs are not known"
    if cost.read_bytes.value is None or cost.written_bytes.value is None:
        return (), cost.read_bytes.reason or cost.written_bytes.reason or "bytes moved are not known"
    if any(node.runs is None for node in cost.nodes):
        return (), "how often a loop runs depends on data"
    ran = [node for node in cost.nodes if node.runs]
    if sum(node.runs or 0 for node in ran) > MOST_NODES:
        return (), f"more than {MOST_NODES:,} nodes run in one call"
    found = tuple(each for node in ran for each in _executions(node))
    return found, None if found else "the model has no node that runs"


def _executions(node: NodeCost) -> tuple[ProfileNode, ...]:
    runs = node.runs or 1
    moved = (node.read_bytes or 0) + (node.written_bytes or 0)
    one = ProfileNode(kind=node.op_type, flops=(node.flops or 0) / runs, bytes=moved / runs, latency_ns=None)
    return (one,) * runs
