"""Our own profile and our own arithmetic as the nodes of a prediction."""

from onnxdyno.analysis.nodes import device_times
from onnxdyno.analysis.prediction.records import ProfileNode
from onnxdyno.domain.cost import Cost, NodeCost
from onnxdyno.domain.outcomes import NodeTiming, Profile

_LAYOUT = "_nchwc"
"""ONNX Runtime's suffix of a node that it gave a blocked layout; the rest is the name of its output."""


def profile_nodes(profile: Profile, cost: Cost) -> tuple[ProfileNode, ...]:
    """Every timed node with its FLOPs, its bytes and how long it ran.

    Its time is None where a GPU's profile has no kernels and so tells only what starting it took: see `spread`. A node
    that the arithmetic does not know keeps its time with no work beside it: `predict` takes that for traffic. Nodes of
    `cost` that were not timed (fused, folded) are left out.
    """
    by_name = {name: node for node in cost.nodes for name in (node.output, node.name) if name}
    times_ns = device_times(profile.nodes)
    return tuple(_node(timing, took_ns, by_name) for timing, took_ns in zip(profile.nodes, times_ns, strict=True))


def _node(timing: NodeTiming, took_ns: int | None, by_name: dict[str, NodeCost]) -> ProfileNode:
    found = by_name.get(timing.name) or by_name.get(timing.name.removesuffix(_LAYOUT))
    moved = None if found is None else _sum(found.read_bytes, found.written_bytes)
    return ProfileNode(
        kind=timing.op_type,
        flops=0.0 if found is None else float(found.flops or 0),
        bytes=float(moved or 0),
        latency_ns=None if took_ns is None else float(took_ns),
    )


def _sum(read_bytes: int | None, written_bytes: int | None) -> int | None:
    return None if read_bytes is None or written_bytes is None else read_bytes + written_bytes
