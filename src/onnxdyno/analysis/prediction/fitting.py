"""Fit the few shared numbers to profiles of several GPUs, each shrunk toward its prior: four GPUs are four witnesses.

What varies is the GPU, not the node: thousands of rows of one GPU share its kernels, so the mean of a GPU counts once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from math import exp, log

import numpy as np

from onnxdyno.analysis.prediction.calibration import PRIOR, Calibration
from onnxdyno.analysis.prediction.ceilings import Ceilings
from onnxdyno.analysis.prediction.kinds import ORDER, OpClass
from onnxdyno.analysis.prediction.physics import Floats, Nodes
from onnxdyno.analysis.prediction.transfer import COMPUTE, LAUNCH, MEMORY, Seen, see

PRIOR_GPUS = 3.0
"""The weight of the prior, in GPUs."""
_PRIOR_PAIRS = 20.0
_PRIOR_VARIANCE = 0.1**2
"""The weight of a prior share that transfers: this many pairs of profiles with residuals of 10 %."""
_FITTED = tuple(each for each in OpClass if each not in (OpClass.VIEW, OpClass.COPY, OpClass.OTHER))


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredProfile:
    """One model on one GPU. The same model has the same nodes in the same order everywhere."""

    model: str
    device_id: str
    nodes: Nodes


def fit(
    profiles: Sequence[MeasuredProfile],
    at: Mapping[str, Ceilings],
    *,
    prior: Calibration = PRIOR,
    prior_gpus: float = PRIOR_GPUS,
) -> Calibration:
    """The numbers that these profiles speak for. `at`: the ceilings of every device of `profiles`, at their dtype."""
    devices = tuple(dict.fromkeys(each.device_id for each in profiles))
    seen = _seen(profiles, at, prior)
    efficiency = tuple(
        own * exp(-_shrunk(_means(seen, devices, each), prior_gpus)) if each in _FITTED else own
        for each, own in zip(ORDER, prior.efficiency, strict=True)
    )
    floors = [
        np.mean([log(found.floor_ns) for (_, device), found in seen.items() if device == each]) for each in devices
    ]
    floor_ns = exp((sum(map(float, floors)) + log(prior.floor_ns)) / (len(floors) + 1))
    fitted = replace(prior, efficiency=efficiency, floor_ns=floor_ns, hull=_hull([at[each] for each in devices]))
    seen = _seen(profiles, at, fitted)
    return replace(
        fitted,
        transfer_compute=_share(seen, COMPUTE, prior.transfer_compute),
        transfer_memory=_share(seen, MEMORY, prior.transfer_memory),
        transfer_launch=_share(seen, LAUNCH, prior.transfer_launch),
    )


_SeenAll = dict[tuple[str, str], Seen]


def _seen(profiles: Sequence[MeasuredProfile], at: Mapping[str, Ceilings], calibration: Calibration) -> _SeenAll:
    return {(each.model, each.device_id): see(each.nodes, at[each.device_id], calibration) for each in profiles}


def _means(seen: _SeenAll, devices: tuple[str, ...], op_class: OpClass) -> list[float]:
    """Per GPU: the mean over models of the mean log residual of this class, nodes at their floor left out."""
    means = []
    for device in devices:
        of_models = []
        for (_, where), found in seen.items():
            chosen = (found.nodes.classes == ORDER.index(op_class)) & (found.regime != LAUNCH)
            if where == device and chosen.any():
                of_models.append(float(found.residual[chosen].mean()))
        if of_models:
            means.append(sum(of_models) / len(of_models))
    return means


def _shrunk(means: Sequence[float], prior_gpus: float) -> float:
    return sum(means) / (len(means) + prior_gpus)


def _share(seen: _SeenAll, regime: int, prior: float) -> float:
    """The slope of the residual on one GPU over that of the same node on another, shrunk: cov / var, in 0 to 1."""
    covariance = variance = 0.0
    for (model, source), (other, target) in permutations(seen, 2):
        if model == other and source != target:
            here, there = seen[model, source], seen[other, target]
            chosen = here.regime == regime
            if chosen.any():
                weight = np.sqrt(here.nodes.latency_ns[chosen])
                covariance += _weighted(here.residual[chosen] * there.residual[chosen], weight)
                variance += _weighted(here.residual[chosen] ** 2, weight)
    held = _PRIOR_VARIANCE * _PRIOR_PAIRS
    return float(np.clip((covariance + held * prior) / (variance + held), 0.0, 1.0))


def _weighted(values: Floats, weight: Floats) -> float:
    return float((values * weight).sum() / weight.sum())


def _hull(found: Sequence[Ceilings]) -> tuple[tuple[float, float], tuple[float, float]]:
    flops, moved = [each.flop_per_s for each in found], [each.bytes_per_s for each in found]
    return (min(flops), min(moved)), (max(flops), max(moved))
