"""Profiles -> nodes by share of time, with what the profile covers and what the profiler itself cost."""

from onnxdyno.domain.findings import NodeFinding, PointFinding, ProfileFinding
from onnxdyno.domain.outcomes import Profile


def profile_finding(profile: Profile, point: PointFinding | None) -> ProfileFinding:
    """Nodes slowest first. Coverage and overhead need the unprofiled median of the same point."""
    total_ns = sum(node.self_ns for node in profile.nodes)
    nodes = sorted(profile.nodes, key=lambda node: node.self_ns, reverse=True)
    p50_ns = point.p50_ns.value if point is not None else None
    return ProfileFinding(
        point=profile.point,
        is_complete=profile.is_complete,
        coverage=total_ns / p50_ns if p50_ns else None,
        overhead=profile.model_run_ns / p50_ns - 1 if p50_ns and profile.model_run_ns is not None else None,
        nodes=tuple(NodeFinding(node=node, share=node.self_ns / total_ns if total_ns else 0.0) for node in nodes),
        reason=profile.reason or (None if p50_ns else "the point has no unprofiled median"),
    )
