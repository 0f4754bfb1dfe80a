"""How long one node must take on a device: the slower of its arithmetic and its traffic, before any calibration."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from onnxdyno.analysis.prediction.calibration import Calibration
from onnxdyno.analysis.prediction.ceilings import Ceilings
from onnxdyno.analysis.prediction.kinds import CONTRACTIONS, ORDER, OpClass, op_class
from onnxdyno.analysis.prediction.records import ProfileNode

Floats = NDArray[np.float64]

_L2_GAIN = 2.5
"""L2 bandwidth over DRAM bandwidth is 2.5 to 5 from V100 on (Jia et al. 2018, arXiv 1804.06826; datasheets)."""
_L2_USABLE = 0.8
_CONTRACTION = np.array([each in CONTRACTIONS for each in ORDER])
_COPY = ORDER.index(OpClass.COPY)
_NS = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """Nodes as columns. `classes` index `OpClass`; a latency that was not measured is NaN."""

    classes: NDArray[np.intp]
    flops: Floats
    bytes: Floats
    latency_ns: Floats

    def where(self, chosen: NDArray[np.bool_]) -> "Nodes":
        """Only the chosen nodes."""
        return replace(
            self,
            classes=self.classes[chosen],
            flops=self.flops[chosen],
            bytes=self.bytes[chosen],
            latency_ns=self.latency_ns[chosen],
        )

    def unmeasured(self) -> "Nodes":
        """The same nodes without their latencies."""
        return replace(self, latency_ns=np.full_like(self.flops, np.nan))


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Of each node, in ns: what its arithmetic takes and what its traffic takes; they overlap.

    `wave_share`: of `compute_ns`, the part in which the last wave leaves units idle.
    """

    compute_ns: Floats
    memory_ns: Floats
    wave_share: Floats

    @property
    def work_ns(self) -> Floats:
        """The slower of the two."""
        return np.maximum(self.compute_ns, self.memory_ns)


def columns(nodes: Sequence[ProfileNode]) -> Nodes:
    """Records as columns."""
    return Nodes(
        classes=np.array([ORDER.index(op_class(node.kind)) for node in nodes], dtype=np.intp),
        flops=np.array([node.flops for node in nodes], dtype=np.float64),
        bytes=np.array([node.bytes for node in nodes], dtype=np.float64),
        latency_ns=np.array([node.latency_ns for node in nodes], dtype=np.float64),
    )


def times(nodes: Nodes, at: Ceilings, calibration: Calibration) -> Times:
    """max(compute, memory) of every node: monotone in every rate of the device, and in FLOPs and bytes.

    Compute has the last wave: on average half of the SMs idle for one tile, at most doubling the time. Traffic that
    fits into L2 runs faster by the share that fits. A copy goes over the host link.
    """
    efficiency = np.array(calibration.efficiency)[nodes.classes]
    is_contraction = _CONTRACTION[nodes.classes]
    rate = np.where(is_contraction, at.flop_per_s, at.vector_flop_per_s)
    wave = calibration.wave_flop_per_unit * at.units if at.is_gpu else 0.0
    tail = np.where(is_contraction, wave / np.maximum(nodes.flops + wave, 1.0), 0.0)
    compute_ns = nodes.flops / rate * (1 + tail) * _NS
    link = np.where(nodes.classes == _COPY, at.host_bytes_per_s, at.bytes_per_s * l2_gain(nodes.bytes, at))
    memory_ns = nodes.bytes / link * _NS
    return Times(
        compute_ns=compute_ns / efficiency,
        memory_ns=memory_ns / np.minimum(efficiency, 1.0),
        wave_share=tail / (1 + tail),
    )


def l2_gain(moved_bytes: Floats, at: Ceilings) -> Floats:
    """How much faster than DRAM the traffic of a node runs: 1 where it is much larger than L2."""
    usable = _L2_USABLE * at.l2_cache_bytes
    resident = np.clip(1 - moved_bytes / max(usable, 1.0), 0.0, 1.0) if usable else np.zeros_like(moved_bytes)
    gain: Floats = 1 / (1 - resident + resident / _L2_GAIN)
    return gain
