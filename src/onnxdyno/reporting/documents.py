"""The stable JSON of `bench`, `inspect` and refusals; every key is explained in docs/json.md, its schema beside it.

A value that is not there is null and its reason stands in `reasons` of the same object, under the value's key.
"""

import json
from dataclasses import fields
from datetime import date, time
from math import isfinite
from typing import Any

from onnxdyno.domain.axes import AxisSizes
from onnxdyno.domain.cost import Cost
from onnxdyno.domain.devices import Device
from onnxdyno.domain.findings import (
    Choice,
    ColdFinding,
    Estimate,
    Findings,
    MemoryFinding,
    PointFinding,
    ProfileFinding,
)
from onnxdyno.domain.models import ModelRef, Signature, TensorSpec
from onnxdyno.domain.plan import Point, Protocol
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.domain.text import storable
from onnxdyno.reporting.elsewhere import others_document
from onnxdyno.reporting.shapes import shape_entry, size_at
from onnxdyno.reporting.tiers import here_document, heres, tier_document

FORMAT = "onnxdyno/1"
MOST_NODES = 50
_NS_PER_MS = 1e6
_SIGNIFICANT = 8

Document = dict[str, Any]


def bench_document(run: BenchmarkRun, findings: Findings) -> Document:
    """One run: model, device, protocol, points, findings, requirements. Schema: docs/schema/bench.schema.json."""
    return {
        "format": FORMAT,
        "run": _run(run),
        "model": model_part(run.plan.model.ref, run.signature),
        "device": _device(run.plan.device),
        "protocol": _protocol(run),
        "axes": _axes(run.signature),
        "base": dict(run.plan.base.sizes),
        "constraints": list(run.plan.constraints.describe()),
        "points": [_point(point, run.plan.threads, findings.front) for point in findings.points],
        "findings": _findings(findings),
        "cold": [_cold(each) for each in findings.cold],
        "cost": next((_cost(cost) for cost in run.costs if cost.sizes == run.plan.base.sizes), None),
        "requirements": [tier_document(tier) for tier in findings.tiers],
        "measured_here": [here_document(each) for each in heres(findings)],
        "other_devices": others_document(findings.others),
    }


def inspect_document(ref: ModelRef, signature: Signature, cost: Cost) -> Document:
    """What the file says, and what it costs at one point. Schema: docs/schema/inspect.schema.json."""
    sizes = cost.sizes
    return {
        "format": FORMAT,
        "model": model_part(ref, signature),
        "inputs": [_tensor(each, sizes) for each in signature.inputs],
        "outputs": [_tensor(each, sizes) for each in signature.outputs],
        "axes": _axes(signature),
        "operators": dict(signature.op_types),
        "notes": list(signature.notes),
        "cost": _cost(cost),
    }


def _cost(cost: Cost) -> Document:
    """By the model's own arithmetic, 1 multiply-accumulate = 2 FLOPs; a null has its reason."""
    counts = {
        "flops": cost.flops,
        "activation_peak_bytes": cost.activation_peak_bytes,
        "read_bytes": cost.read_bytes,
        "written_bytes": cost.written_bytes,
    }
    return {
        "axes": dict(cost.sizes),
        **{name: count.value for name, count in counts.items()},
        "least_flops": cost.least_flops,
        "parameters": cost.parameters,
        "weight_bytes": cost.weight_bytes,
        "uncounted": [{"op_type": each.op_type, "nodes": each.nodes, "reason": each.reason} for each in cost.uncounted],
        "notes": list(cost.notes),
        "reasons": {name: count.reason or "unknown" for name, count in counts.items() if count.value is None},
    }


def devices_document(devices: tuple[Device, ...]) -> Document:
    """The devices of this machine with their fingerprints; a null has its reason."""
    return {
        "format": FORMAT,
        "devices": [_device(device) for device in devices],
    }


def error_document(state: str, reason: str, remedy: str) -> Document:
    """A refusal. Schema: docs/schema/error.schema.json."""
    return {"error": {"state": state, "reason": reason, "remedy": remedy}}


def dumps(document: Document, *, is_ascii: bool = True) -> str:
    """Valid JSON in ASCII (so also UTF-8), keys sorted; a NaN or an infinity becomes null with a reason.

    `is_ascii` False, for texts of `printable`: other letters stand as they are (Perfetto shows their escapes).
    """
    text = json.dumps(_clean(document), allow_nan=False, ensure_ascii=is_ascii, indent=2, sort_keys=True, default=_text)
    return text.replace("\x7f", "\\u007f")


def _text(value: object) -> str:
    """What SQL has and JSON has not: ISO 8601 for times, hexadecimal for bytes."""
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if isinstance(value, date | time) else storable(str(value))


def _run(run: BenchmarkRun) -> Document:
    origin = run.origin
    return {
        "id": origin.run_id,
        "started_at": origin.started_at,
        "reason": origin.reason,
        "attempt": origin.attempt,
        "source": {
            "uri": origin.source_uri,
            "key": origin.source_key,
            "etag": origin.source_etag,
            "version_id": origin.source_version_id,
        },
    }


def model_part(ref: ModelRef, signature: Signature) -> Document:
    """What is said of a model, the same in every document."""
    return {
        "name": ref.name,
        "sha256": ref.sha256,
        "size_bytes": ref.size_bytes,
        "external_bytes": ref.external_bytes,
        "opset": signature.opset,
        "domains": dict(signature.domains),
        "ir_version": signature.ir_version,
        "producer": signature.producer,
        "parameters": signature.parameters,
        "weight_bytes": signature.weight_bytes,
        "precision": signature.precision,
        "nodes": signature.node_count,
        "external_files": list(signature.external_files),
        "copy_of_sha256": ref.copy_of_sha256,
        "copy_how": ref.copy_how,
    }


def _device(device: Device) -> Document:
    return {
        "id": device.id,
        "kind": device.kind.value,
        "name": device.name,
        "device_class": device.device_class,
        "memory_bytes": device.memory_bytes,
        "cores": list(device.cores),
        "compute_capability": device.compute_capability,
        "fingerprint": [{"name": fact.name, "value": fact.value, "reason": fact.reason} for fact in device.fingerprint],
    }


def _protocol(run: BenchmarkRun) -> Document:
    spec, protocol = run.plan.spec, run.plan.protocol
    return {field.name: getattr(protocol, field.name) for field in fields(Protocol)} | {
        "launches": spec.launches,
        "budget_s": spec.budget_s,
        "spacing_s": spec.spacing_s,
        "launches_span_s": run.launches_span_s,
        "seed": spec.seed,
        "threads": run.plan.threads,
        "latency_target_ms": spec.latency_target_ms,
        "runtime": dict(run.launches[0].runtime) if run.launches else {},
        "providers": list(run.launches[0].providers) if run.launches else [],
    }


def _axes(signature: Signature) -> list[Document]:
    return [
        {"name": axis.name, "role": axis.role.value, "size": axis.size, "symbols": list(axis.symbols)}
        for axis in signature.axes
    ]


def _tensor(tensor: TensorSpec, sizes: AxisSizes) -> Document:
    dims = tensor.dims
    return {
        "name": tensor.name,
        "kind": tensor.kind,
        "dtype": tensor.dtype,
        "shape": None if dims is None else [shape_entry(dim) for dim in dims],
        "roles": None if dims is None else [dim.role.value for dim in dims],
        "shape_at": None if dims is None else [size_at(dim, dict(sizes)) for dim in dims],
    }


def _point(point: PointFinding, threads: int, front: tuple[Point, ...]) -> Document:
    found: Document = {
        "axes": dict(point.point.sizes),
        "variant": point.point.variant.value,
        "threads": point.point.threads or threads,
        "concurrency": point.point.concurrency,
        "is_on_front": point.point in front if point.state.is_measured else None,
        "state": point.state.value,
        "flags": [flag.value for flag in point.flags],
        "reason": point.reason,
        "remedy": point.remedy,
        "n": point.n,
        "launches": point.launches,
        "excluded": point.excluded,
        "items": point.items,
        "peak_memory_bytes": point.peak_memory_bytes,
        "flops": point.flops.value,
        "activation_peak_bytes": point.activation_peak_bytes.value,
        "memory": None if point.memory is None else _memory(point.memory),
        "reasons": {},
    }
    reasons: dict[str, str] = found["reasons"]
    for name, estimate in (("p50", point.p50_ns), ("p90", point.p90_ns), ("p95", point.p95_ns), ("p99", point.p99_ns)):
        _put(found, reasons, (f"{name}_ms", f"{name}_ci_ms"), estimate, _NS_PER_MS)
    for name, estimate in (("mad", point.mad_ns), ("iqr", point.iqr_ns), ("first_run", point.first_run_ns)):
        _put(found, reasons, (f"{name}_ms", None), estimate, _NS_PER_MS)
    for name, estimate in (("event", point.event_ns), ("h2d", point.h2d_ns), ("d2h", point.d2h_ns)):
        _put(found, reasons, (f"{name}_ms", f"{name}_ci_ms"), estimate, _NS_PER_MS)
    _put(found, reasons, ("n_eff", None), point.n_eff, 1.0)
    for name, estimate in (("item", point.energy_per_item_mj), ("call", point.energy_per_call_mj)):
        _put(found, reasons, (f"energy_per_{name}_mj", f"energy_per_{name}_ci_mj"), estimate, 1.0)
    _put(found, reasons, ("throughput_items_per_s", "throughput_ci"), point.throughput_items_per_s, 1.0)
    for name, count in (("flops", point.flops), ("activation_peak_bytes", point.activation_peak_bytes)):
        if count.value is None:
            reasons[name] = count.reason or "not counted"
    if point.peak_memory_bytes is None:
        reasons["peak_memory_bytes"] = point.peak_memory_reason or "not measured"
    if point.memory is None:
        reasons["memory"] = point.peak_memory_reason or "memory was not read at this point"
    if point.items is None:
        reasons["items"] = "no batch axis, or the output does not scale with it"
    return found


def _memory(memory: MemoryFinding) -> Document:
    return {
        **{name: count.value for name, count in memory.counts.items()},
        "predicted_error": _rounded(memory.predicted_error.value, 1.0),
        "processes": memory.processes,
        "reasons": memory.reasons,
    }


def _put(
    found: Document, reasons: dict[str, str], keys: tuple[str, str | None], estimate: Estimate, unit: float
) -> None:
    """Write a value and its interval; either is null with its reason."""
    value_key, interval_key = keys
    found[value_key] = _rounded(estimate.value, unit)
    why = estimate.reason or "not measured"
    if estimate.value is not None and not isfinite(estimate.value):
        why = f"the value was not finite ({estimate.value})"
    if found[value_key] is None:
        reasons[value_key] = why
    if interval_key is None:
        return
    low, high = _rounded(estimate.low, unit), _rounded(estimate.high, unit)
    is_known = found[value_key] is not None and low is not None and high is not None
    found[interval_key] = [low, high] if is_known else None
    if not is_known:
        reasons[interval_key] = why


def _rounded(value: float | None, unit: float) -> float | None:
    """In `unit`, at eight significant digits: finer than any clock here. None for what is not a finite number."""
    if value is None or not isfinite(value):
        return None
    return float(f"{value / unit:.{_SIGNIFICANT}g}")


def _findings(findings: Findings) -> Document:
    found: Document = {
        "best_batch": _choice(findings.best_batch),
        "largest_batch": _choice(findings.largest_batch),
        "largest_resolution": _choice(findings.largest_resolution),
        "largest_sequence": _choice(findings.largest_sequence),
        "knee": _choice(findings.knee),
        "profiles": [profile_part(profile) for profile in findings.profiles],
        "warnings": list(findings.warnings),
        "reasons": {},
    }
    _put(found, found["reasons"], ("session_ms", "session_ci_ms"), findings.session_ns, _NS_PER_MS)
    return found


def _choice(choice: Choice) -> Document:
    return {
        "axes": None if choice.point is None else dict(choice.point.sizes),
        "variant": None if choice.point is None else choice.point.variant.value,
        "concurrency": None if choice.point is None else choice.point.concurrency,
        "value": _rounded(choice.value, 1.0),
        "reason": choice.reason,
    }


def profile_part(profile: ProfileFinding, most: int = MOST_NODES) -> Document:
    """One profile, its slowest nodes."""
    listed = profile.nodes[:most]
    return {
        "axes": dict(profile.point.sizes),
        "variant": profile.point.variant.value,
        "is_complete": profile.is_complete,
        "coverage": _rounded(profile.coverage, 1.0),
        "overhead": _rounded(profile.overhead, 1.0),
        "bound": profile.bound,
        "bound_margin": _rounded(profile.bound_margin, 1.0),
        "bound_reason": profile.bound_reason,
        "matched_share": _rounded(profile.matched_share, 1.0),
        "cpu_share": _rounded(profile.cpu_share, 1.0),
        "copy_nodes": profile.copy_nodes,
        "copy_ms": _rounded(profile.copy_ns, _NS_PER_MS),
        "reason": profile.reason,
        "nodes_total": len(profile.nodes),
        "nodes": [
            {
                "path": each.node.path,
                "index": each.node.index,
                "name": each.node.name,
                "op_type": each.node.op_type,
                "provider": each.node.provider,
                "self_ms": _rounded(each.node.self_ns, _NS_PER_MS),
                "bound": each.bound,
                "bound_reason": each.bound_reason,
                "share": _rounded(each.share, 1.0),
                "kernel_ms": _rounded(each.node.kernel_ns, _NS_PER_MS),
                "flops": each.work.flops,
                "read_bytes": each.work.read_bytes,
                "written_bytes": each.work.written_bytes,
                "work_basis": each.work.basis,
                "work_reason": each.work.reason,
                "runs": each.node.runs,
                "output_bytes": each.node.output_bytes,
                "input_shapes": each.node.input_shapes,
                "output_shapes": each.node.output_shapes,
            }
            for each in listed
        ],
    }


def _cold(cold: ColdFinding) -> Document:
    found: Document = {
        "phase": cold.phase.value,
        "optimisation": cold.optimisation and cold.optimisation.value,
        "page_cache": cold.page_cache,
        "variant": cold.point.variant.value if cold.point else None,
        "axes": dict(cold.point.sizes) if cold.point else None,
        "launches": len(cold.values_ns),
        "read_bytes": cold.read_bytes,
        "was_cached": cold.was_cached,
        "reasons": {},
    }
    _put(found, found["reasons"], ("time_ms", "time_ci_ms"), cold.time_ns, _NS_PER_MS)
    return found


def _clean(value: Any) -> Any:
    """Texts without lone surrogates; in each object a non-finite number is null and named in its `reasons`."""
    match value:
        case dict():
            lost = {key: each for key, each in value.items() if isinstance(each, float) and not isfinite(each)}
            kept = {storable(str(key)): None if key in lost else _clean(each) for key, each in value.items()}
            if lost:
                told = {storable(str(key)): f"the value was not finite ({each})" for key, each in lost.items()}
                kept["reasons"] = (kept.get("reasons") or {}) | told
            return kept
        case list() | tuple():
            return [_clean(each) for each in value]
        case float() if not isfinite(value):
            return None
        case str():
            return storable(value)
        case _:
            return value
