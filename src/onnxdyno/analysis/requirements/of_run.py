"""The tiers of a run that was just measured: its own device as measured, others as its profile allows."""

from collections.abc import Sequence

from onnxdyno.analysis.choices import target_of
from onnxdyno.analysis.nodes import device_times
from onnxdyno.analysis.prediction import ProfileNode, spread
from onnxdyno.analysis.requirements import tiers, without
from onnxdyno.analysis.requirements.arithmetic import arithmetic_nodes
from onnxdyno.analysis.requirements.asking import dtype_of
from onnxdyno.analysis.requirements.records import Goal, Load, MeasuredOn, Target
from onnxdyno.domain.devices import DeviceKind
from onnxdyno.domain.findings import Choice, NodeFinding, PointFinding, ProfileFinding, Tier
from onnxdyno.domain.numbers import plain
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.hardware.catalogue import find_accelerator
from onnxdyno.hardware.lookup import Catalogue

MOST_UNMATCHED = 0.05
"""Of a profile's time without FLOPs or bytes, beyond which arithmetic alone would say too little."""


def tiers_of(
    run: BenchmarkRun,
    points: Sequence[PointFinding],
    profiles: Sequence[ProfileFinding],
    best_batch: Choice,
    catalogue: Catalogue,
) -> tuple[Tier, ...]:
    """Minimum for the base point; recommended and optimal for the best batch, or the base where there is none."""
    by_point = {each.point: each for each in points if each.state.is_measured}
    base = by_point.get(run.plan.base)
    if base is None:
        lost = Load(sizes=run.plan.base.sizes, items=1, evidence=f"run {run.origin.run_id}")
        reason = f"the first point, {run.plan.base.key}, was not measured"
        return without(("minimum", "recommended", "optimal"), reason, lost)
    wanted = base if best_batch.point is None else by_point.get(best_batch.point, base)
    target_ns = target_of(run.plan)
    asked = f"p50 within {plain((target_ns or 0) / 1e6)} ms"
    goal = Goal(
        catalogue=catalogue,
        target=None if target_ns is None else Target(most_ns=target_ns, asked=asked),
        dtype=dtype_of(run.signature.precision),
    )
    return tiers(_load(run, base, profiles), _load(run, wanted, profiles), goal)


def _load(run: BenchmarkRun, at: PointFinding, profiles: Sequence[ProfileFinding]) -> Load:
    profile = next((each for each in profiles if each.point.sizes == at.point.sizes), None)
    where = f"run {run.origin.run_id}, {at.point.key}"
    device = run.plan.device
    own = find_accelerator(device.name, device.memory_bytes) if device.kind is DeviceKind.CUDA else None
    nodes, reason, what = _nodes(run, at, profile, where)
    dtype = dtype_of(run.signature.precision)
    measured = {}
    if own is not None:
        measured[own.id] = MeasuredOn(
            device_id=own.id,
            latency_ns=at.p50_ns,
            evidence=f"{where}: p50 measured",
            nodes=() if profile is None else timed_nodes(profile.nodes, own.id, at.p50_ns.value, dtype),
            peak_bytes=at.peak_memory_bytes,
        )
    return Load(
        sizes=at.point.sizes,
        items=at.items or 1,
        evidence=f"{where}: {what}, as this run has no times for these GPUs",
        nodes=nodes,
        nodes_reason=reason,
        weights_bytes=run.signature.weight_bytes,
        activation_bytes=at.activation_peak_bytes.value,
        activation_reason=at.activation_peak_bytes.reason,
        host_peak_bytes=at.peak_memory_bytes if device.kind is DeviceKind.CPU else None,
        measured=measured,
    )


def _nodes(
    run: BenchmarkRun, at: PointFinding, profile: ProfileFinding | None, where: str
) -> tuple[tuple[ProfileNode, ...], str | None, str]:
    """The file's own arithmetic at this point where it was kept, else that of the profiled nodes; and which it is."""
    cost = next((each for each in run.costs if each.sizes == at.point.sizes and each.nodes), None)
    if cost is not None:
        found, reason = arithmetic_nodes(cost)
        return found, reason, f"arithmetic of the file's {len(found)} nodes"
    found, reason = work_nodes(profile.nodes if profile is not None else (), where)
    return found, reason, f"arithmetic of the {len(found)} profiled nodes"


def timed_nodes(
    nodes: Sequence[NodeFinding], device_id: str, total_ns: float | None, dtype: str
) -> tuple[ProfileNode, ...]:
    """The nodes with the times that the device took for them.

    Where a GPU's profile has no kernels, its times are those of starting nodes: the measured total is spread over them.
    """
    timed = tuple(
        ProfileNode(
            kind=each.node.op_type,
            flops=float(each.work.flops or 0),
            bytes=float((each.work.read_bytes or 0) + (each.work.written_bytes or 0)),
            latency_ns=None if took_ns is None else float(took_ns),
        )
        for each, took_ns in zip(nodes, device_times([each.node for each in nodes]), strict=True)
    )
    if all(each.latency_ns is not None for each in timed):
        return timed
    return () if total_ns is None else spread(timed, device_id, total_ns, dtype=dtype)


def work_nodes(nodes: Sequence[NodeFinding], where: str) -> tuple[tuple[ProfileNode, ...], str | None]:
    """What the profiled nodes compute and move, without their times; empty with a reason where too much is unknown."""
    if not nodes:
        return (), f"{where} has no profile"
    known = [each for each in nodes if _is_known(each)]
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
        for each in known
    ), None


def _is_known(each: NodeFinding) -> bool:
    return None not in (each.work.flops, each.work.read_bytes, each.work.written_bytes)
