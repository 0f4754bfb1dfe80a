"""The latency of one load on one device, from the best that is known of it."""

from dataclasses import replace

from onnxdyno.analysis.prediction import Basis, Prediction, Relation, predict, predict_from
from onnxdyno.analysis.requirements.records import Load, MeasuredOn
from onnxdyno.domain.errors import SpecError
from onnxdyno.hardware.lookup import AnyDevice, Catalogue
from onnxdyno.hardware.records import CpuModel

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
    profiles = {each.device_id: each.nodes for each in alike.values() if each.nodes}
    if profiles:
        (found,) = predict_from(profiles, [device.id], dtype=dtype, catalogue=catalogue)
        told = [each.evidence for each in alike.values() if each.device_id in profiles]
    elif load.nodes:
        (found,) = predict(load.nodes, None, [device.id], dtype=dtype, catalogue=catalogue)
        told = [load.evidence]
    else:
        raise SpecError(f"nothing to predict from: {load.nodes_reason or 'no profile'}. Give a profile of its nodes.")
    return replace(found, notes=(*told, *found.notes))


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
