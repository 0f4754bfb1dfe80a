"""Times of nodes where only the whole was timed: a GPU's profile tells how long nodes take to start, not to run."""

from collections.abc import Sequence
from dataclasses import replace

from onnxdyno.analysis.prediction.calibration import Calibration, shipped_calibration
from onnxdyno.analysis.prediction.ceilings import ceilings
from onnxdyno.analysis.prediction.physics import columns
from onnxdyno.analysis.prediction.records import ProfileNode
from onnxdyno.analysis.prediction.transfer import project, see
from onnxdyno.hardware.lookup import Catalogue, shipped


def spread(
    nodes: Sequence[ProfileNode],
    device_id: str,
    total_ns: float,
    *,
    dtype: str = "fp32",
    catalogue: Catalogue | None = None,
    calibration: Calibration | None = None,
) -> tuple[ProfileNode, ...]:
    """The nodes with latencies that add up to `total_ns`, each its share by the arithmetic of this device.

    Empty without nodes, and where the device's peak for this dtype is not known. Raises `SpecError`: an unknown device.
    """
    known = shipped() if catalogue is None else catalogue
    numbers = shipped_calibration() if calibration is None else calibration
    at = ceilings(known.find(device_id), dtype, known)
    if at is None or not nodes:
        return ()
    parts_ns = project(see(columns(nodes).unmeasured(), at, numbers), at, at, numbers).total_ns
    scale = total_ns / float(parts_ns.sum())
    return tuple(replace(node, latency_ns=scale * float(own)) for node, own in zip(nodes, parts_ns, strict=True))
