"""The row of a run: where it came from, what was measured on what, and the answers."""

import dataclasses
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

from onnxdyno.domain.axes import Role
from onnxdyno.domain.findings import Choice, Findings, ProfileFinding
from onnxdyno.domain.models import Signature
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.storage.jsontext import finite, json_text
from onnxdyno.storage.rows.columns import NS_PER_MS, estimate, key, size_at
from onnxdyno.storage.rowtypes import AxisEntry, FactEntry, LaunchEntry, ProfileEntry, RunRow


def run_row(run: BenchmarkRun, findings: Findings) -> RunRow:
    """The row whose presence commits the run."""
    measured = sum(point.state.is_measured for point in findings.points)
    return RunRow(
        **key(run),
        **_source(run),
        **_model(run),
        **_device(run),
        **estimate("session", findings.session_ns),
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
    largest, knee, here = findings.largest_batch, findings.knee, findings.here
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
        "meets_target": here and here.meets,
        "meets_target_axes": here and here.sizes,
        "meets_target_reason": here and here.reason,
    }


def _chosen(signature: Signature, choice: Choice, role: Role) -> int | None:
    return None if choice.point is None else size_at(signature, choice.point.sizes, role)


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
        copy_ms=None if finding.copy_ns is None else finding.copy_ns / NS_PER_MS,
        copies_reason=finding.copies_reason,
        kernels_reason=raw.kernels_reason if raw else None,
        arena_peak_bytes=raw.arena_peak_bytes if raw else None,
        arena_held_bytes=raw.arena_held_bytes if raw else None,
        arena_reason=raw.arena_reason if raw else None,
        bound=finding.bound,
        bound_margin=finite(finding.bound_margin),
        bound_reason=finding.bound_reason,
    )


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
