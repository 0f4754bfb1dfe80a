"""The latency of one load on one device, from the best that is known of it."""

from dataclasses import replace

from onnxdyno.analysis.prediction import Prediction, predict, predict_from
from onnxdyno.analysis.requirements.records import Load
from onnxdyno.domain.errors import SpecError
from onnxdyno.hardware.lookup import Catalogue
from onnxdyno.hardware.records import CpuModel


def predict_load(load: Load, target: str, dtype: str, catalogue: Catalogue) -> Prediction:
    """From profiles of the target's own kind of device, else by arithmetic; the notes say from what.

    Raises `SpecError`: an unknown device or dtype, or neither a profile nor arithmetic.
    """
    device = catalogue.find(target)
    alike = load.hosts if isinstance(device, CpuModel) else load.measured
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
