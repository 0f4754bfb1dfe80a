"""A run's first point on devices that it was not measured on: a few that many have, and those of its tiers."""

from collections.abc import Sequence
from math import isfinite

from onnxdyno.analysis.prediction import Prediction
from onnxdyno.analysis.requirements.asking import dtype_of
from onnxdyno.analysis.requirements.of_run import base_of, load_at, unmeasured
from onnxdyno.analysis.requirements.predicting import predict_elsewhere
from onnxdyno.analysis.requirements.records import USABLE_SHARE, Load
from onnxdyno.analysis.requirements.standings import Needed, needed
from onnxdyno.domain.devices import DeviceKind
from onnxdyno.domain.errors import OnnxdynoError
from onnxdyno.domain.findings import (
    Estimate,
    OtherDevices,
    PointFinding,
    PredictedOn,
    ProfileFinding,
    Tier,
)
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.hardware.catalogue import find_accelerator, is_supported
from onnxdyno.hardware.lookup import Catalogue
from onnxdyno.hardware.records import Accelerator

WELL_KNOWN = ("a10", "l40s", "rtx-4090", "rtx-5090")
"""Shown beside the GPUs with measured ceilings and those of the tiers; `onnxdyno predict` has the whole catalogue."""


def others_of(
    run: BenchmarkRun,
    points: Sequence[PointFinding],
    profiles: Sequence[ProfileFinding],
    tiers: Sequence[Tier],
    catalogue: Catalogue,
) -> OtherDevices:
    """Never raises for what cannot be predicted: that is a reason, and the run stands without it."""
    dtype, base = dtype_of(run.signature.precision), base_of(run, points)
    sizes = run.plan.base.sizes
    if base is None:
        return OtherDevices(sizes=sizes, dtype=dtype, predictions=(), reason=unmeasured(run))
    try:
        load = load_at(run, base, profiles)
        gpus = shown_gpus(run, tiers, catalogue)
        told, found = predict_elsewhere(load, gpus, dtype, catalogue)
        rows = tuple(_row(load, gpu, each, catalogue) for gpu, each in zip(gpus, found, strict=True))
    except (OnnxdynoError, ArithmeticError) as error:
        return OtherDevices(sizes=sizes, dtype=dtype, predictions=(), reason=str(error) or type(error).__name__)
    return OtherDevices(sizes=sizes, dtype=dtype, predictions=rows, evidence="; ".join(told))


def shown_gpus(run: BenchmarkRun, tiers: Sequence[Tier], catalogue: Catalogue) -> tuple[Accelerator, ...]:
    """In the order of the catalogue, without the GPU that the run was measured on."""
    device = run.plan.device
    own = find_accelerator(device.name, device.memory_bytes) if device.kind is DeviceKind.CUDA else None
    wanted = {*WELL_KNOWN, *(each.accelerator_id for each in catalogue.sustained), *(tier.device_id for tier in tiers)}
    return tuple(
        each
        for each in catalogue.accelerators
        if each.id in wanted and is_supported(each) and (own is None or each.id != own.id)
    )


def _row(load: Load, gpu: Accelerator, found: Prediction, catalogue: Catalogue) -> PredictedOn:
    memory = needed(load, gpu, catalogue)
    fits = _fits(memory, gpu)
    latency = Estimate(value=found.latency_ns, low=found.low_ns, high=found.high_ns, reason=found.reason)
    if fits is False:
        latency = Estimate(value=None, reason="it does not fit into this device's memory")
    elif latency.value is not None and not _has_interval(latency):
        latency = Estimate(value=None, reason="its interval is not known")
    is_told = latency.high is not None
    return PredictedOn(
        device_id=gpu.id,
        device_name=gpu.name,
        device_memory_bytes=gpu.memory_bytes,
        device_source=gpu.source,
        device_confidence=gpu.confidence,
        latency_ns=latency,
        confidence=found.confidence if is_told else None,
        basis=found.basis.value if is_told else None,
        source_id=found.source_id,
        least_needed_bytes=memory.least_bytes,
        needed_bytes=memory.most_bytes,
        memory_reason=memory.reason,
        fits=fits,
        notes=found.notes,
    )


def _fits(memory: Needed, gpu: Accelerator) -> bool | None:
    usable = USABLE_SHARE * gpu.memory_bytes
    if memory.least_bytes is not None and memory.least_bytes > usable:
        return False
    return True if memory.most_bytes is not None and memory.most_bytes <= usable else None


def _has_interval(latency: Estimate) -> bool:
    return all(end is not None and isfinite(end) for end in (latency.low, latency.high))
