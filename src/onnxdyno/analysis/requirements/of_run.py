"""The tiers of a run that was just measured: its own device as measured, others as its profile allows."""

from collections.abc import Sequence
from dataclasses import replace

from onnxdyno.analysis.choices import target_of
from onnxdyno.analysis.nodes import device_times
from onnxdyno.analysis.prediction import ProfileNode, spread
from onnxdyno.analysis.requirements import tiers, without
from onnxdyno.analysis.requirements.arithmetic import nodes_at
from onnxdyno.analysis.requirements.asking import dtype_of
from onnxdyno.analysis.requirements.here import against
from onnxdyno.analysis.requirements.records import Goal, Load, MeasuredOn, Target
from onnxdyno.domain.devices import DeviceKind
from onnxdyno.domain.findings import Choice, MeasuredHere, NodeFinding, PointFinding, ProfileFinding, Tier
from onnxdyno.domain.numbers import plain
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.hardware.catalogue import find_accelerator
from onnxdyno.hardware.lookup import Catalogue


def tiers_of(
    run: BenchmarkRun,
    points: Sequence[PointFinding],
    profiles: Sequence[ProfileFinding],
    best_batch: Choice,
    catalogue: Catalogue,
) -> tuple[Tier, ...]:
    """Minimum for the base point; recommended and optimal for the best batch, or the base where there is none."""
    base = base_of(run, points)
    if base is None:
        lost = Load(sizes=run.plan.base.sizes, items=1, evidence=f"run {run.origin.run_id}")
        return without(("minimum", "recommended", "optimal"), unmeasured(run), lost)
    wanted = _wanted(base, points, best_batch)
    goal = Goal(catalogue=catalogue, target=_target(run), dtype=dtype_of(run.signature.precision))
    return tiers(load_at(run, base, profiles), load_at(run, wanted, profiles), goal)


def here_of(run: BenchmarkRun, points: Sequence[PointFinding], best_batch: Choice) -> MeasuredHere:
    """The run's own device against the target, at the point of the recommended tier."""
    base, device = base_of(run, points), run.plan.device
    wanted = None if base is None else _wanted(base, points, best_batch)
    found = MeasuredHere(
        run_id=run.origin.run_id,
        device_name=device.name,
        device_kind=device.kind.value,
        device_memory_bytes=device.memory_bytes,
        threads=run.plan.threads,
        sizes=run.plan.base.sizes,
        meets=None,
        reason=unmeasured(run),
        peak_memory_reason=unmeasured(run),
    )
    if wanted is None:
        return found
    measured = replace(
        found,
        threads=wanted.point.threads or run.plan.threads,
        sizes=wanted.point.sizes,
        state=wanted.state.value,
        latency_ns=wanted.p50_ns,
        peak_memory_bytes=wanted.peak_memory_bytes,
        peak_memory_reason=wanted.peak_memory_reason,
    )
    return against(_target(run), measured)


def base_of(run: BenchmarkRun, points: Sequence[PointFinding]) -> PointFinding | None:
    """The first point, where it carries numbers."""
    return next((each for each in points if each.point == run.plan.base and each.state.is_measured), None)


def _wanted(base: PointFinding, points: Sequence[PointFinding], best_batch: Choice) -> PointFinding:
    return next((each for each in points if each.point == best_batch.point and each.state.is_measured), base)


def unmeasured(run: BenchmarkRun) -> str:
    """Why nothing is said where the first point has no number."""
    return f"the first point, {run.plan.base.key}, was not measured"


def _target(run: BenchmarkRun) -> Target | None:
    target_ns = target_of(run.plan)
    asked = f"p50 within {plain((target_ns or 0) / 1e6)} ms"
    return None if target_ns is None else Target(most_ns=target_ns, asked=asked)


def load_at(run: BenchmarkRun, at: PointFinding, profiles: Sequence[ProfileFinding]) -> Load:
    """One measured point as it is put to devices."""
    profile = next((each for each in profiles if each.point.sizes == at.point.sizes), None)
    profiled = profile.nodes if profile is not None else ()
    work = next((each for each in run.arithmetic if each.sizes == at.point.sizes), None)
    where = f"run {run.origin.run_id}, {at.point.key}"
    device = run.plan.device
    own = find_accelerator(device.name, device.memory_bytes) if device.kind is DeviceKind.CUDA else None
    nodes, reason, what = nodes_at(work, profiled, where)
    dtype = dtype_of(run.signature.precision)
    measured = {}
    if own is not None:
        measured[own.id] = MeasuredOn(
            device_id=own.id,
            latency_ns=at.p50_ns,
            evidence=f"{where}: p50 measured",
            nodes=timed_nodes(profiled, own.id, at.p50_ns.value, dtype),
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
