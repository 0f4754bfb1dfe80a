"""The latency of one load on one device, from the best that is known of it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from onnxdyno.analysis.prediction import Basis, Prediction, Relation, predict, predict_from
from onnxdyno.analysis.requirements.records import Load, MeasuredOn
from onnxdyno.domain.errors import SpecError
from onnxdyno.hardware.lookup import AnyDevice, Catalogue
from onnxdyno.hardware.records import Accelerator, CpuModel

MEASURED_CONFIDENCE = 0.95
"""Of the interval of a measured p50 (protocol, section 3)."""


def predict_load(load: Load, target: str, dtype: str, catalogue: Catalogue) -> Prediction:
    """What was measured there, else from profiles of the target's own kind of device, else by arithmetic.

    The notes say from what. Raises `SpecError`: an unknown device or dtype, or neither a profile nor arithmetic.
    """
    device = catalogue.find(target)
    alike = load.hosts if isinstance(device, CpuModel) else load.measured
    own = alike.get(device.id)
    if own is not None and own.latency_ns.value is not None and own.latency_ns.high is not None:
        return _measured(own, device, dtype)
    told, (found,) = _predicted(load, alike.values(), [device.id], dtype, catalogue)
    return replace(found, notes=(*told, *found.notes))


def predict_elsewhere(
    load: Load, gpus: Sequence[Accelerator], dtype: str, catalogue: Catalogue
) -> tuple[tuple[str, ...], tuple[Prediction, ...]]:
    """From what, and the same as `predict_load` for GPUs on which the load was not measured. Raises as it does."""
    return _predicted(load, load.measured.values(), [each.id for each in gpus], dtype, catalogue)


def _predicted(
    load: Load, alike: Iterable[MeasuredOn], ids: Sequence[str], dtype: str, catalogue: Catalogue
) -> tuple[tuple[str, ...], tuple[Prediction, ...]]:
    profiled = [each for each in alike if each.nodes]
    if profiled:
        profiles = {each.device_id: each.nodes for each in profiled}
        told = tuple(each.evidence for each in profiled)
        return told, predict_from(profiles, ids, dtype=dtype, catalogue=catalogue)
    if load.nodes:
        return (load.evidence,), predict(load.nodes, None, ids, dtype=dtype, catalogue=catalogue)
    raise SpecError(f"nothing to predict from: {load.nodes_reason or 'no profile'}. Give a profile of its nodes.")


def _measured(own: MeasuredOn, device: AnyDevice, dtype: str) -> Prediction:
    """The p50 without the profiler, not the sum of a profile: on small models the profiler takes longer than nodes."""
    return Prediction(
        target_id=device.id,
        source_id=device.id,
        dtype=dtype,
        latency_ns=own.latency_ns.value,
        low_ns=own.latency_ns.low,
        high_ns=own.latency_ns.high,
        confidence=MEASURED_CONFIDENCE,
        basis=Basis.MEASURED,
        relation=None if isinstance(device, CpuModel) else Relation.SAME,
        bound=None,
        compute_share=None,
        memory_share=None,
        launch_share=None,
        reason="it was measured: nothing was predicted",
        notes=(own.evidence, f"{device.id}: the interval is the 95 % one of its launches"),
    )
