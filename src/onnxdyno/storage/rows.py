"""A run and its findings as rows of the published tables; pure."""

import dataclasses
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

from onnxdyno.domain.axes import AxisSizes, Role
from onnxdyno.domain.devices import DeviceKind
from onnxdyno.domain.findings import (
    Choice,
    ColdFinding,
    Estimate,
    Findings,
    MemoryFinding,
    NodeFinding,
    PointFinding,
    ProfileFinding,
    Tier,
)
from onnxdyno.domain.models import Signature
from onnxdyno.domain.outcomes import Measured, Outcome, Skipped
from onnxdyno.domain.plan import Point
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.domain.telemetry import TelemetrySample, event_names
from onnxdyno.storage.jsontext import finite, json_text
from onnxdyno.storage.rowtypes import (
    AxisEntry,
    ColdRow,
    FactEntry,
    LaunchEntry,
    MemoryRow,
    NodeRow,
    OutcomeEntry,
    PointRow,
    ProfileEntry,
    RequirementRow,
    RunRow,
    TelemetryRow,
)

_NS_PER_MS = 1e6


def run_row(run: BenchmarkRun, findings: Findings) -> RunRow:
    """The row whose presence commits the run."""
    measured = sum(point.state.is_measured for point in findings.points)
    return RunRow(
        **_key(run),
        **_source(run),
        **_model(run),
        **_device(run),
        **_estimate("session", findings.session_ns),
        **_answers(run.signature, findings),
        warnings=findings.warnings,
        points_measured=measured,
        points_skipped=len(findings.points) - measured,
        profiles=tuple(_profile(run, profile) for profile in findings.profiles),
        protocol_version=run.plan.protocol.version,
        protocol_json=json_text(run.plan.protocol),
        spec_json=json_text(run.plan.spec),
        plan_json=_plan_json(run),
        probe_json=json_text(run.probe),
    )


def point_rows(run: BenchmarkRun, findings: Findings) -> tuple[PointRow, ...]:
    """One row per point, in the order of the findings."""
    outcomes: dict[Point, list[OutcomeEntry]] = {}
    for outcome in run.outcomes:
        outcomes.setdefault(outcome.point, []).append(_outcome(outcome))
    baselines = {reading.point: reading.baseline_bytes for reading in run.memory}
    return tuple(
        _point(run, point, tuple(outcomes.get(point.point, ())), baselines.get(point.point), findings.front)
        for point in findings.points
    )


def node_rows(run: BenchmarkRun, findings: Findings) -> tuple[NodeRow, ...]:
    """One row per node and profile, slowest first."""
    return tuple(
        NodeRow(
            **_key(run),
            variant=profile.point.variant.value,
            **at(run.signature, profile.point.sizes),
            rank=rank,
            path=finding.node.path,
            node_index=finding.node.index,
            name=finding.node.name,
            op_type=finding.node.op_type,
            provider=finding.node.provider,
            self_ms=finding.node.self_ns / _NS_PER_MS,
            kernel_ms=None if finding.node.kernel_ns is None else finding.node.kernel_ns / _NS_PER_MS,
            kernel_reason=_kernel_reason(run, profile, finding),
            share=finite(finding.share),
            runs=finding.node.runs,
            output_bytes=finding.node.output_bytes,
            flops=finding.work.flops,
            read_bytes=finding.work.read_bytes,
            written_bytes=finding.work.written_bytes,
            work_basis=finding.work.basis,
            work_reason=finding.work.reason,
            bound=finding.bound,
            bound_reason=finding.bound_reason,
            input_shapes=finding.node.input_shapes,
            output_shapes=finding.node.output_shapes,
            is_complete=profile.is_complete,
        )
        for profile in findings.profiles
        for rank, finding in enumerate(profile.nodes, start=1)
    )


def cold_rows(run: BenchmarkRun, findings: Findings) -> tuple[ColdRow, ...]:
    """One row per cold number, in the order of the findings."""
    return tuple(_cold(run, finding) for finding in findings.cold)


def telemetry_rows(run: BenchmarkRun) -> tuple[TelemetryRow, ...]:
    """One row per reading of the device, in the order of the outcomes; a point that was throttled has its own too."""
    return tuple(_telemetry(run, outcome, sample) for outcome in run.outcomes for sample in outcome.telemetry)


def _kernel_reason(run: BenchmarkRun, profile: ProfileFinding, finding: NodeFinding) -> str | None:
    if finding.node.kernel_ns is not None:
        return None
    if run.plan.device.kind is DeviceKind.CPU:
        return "on a CPU a node is its own kernel"
    told = next((each.kernels_reason for each in run.profiles if each.point == profile.point), None)
    return told or "it launched no kernel"


def memory_rows(run: BenchmarkRun, findings: Findings) -> tuple[MemoryRow, ...]:
    """One row per point whose memory was read, or was to be."""
    return tuple(
        MemoryRow(
            **_key(run),
            variant=finding.point.variant.value,
            **at(run.signature, finding.point.sizes),
            **_values(finding.memory),
            predicted_error=finite(finding.memory.predicted_error.value),
            processes=finding.memory.processes,
            reasons=tuple(finding.memory.reasons.items()),
        )
        for finding in findings.points
        if finding.memory is not None
    )


def requirement_rows(run: BenchmarkRun, findings: Findings) -> tuple[RequirementRow, ...]:
    """One row per tier."""
    return tuple(_requirement(run, tier) for tier in findings.tiers)


def at(signature: Signature, sizes: AxisSizes) -> dict[str, Any]:
    """The columns that say where: every dynamic axis, and the common ones by role (a fixed axis at its fixed size)."""
    return {
        "axes": sizes,
        "batch": _size(signature, sizes, Role.BATCH),
        "height_px": _size(signature, sizes, Role.HEIGHT),
        "width_px": _size(signature, sizes, Role.WIDTH),
        "sequence": _size(signature, sizes, Role.SEQUENCE),
    }


def _size(signature: Signature, sizes: AxisSizes, role: Role) -> int | None:
    axis = signature.axis(role)
    return None if axis is None else dict(sizes).get(axis.name, axis.size)


def _key(run: BenchmarkRun) -> dict[str, Any]:
    return {
        "run_id": run.origin.run_id,
        "device_class": run.plan.device.device_class,
        "model_sha256": run.plan.model.ref.sha256,
    }


def _source(run: BenchmarkRun) -> dict[str, Any]:
    origin = run.origin
    return {
        "started_at": datetime.fromisoformat(origin.started_at).astimezone(UTC),
        "reason": origin.reason,
        "attempt": origin.attempt,
        "source_uri": origin.source_uri,
        "source_key": origin.source_key,
        "source_etag": origin.source_etag,
        "source_version_id": origin.source_version_id,
    }


def _model(run: BenchmarkRun) -> dict[str, Any]:
    ref, signature = run.plan.model.ref, run.signature
    return {
        "model_name": ref.name,
        "model_bytes": ref.size_bytes,
        "external_bytes": ref.external_bytes,
        "opset": signature.opset,
        "ir_version": signature.ir_version,
        "producer": signature.producer,
        "parameters": signature.parameters,
        "weight_bytes": signature.weight_bytes,
        "precision": signature.precision,
        "node_count": signature.node_count,
        "model_axes": tuple(AxisEntry(name=axis.name, role=axis.role.value, size=axis.size) for axis in signature.axes),
        "notes": signature.notes,
    }


def _device(run: BenchmarkRun) -> dict[str, Any]:
    device = run.plan.device
    return {
        "device_id": device.id,
        "device_kind": device.kind.value,
        "device_name": device.name,
        "device_memory_bytes": device.memory_bytes,
        "compute_capability": device.compute_capability,
        "cores": len(device.cores),
        "threads": run.plan.threads,
        "fingerprint": tuple(
            FactEntry(name=fact.name, value=fact.value, reason=fact.reason) for fact in device.fingerprint
        ),
        "runtime": tuple(dict(run.launches[0].runtime).items()) if run.launches else (),
        "launches": tuple(
            LaunchEntry(launch=launch.launch, session_ns=launch.session_ns, providers=launch.providers)
            for launch in run.launches
        ),
        "launches_span_s": run.launches_span_s,
    }


def _answers(signature: Signature, findings: Findings) -> dict[str, Any]:
    batch, resolution, sequence = findings.best_batch, findings.largest_resolution, findings.largest_sequence
    largest, knee = findings.largest_batch, findings.knee
    return {
        "best_batch": _chosen(signature, batch, Role.BATCH),
        "best_batch_axes": batch.point.sizes if batch.point else None,
        "best_batch_reason": batch.reason,
        "largest_batch": _chosen(signature, largest, Role.BATCH),
        "largest_batch_axes": largest.point.sizes if largest.point else None,
        "largest_batch_reason": largest.reason,
        "knee_batch": _chosen(signature, knee, Role.BATCH),
        "knee_axes": knee.point.sizes if knee.point else None,
        "knee_reason": knee.reason,
        "largest_height_px": _chosen(signature, resolution, Role.HEIGHT),
        "largest_width_px": _chosen(signature, resolution, Role.WIDTH),
        "largest_resolution_axes": resolution.point.sizes if resolution.point else None,
        "largest_resolution_reason": resolution.reason,
        "largest_sequence": _chosen(signature, sequence, Role.SEQUENCE),
        "largest_sequence_axes": sequence.point.sizes if sequence.point else None,
        "largest_sequence_reason": sequence.reason,
    }


def _chosen(signature: Signature, choice: Choice, role: Role) -> int | None:
    return None if choice.point is None else _size(signature, choice.point.sizes, role)


def _profile(run: BenchmarkRun, finding: ProfileFinding) -> ProfileEntry:
    raw = next((profile for profile in run.profiles if profile.point == finding.point), None)
    return ProfileEntry(
        variant=finding.point.variant.value,
        axes=finding.point.sizes,
        is_complete=finding.is_complete,
        runs=raw.runs if raw else None,
        model_run_ns=raw.model_run_ns if raw else None,
        coverage=finite(finding.coverage),
        overhead=finite(finding.overhead),
        reason=finding.reason,
        matched_share=finite(finding.matched_share),
        cpu_share=finite(finding.cpu_share),
        copy_nodes=finding.copy_nodes,
        copy_ms=None if finding.copy_ns is None else finding.copy_ns / _NS_PER_MS,
        copies_reason=finding.copies_reason,
        kernels_reason=raw.kernels_reason if raw else None,
        arena_peak_bytes=raw.arena_peak_bytes if raw else None,
        arena_held_bytes=raw.arena_held_bytes if raw else None,
        arena_reason=raw.arena_reason if raw else None,
        bound=finding.bound,
        bound_margin=finite(finding.bound_margin),
        bound_reason=finding.bound_reason,
    )


def _point(
    run: BenchmarkRun,
    finding: PointFinding,
    outcomes: tuple[OutcomeEntry, ...],
    baseline_bytes: int | None,
    on_front: tuple[Point, ...],
) -> PointRow:
    return PointRow(
        **_key(run),
        variant=finding.point.variant.value,
        **at(run.signature, finding.point.sizes),
        threads=finding.point.threads or run.plan.threads,
        concurrency=finding.point.concurrency,
        is_on_front=finding.point in on_front if finding.state.is_measured else None,
        state=finding.state.value,
        flags=tuple(flag.value for flag in finding.flags),
        reason=finding.reason,
        remedy=finding.remedy or None,
        n=finding.n,
        launches=finding.launches,
        excluded=finding.excluded,
        n_eff=finite(finding.n_eff.value),
        n_eff_reason=finding.n_eff.reason,
        items=finding.items,
        **_estimate("p50", finding.p50_ns),
        **_estimate("p90", finding.p90_ns),
        **_estimate("p95", finding.p95_ns),
        **_estimate("p99", finding.p99_ns),
        **_estimate("mad", finding.mad_ns),
        **_estimate("iqr", finding.iqr_ns),
        **_estimate("throughput", finding.throughput_items_per_s, unit="items_per_s", scale=1.0),
        **_estimate("first_run", finding.first_run_ns),
        **_estimate("energy_per_item", finding.energy_per_item_mj, unit="mj", scale=1.0),
        **_estimate("event", finding.event_ns),
        **_estimate("h2d", finding.h2d_ns),
        **_estimate("d2h", finding.d2h_ns),
        peak_memory_bytes=finding.peak_memory_bytes,
        peak_memory_reason=finding.peak_memory_reason,
        baseline_memory_bytes=baseline_bytes,
        flops=finding.flops.value,
        activation_peak_bytes=finding.activation_peak_bytes.value,
        cost_reason=finding.flops.reason or finding.activation_peak_bytes.reason,
        outcomes=outcomes,
    )


def _outcome(outcome: Outcome) -> OutcomeEntry:
    match outcome:
        case Measured():
            return OutcomeEntry(
                launch=outcome.launch,
                state=outcome.state.value,
                reason=outcome.reason,
                remedy=None,
                first_run_ns=outcome.first_run_ns,
                busy_ns=outcome.busy_ns,
                runs=outcome.runs,
                outputs=outcome.outputs,
                input_sha256=outcome.input_sha256 or None,
            )
        case Skipped():
            return OutcomeEntry(
                launch=outcome.launch,
                state=outcome.state.value,
                reason=outcome.reason,
                remedy=outcome.remedy or None,
                first_run_ns=None,
                busy_ns=None,
                runs=None,
                outputs=(),
                input_sha256=None,
            )


def _cold(run: BenchmarkRun, finding: ColdFinding) -> ColdRow:
    return ColdRow(
        **_key(run),
        phase=finding.phase.value,
        optimisation=finding.optimisation and finding.optimisation.value,
        page_cache=finding.page_cache,
        variant=finding.point.variant.value if finding.point else None,
        axes=finding.point.sizes if finding.point else None,
        launches=len(finding.values_ns),
        **_estimate("time", finding.time_ns),
        read_bytes=finding.read_bytes,
        was_cached=finding.was_cached,
        values_ns=finding.values_ns,
    )


def _telemetry(run: BenchmarkRun, outcome: Outcome, sample: TelemetrySample) -> TelemetryRow:
    return TelemetryRow(
        **_key(run),
        variant=outcome.point.variant.value,
        **at(run.signature, outcome.point.sizes),
        launch=outcome.launch,
        t_ns=sample.t_ns,
        is_steady=isinstance(outcome, Measured)
        and any(span.opened_ns <= sample.t_ns < span.opened_ns + span.wall_ns for span in outcome.spans),
        sm_clock_mhz=sample.sm_clock_mhz,
        memory_clock_mhz=sample.memory_clock_mhz,
        power_mw=sample.power_mw,
        temperature_c=sample.temperature_c,
        utilisation=sample.utilisation,
        memory_used_bytes=sample.memory_used_bytes,
        clock_event_bits=sample.clock_events,
        clock_events=None if sample.clock_events is None else event_names(sample.clock_events),
        energy_mj=sample.energy_mj,
        own_processes=_processes(sample, is_ours=True),
        other_processes=_processes(sample, is_ours=False),
        reasons=sample.reasons,
    )


def _processes(sample: TelemetrySample, *, is_ours: bool) -> int | None:
    return None if sample.tenants is None else sum(tenant.is_ours is is_ours for tenant in sample.tenants)


def _values(memory: MemoryFinding) -> dict[str, Any]:
    return {name: count.value for name, count in memory.counts.items()}


def _requirement(run: BenchmarkRun, tier: Tier) -> RequirementRow:
    return RequirementRow(
        **_key(run),
        tier=tier.tier,
        catalogue_id=tier.device_id,
        catalogue_name=tier.device_name,
        memory_bytes=tier.memory_bytes,
        needed_bytes=tier.needed_bytes,
        **at(run.signature, tier.sizes),
        basis=tier.basis,
        reason=tier.reason,
        evidence=tier.evidence,
        **_estimate("latency", tier.latency_ns),
        probability=tier.probability,
        ordered_by=tier.order,
        price=tier.price,
        price_currency=tier.price_currency,
        price_date=tier.price_date,
        ties=tier.ties,
    )


def _estimate(name: str, estimate: Estimate, *, unit: str = "ms", scale: float = _NS_PER_MS) -> dict[str, Any]:
    """An estimate as its four columns; a number that is not finite is no number."""
    numbers = [finite(value) for value in (estimate.value, estimate.low, estimate.high)]
    value, low, high = (None if number is None else number / scale for number in numbers)
    base = f"{name}_{unit}"
    return {base: value, f"{base}_low": low, f"{base}_high": high, f"{name}_reason": estimate.reason}


def _plan_json(run: BenchmarkRun) -> str:
    """Without what has columns of its own, and without paths of the machine."""
    plan = run.plan
    return json_text(
        {
            "base": plan.base,
            "points": plan.points,
            "excluded": plan.excluded,
            "base_candidates": plan.base_candidates,
            "recipes": [
                dataclasses.replace(recipe, path=PurePath(recipe.path).name) if recipe.path else recipe
                for recipe in plan.recipes
            ],
            "batch_axes": plan.batch_axes,
            "fixed_batch": plan.fixed_batch,
            "threads": plan.threads,
        }
    )
