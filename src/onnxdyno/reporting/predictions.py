"""Predictions and the catalogue, as JSON and as tables. Schemas: docs/schema/predict and hardware."""

from collections.abc import Sequence

from onnxdyno.analysis.prediction import Basis, Prediction
from onnxdyno.hardware.lookup import AnyDevice, Catalogue
from onnxdyno.hardware.records import Accelerator, CpuModel
from onnxdyno.reporting import units
from onnxdyno.reporting.documents import FORMAT, Document
from onnxdyno.reporting.grid import Cell, Column, Grid
from onnxdyno.reporting.instances import instance_document, instances_of

_NS_PER_MS = 1e6
_RATES = ("fp32_flop_per_s", "tf32_flop_per_s", "fp16_flop_per_s", "bf16_flop_per_s", "fp8_flop_per_s", "int8_op_per_s")


def predict_document(found: Sequence[Prediction], profile: str, nodes: int) -> Document:
    """Every target's total latency; a null has its reason. Schema: docs/schema/predict.schema.json."""
    return {"format": FORMAT, "profile": profile, "nodes": nodes, "predictions": [_prediction(each) for each in found]}


def predictions_grid(found: Sequence[Prediction], profile: str, origin: str) -> Grid:
    """One row per target, with the interval and what it rests on; `origin` says where the profile is from."""
    unit = units.latency_unit([each.high_ns or each.latency_ns for each in found])
    columns = (
        Column(title="target"),
        Column(title=f"latency {unit.name}", is_number=True),
        Column(title=f"90 % from {unit.name}", is_number=True),
        Column(title="to", is_number=True),
        Column(title="rests on"),
        Column(title="bound"),
        Column(title="compute", is_number=True, is_minor=True),
        Column(title="memory", is_number=True, is_minor=True),
        Column(title="launch", is_number=True, is_minor=True),
    )
    rows = tuple(
        (
            Cell(text=each.target_id),
            Cell(text=units.number(each.latency_ns, unit), reason=each.reason),
            Cell(text=units.number(each.low_ns, unit, 3), reason=each.reason),
            Cell(text=units.number(each.high_ns, unit, 3), reason=each.reason),
            Cell(text=each.basis.value if each.latency_ns is not None else f"{each.basis.value}, a range"),
            Cell(text=each.bound.value if each.bound is not None else units.MISSING),
            *(Cell(text=units.percent(share)) for share in (each.compute_share, each.memory_share, each.launch_share)),
        )
        for each in found
    )
    caption = f"{profile}, {origin}"
    return Grid(title="Predicted latency", columns=columns, rows=rows, caption=caption)


def hardware_document(known: Catalogue, chosen: Sequence[AnyDevice]) -> Document:
    """Devices with what is known of them, by whom, and who rents them. Schema: docs/schema/hardware.schema.json."""
    return {
        "format": FORMAT,
        "devices": [_device(known, each) for each in chosen],
        "instances": [instance_document(each) for each in instances_of(known, chosen)],
    }


def hardware_grid(chosen: Sequence[AnyDevice]) -> Grid:
    """One row per device."""
    columns = (
        Column(title="id"),
        Column(title="name", is_minor=True),
        Column(title="market"),
        Column(title="architecture", is_minor=True),
        Column(title="memory GiB", is_number=True),
        Column(title="GB/s", is_number=True),
        Column(title="fp32 TFLOP/s", is_number=True),
        Column(title="fp16 TFLOP/s", is_number=True),
        Column(title="watt", is_number=True, is_minor=True),
        Column(title="confidence"),
    )
    return Grid(title="Catalogue", columns=columns, rows=tuple(_row(each) for each in chosen), caption=f"{len(chosen)}")


def device_lines(known: Catalogue, device: AnyDevice) -> list[tuple[str, str]]:
    """Everything about one device, a line each; what is unknown says so."""
    return [(key, "unknown" if value is None else str(value)) for key, value in _device(known, device).items()]


def _prediction(found: Prediction) -> Document:
    missing = found.reason or "not decidable"
    values = {
        "latency_ms": _ms(found.latency_ns),
        "low_ms": _ms(found.low_ns),
        "high_ms": _ms(found.high_ns),
        "relation": None if found.relation is None else found.relation.value,
        "bound": None if found.bound is None else found.bound.value,
        "compute_share": _maybe_short(found.compute_share),
        "memory_share": _maybe_short(found.memory_share),
        "launch_share": _maybe_short(found.launch_share),
    }
    between_cpus = "an architecture relation is known between GPUs only"
    reasons = {name: missing for name, value in values.items() if value is None}
    if found.basis is not Basis.MEASURED and "relation" in reasons:
        reasons["relation"] = between_cpus
    return {
        "source_id": found.source_id,
        "target_id": found.target_id,
        "dtype": found.dtype,
        "confidence": found.confidence,
        "basis": found.basis.value,
        **values,
        "notes": list(found.notes),
        "reasons": reasons,
    }


def _ms(value_ns: float | None) -> float | None:
    return None if value_ns is None else _short(value_ns / _NS_PER_MS)


def _short(value: float) -> float:
    return float(f"{value:.8g}")


def _maybe_short(value: float | None) -> float | None:
    return None if value is None else _short(value)


def _device(known: Catalogue, device: AnyDevice) -> Document:
    measured, price = known.sustained_of(device.id), known.price_of(device.id)
    return {
        "id": device.id,
        "name": device.name,
        "market": device.market,
        "memory_bytes_per_s": device.memory_bytes_per_s,
        **{name: _maybe_short(getattr(device, name, None)) for name in _RATES},
        "sustained_fp32_flop_per_s": None if measured is None else _short(measured.fp32_flop_per_s),
        "sustained_memory_bytes_per_s": None if measured is None else measured.memory_bytes_per_s,
        "tdp_w": device.tdp_w,
        **(_gpu(device) if isinstance(device, Accelerator) else _cpu(device)),
        "price": None if price is None else price.amount,
        "price_currency": None if price is None else price.currency,
        "price_date": None if price is None else price.date,
        "source": device.source,
        "confidence": device.confidence,
        "notes": device.notes,
    }


def _gpu(device: Accelerator) -> Document:
    return {
        "kind": "gpu",
        "architecture": device.architecture,
        "compute_capability": ".".join(map(str, device.compute_capability)),
        "memory_bytes": device.memory_bytes,
        "nvml_name": device.nvml_name,
        "launch_price_usd": device.launch_price_usd,
    }


def _cpu(device: CpuModel) -> Document:
    absent = dict.fromkeys(("compute_capability", "memory_bytes", "nvml_name", "launch_price_usd"))
    return {"kind": "cpu", "architecture": device.microarchitecture, **absent}


def _row(device: AnyDevice) -> tuple[Cell, ...]:
    fp16 = device.fp16_flop_per_s if isinstance(device, Accelerator) else None
    memory_bytes = device.memory_bytes if isinstance(device, Accelerator) else None
    fp32 = device.fp32_flop_per_s
    return (
        Cell(text=device.id),
        Cell(text=device.name),
        Cell(text=device.market),
        Cell(text=device.architecture if isinstance(device, Accelerator) else device.microarchitecture),
        Cell(text=units.number(memory_bytes, units.GIB), reason="the host's"),
        Cell(text=f"{device.memory_bytes_per_s / 1e9:,.0f}"),
        Cell(text=units.MISSING if fp32 is None else f"{fp32 / 1e12:,.3g}", reason="unknown"),
        Cell(text=units.MISSING if fp16 is None else f"{fp16 / 1e12:,.4g}", reason="unknown, or no matrix units"),
        Cell(text=units.MISSING if device.tdp_w is None else f"{device.tdp_w:g}", reason="unknown"),
        Cell(text=device.confidence),
    )
