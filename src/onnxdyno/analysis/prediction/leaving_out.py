"""What the method gets wrong on a GPU that it has never seen: the errors that its intervals are made of."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from math import log

from onnxdyno.analysis.prediction.calibration import PRIOR, Calibration
from onnxdyno.analysis.prediction.ceilings import Ceilings
from onnxdyno.analysis.prediction.conformal import LeftOut, difficulty, quantiles
from onnxdyno.analysis.prediction.fitting import MeasuredProfile, fit
from onnxdyno.analysis.prediction.latency import CONFIDENCE, relation
from onnxdyno.analysis.prediction.records import Bound
from onnxdyno.analysis.prediction.transfer import Parts, project, see
from onnxdyno.hardware.records import Accelerator

_SMALL_FLOPS, _SMALL_BYTES = 1e7, 1e6
"""Nodes below both take no longer than starting them, on every GPU since 2016."""


def calibrate(
    profiles: Sequence[MeasuredProfile],
    at: Mapping[str, Ceilings],
    devices: Mapping[str, Accelerator],
    *,
    prior: Calibration = PRIOR,
) -> Calibration:
    """Fit to all profiles, with the intervals that leaving each GPU out in turn gives."""
    errors = tuple(left_out(profiles, at, devices, prior=prior))
    checked = dict.fromkeys(devices[each.device_id].architecture for each in profiles)
    return replace(
        fit(profiles, at, prior=prior), quantiles=quantiles(errors, CONFIDENCE), architectures=tuple(checked)
    )


def left_out(
    profiles: Sequence[MeasuredProfile],
    at: Mapping[str, Ceilings],
    devices: Mapping[str, Accelerator],
    *,
    prior: Calibration = PRIOR,
) -> Iterator[LeftOut]:
    """For every ordered pair of GPUs and every model that both ran: its error, by a fit without the target's profiles.

    The small nodes of every model stand in for launch-bound models, of which the public data has none.
    """
    for target in dict.fromkeys(each.device_id for each in profiles):
        fitted = fit([each for each in profiles if each.device_id != target], at, prior=prior)
        for source, there in permutations(profiles, 2):
            if there.device_id == target and source.model == there.model and source.device_id != target:
                for bound, pair in ((Bound.GPU, (source, there)), (Bound.LAUNCH, (_small(source), _small(there)))):
                    if pair[0].nodes.flops.size:
                        parts = transferred_parts(*pair, at=at, calibration=fitted)
                        yield LeftOut(
                            relation=relation(devices[source.device_id], devices[target]),
                            bound=bound,
                            cluster=f"{there.model} on {target}",
                            log_error=log(float(parts.total_ns.sum()) / _measured_ns(pair[1])),
                            difficulty=difficulty(parts.idle_share),
                        )


def log_error(
    source: MeasuredProfile, there: MeasuredProfile, *, at: Mapping[str, Ceilings], calibration: Calibration
) -> float:
    """log(predicted / measured) of the total of one model."""
    parts = transferred_parts(source, there, at=at, calibration=calibration)
    return log(float(parts.total_ns.sum()) / _measured_ns(there))


def transferred_parts(
    source: MeasuredProfile, there: MeasuredProfile, *, at: Mapping[str, Ceilings], calibration: Calibration
) -> Parts:
    """One profile projected to the device of the other."""
    here = at[source.device_id]
    return project(see(source.nodes, here, calibration), here, at[there.device_id], calibration)


def _measured_ns(profile: MeasuredProfile) -> float:
    return float(profile.nodes.latency_ns.sum())


def _small(profile: MeasuredProfile) -> MeasuredProfile:
    nodes = profile.nodes
    return replace(profile, nodes=nodes.where((nodes.flops < _SMALL_FLOPS) & (nodes.bytes < _SMALL_BYTES)))
