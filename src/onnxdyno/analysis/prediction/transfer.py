"""From a node's time on the source to its time on a target: physics, plus the part of its residual that transfers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onnxdyno.analysis.prediction.calibration import Calibration
from onnxdyno.analysis.prediction.ceilings import Ceilings
from onnxdyno.analysis.prediction.kinds import CONTRACTIONS, ORDER, UNCHECKED, OpClass
from onnxdyno.analysis.prediction.physics import Floats, Nodes, times

COMPUTE, MEMORY, LAUNCH = 0, 1, 2
"""Regimes of a node on its source; each has its own share that transfers."""

_VIEW = ORDER.index(OpClass.VIEW)
_UNCHECKED = np.array([each in UNCHECKED for each in ORDER])
_CONTRACTION = np.array([each in CONTRACTIONS for each in ORDER])
_SLACK = 1.05
_RESIDENT_GAIN = 3.0
_ALIAS = 4.0
"""Four times more traffic than the source can move in the measured time: the node moved nothing (a view, an alias)."""
_SMALL = 0.1
_FEW = 4
_UNEXPLAINED = 4.0
"""A node without known work that takes more than this many floors does work that was not counted."""
_LUCK = np.log(2.0)
"""No kernel is luckier than this; what a residual has beyond it is the node's own (work miscounted) and transfers."""
_HOST = np.log(1.5)
"""Hosts differ no more at starting kernels; beyond it, profiles differ in what they time (a kernel, a call)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A profile as its source explains it: the nodes with what they can really have moved, and what is left over.

    `impossible_share`: of the measured time, in contractions that ran faster than the dtype's peak allows.
    """

    nodes: Nodes
    floor_ns: float
    regime: NDArray[np.int8]
    residual: Floats
    unexplained_ns: Floats
    impossible_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The predicted time of every node in ns; of it the floor, and the last wave of arithmetic.

    `is_compute`: arithmetic binds what is not floor; `is_unchecked`: of a class without evidence behind its numbers.
    """

    total_ns: Floats
    floor_ns: Floats
    wave_ns: Floats
    is_compute: NDArray[np.bool_]
    is_unchecked: NDArray[np.bool_]

    @property
    def unchecked_share(self) -> float:
        """The share of the whole time in operators that the method was not checked on."""
        total_ns = float(self.total_ns.sum())
        return float(self.total_ns[self.is_unchecked].sum()) / total_ns if total_ns > 0 else 0.0

    @property
    def idle_share(self) -> float:
        """The share of the whole time in which the device does not stream steadily: launches and last waves."""
        total_ns = float(self.total_ns.sum())
        return float((self.floor_ns + self.wave_ns).sum()) / total_ns if total_ns > 0 else 1.0


def see(nodes: Nodes, source: Ceilings, calibration: Calibration) -> Seen:
    """Explain a measured profile by its source. Nodes without a latency are explained by physics alone."""
    asked, nodes, took_ns = nodes, _possible(nodes, source), nodes.latency_ns
    known = ~np.isnan(took_ns)
    explained = times(nodes, source, calibration)
    work_ns = explained.work_ns
    floor_ns = _floor_ns(took_ns[known], work_ns[known], calibration)
    regime = np.where(
        work_ns < floor_ns, LAUNCH, np.where(explained.compute_ns > explained.memory_ns, COMPUTE, MEMORY)
    ).astype(np.int8)
    taken_ns = np.where(known, took_ns, floor_ns + work_ns)
    unexplained_ns = np.where(regime == LAUNCH, np.maximum(taken_ns - _UNEXPLAINED * floor_ns - work_ns, 0.0), 0.0)
    least_ns = 0.01 * floor_ns
    residual = np.log(np.maximum(taken_ns - unexplained_ns, least_ns) / (floor_ns + work_ns))
    return Seen(
        nodes=nodes,
        floor_ns=floor_ns,
        regime=regime,
        residual=residual,
        unexplained_ns=unexplained_ns,
        impossible_share=_impossible_share(asked, nodes),
    )


def project(
    seen: Seen, source: Ceilings, target: Ceilings, calibration: Calibration, *, is_alike: bool = False
) -> Parts:
    """The time of every node on the target: (floor + work) × the residual that transfers + what nothing explains.

    Unexplained time is taken for traffic: it scales with bandwidth. `is_alike`: both run the same machine code.
    """
    work = times(seen.nodes, target, calibration)
    floor_ns = _floor_there_ns(seen.floor_ns, calibration) if target.is_gpu else seen.floor_ns
    kept = np.exp(transferred(seen, calibration, is_alike=is_alike))
    extra_ns = seen.unexplained_ns * (source.bytes_per_s / target.bytes_per_s)
    is_compute = work.compute_ns > work.memory_ns
    return Parts(
        total_ns=(floor_ns + work.work_ns) * kept + extra_ns,
        floor_ns=floor_ns * kept,
        wave_ns=np.where(is_compute, work.compute_ns * work.wave_share * kept, 0.0),
        is_compute=is_compute,
        is_unchecked=_UNCHECKED[seen.nodes.classes],
    )


def transferred(seen: Seen, calibration: Calibration, *, is_alike: bool) -> Floats:
    """The expected log residual on another device: shrunk by the regime's share within luck, whole beyond it."""
    shares = np.array([calibration.transfer_compute, calibration.transfer_memory, calibration.transfer_launch])
    of_nodes = shares[seen.regime]
    least = np.where(_UNCHECKED[seen.nodes.classes], calibration.transfer_unchecked, 0.0)
    of_nodes = np.maximum(of_nodes, np.maximum(least, calibration.transfer_alike if is_alike else 0.0))
    return _shrunk(seen.residual, of_nodes, _LUCK)


def _shrunk(residual: Floats, shares: Floats | float, luck: float) -> Floats:
    within = np.clip(residual, -luck, luck)
    return np.asarray(shares * within + (residual - within), dtype=np.float64)


def _floor_there_ns(floor_ns: float, calibration: Calibration) -> float:
    apart = np.array(np.log(floor_ns / calibration.floor_ns))
    return calibration.floor_ns * float(np.exp(_shrunk(apart, calibration.floor_transfer, _HOST)))


def _impossible_share(asked: Nodes, possible: Nodes) -> float:
    took_ns = float(np.nansum(asked.latency_ns))
    chosen = (asked.flops > possible.flops) & (possible.flops > 0) & _CONTRACTION[asked.classes]
    return float(np.nansum(asked.latency_ns[chosen])) / took_ns if took_ns > 0 else 0.0


def _possible(nodes: Nodes, source: Ceilings) -> Nodes:
    """The nodes with no more FLOPs and bytes than the source's peaks allow in the time that was measured."""
    took_s = np.where(np.isnan(nodes.latency_ns), np.inf, nodes.latency_ns) / 1e9
    gain = np.where(nodes.bytes <= 2 * source.l2_cache_bytes, _RESIDENT_GAIN, _SLACK)
    most_bytes = gain * source.peak_bytes_per_s * took_s
    most_flops = _SLACK * source.peak_flop_per_s * took_s
    is_alias = (nodes.bytes > _ALIAS * most_bytes) | (nodes.classes == _VIEW)
    return Nodes(
        classes=nodes.classes,
        flops=np.where(is_alias, 0.0, np.minimum(nodes.flops, most_flops)),
        bytes=np.where(is_alias, 0.0, np.minimum(nodes.bytes, most_bytes)),
        latency_ns=nodes.latency_ns,
    )


def _floor_ns(took_ns: Floats, work_ns: Floats, calibration: Calibration) -> float:
    """The source's own floor: the median of nodes whose work does not count, else no more than its quickest tenth."""
    small = work_ns < _SMALL * took_ns
    if small.sum() >= _FEW:
        return max(float(np.median(took_ns[small])), 1.0)
    quickest_ns = float(np.quantile(took_ns, 0.1)) if took_ns.size else calibration.floor_ns
    return max(min(calibration.floor_ns, quickest_ns), 1.0)
