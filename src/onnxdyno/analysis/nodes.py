"""Profiles -> nodes by share of time and their work, what the profile covers, and what ran where on a GPU."""

from collections import defaultdict
from collections.abc import Callable, Sequence

from onnxdyno.domain.cost import NodeWork
from onnxdyno.domain.devices import Device, DeviceKind
from onnxdyno.domain.findings import NO_WORK, NodeFinding, NodeGroup, PointFinding, ProfileFinding
from onnxdyno.domain.operators import COMPUTE_OPS, COPY_OPS
from onnxdyno.domain.outcomes import NodeTiming, Profile

_MOST_NAMED = 5


def profile_finding(
    profile: Profile, point: PointFinding | None, device: Device, work: Sequence[NodeWork] = ()
) -> ProfileFinding:
    """Nodes slowest first. Coverage and overhead need the unprofiled median of the same point.

    `work` is that of the profile's nodes in their order, or nothing.
    """
    total_ns = sum(node.self_ns for node in profile.nodes)
    works = work or (NO_WORK,) * len(profile.nodes)
    pairs = sorted(zip(profile.nodes, works, strict=True), key=lambda pair: pair[0].self_ns, reverse=True)
    p50_ns = point.p50_ns.value if point is not None else None
    is_gpu = device.kind is not DeviceKind.CPU
    copies = [node for node in profile.nodes if node.op_type in COPY_OPS]
    matched_ns = sum(node.self_ns for node, each in pairs if each.flops is not None)
    return ProfileFinding(
        point=profile.point,
        is_complete=profile.is_complete,
        coverage=total_ns / p50_ns if p50_ns else None,
        overhead=profile.model_run_ns / p50_ns - 1 if p50_ns and profile.model_run_ns is not None else None,
        nodes=tuple(
            NodeFinding(node=node, share=node.self_ns / total_ns if total_ns else 0.0, work=each)
            for node, each in pairs
        ),
        reason=profile.reason or (None if p50_ns else "the point has no unprofiled median"),
        matched_share=matched_ns / total_ns if total_ns and work else None,
        cpu_share=_on_cpu_ns(profile.nodes) / total_ns if is_gpu and total_ns else None,
        copy_nodes=len(copies) if is_gpu else None,
        copy_ns=sum(node.self_ns for node in copies) if is_gpu else None,
        copies_reason=None if is_gpu else "on a CPU every node is there, and nothing is copied to it",
    )


def device_times(nodes: Sequence[NodeTiming]) -> tuple[int | None, ...]:
    """How long each node ran where it ran, in nanoseconds; None where only the start of it was timed.

    That is so of nodes on a GPU in a profile without kernels. In one with kernels a node that launched none (a view,
    a copy) has its self time.
    """
    has_kernels = any(node.kernel_ns is not None for node in nodes)

    def of(node: NodeTiming) -> int | None:
        if node.kernel_ns is not None:
            return node.kernel_ns
        return node.self_ns if has_kernels or node.provider.startswith("CPU") else None

    return tuple(map(of, nodes))


def by_op_type(profile: ProfileFinding) -> tuple[NodeGroup, ...]:
    """Nodes of each operator together, those that take most first."""
    return _grouped(profile, lambda node: node.op_type)


def by_layer(profile: ProfileFinding, levels: int = 2) -> tuple[NodeGroup, ...]:
    """Nodes whose names begin alike, to so many parts between `/` and `.`; a name of one part is `(others)`."""
    return _grouped(profile, lambda node: _layer(node.name, levels))


def _grouped(profile: ProfileFinding, key: Callable[[NodeTiming], str]) -> tuple[NodeGroup, ...]:
    groups: dict[str, list[NodeFinding]] = defaultdict(list)
    for each in profile.nodes:
        groups[key(each.node)].append(each)
    made = (
        NodeGroup(
            name=name,
            nodes=len(members),
            self_ns=sum(each.node.self_ns for each in members),
            share=sum(each.share for each in members),
            flops=_known_sum([each.work.flops for each in members]),
        )
        for name, members in groups.items()
    )
    return tuple(sorted(made, key=lambda group: (-group.self_ns, group.name)))


def _known_sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _layer(name: str, levels: int) -> str:
    parts = [part for part in name.removesuffix("_nchwc").replace(".", "/").split("/") if part]
    return "/".join(parts[:levels]) if len(parts) > 1 else "(others)"


def compute_on_cpu(profile: Profile, device: Device) -> str | None:
    """Why a GPU number of this run would be a lie: compute nodes that ran on the CPU; None if there are none."""
    if device.kind is DeviceKind.CPU:
        return None
    strays = [node for node in profile.nodes if node.provider.startswith("CPU") and node.op_type in COMPUTE_OPS]
    if not strays:
        return None
    named = ", ".join(f"{node.op_type} {node.name!r}" for node in strays[:_MOST_NAMED])
    more = f" and {len(strays) - _MOST_NAMED} more" if len(strays) > _MOST_NAMED else ""
    return f"the profile shows compute nodes on the CPU: {named}{more}."


def _on_cpu_ns(nodes: Sequence[NodeTiming]) -> int:
    return sum(node.self_ns for node in nodes if node.provider.startswith("CPU"))
