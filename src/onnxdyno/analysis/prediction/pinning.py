"""Several measured devices pin one prediction."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp, log
from statistics import fmean

from onnxdyno.analysis.prediction.calibration import Calibration
from onnxdyno.analysis.prediction.latency import predict
from onnxdyno.analysis.prediction.records import Basis, Prediction, ProfileNode, Relation
from onnxdyno.domain.errors import SpecError
from onnxdyno.hardware.lookup import Catalogue

_NEAREST_FIRST = (Relation.SAME, Relation.NEAR, Relation.FAR, None)


def predict_from(
    profiles: Mapping[str, Sequence[ProfileNode]],
    target_ids: Sequence[str],
    *,
    dtype: str = "fp32",
    catalogue: Catalogue | None = None,
    calibration: Calibration | None = None,
) -> tuple[Prediction, ...]:
    """As `predict`, from profiles of one model on several devices, by device id.

    A target that was measured is its own profile. Else the geometric mean over the sources that are nearest by
    architecture, with the mean width of their intervals: they share their errors, so more of them do not narrow it.
    Raises `SpecError`: no profiles, and as `predict`.
    """
    if not profiles:
        raise SpecError("no profile to predict from. Give at least one.")
    of_sources = [
        predict(nodes, source_id, target_ids, dtype=dtype, catalogue=catalogue, calibration=calibration)
        for source_id, nodes in profiles.items()
    ]
    return tuple(_pinned(found) for found in zip(*of_sources, strict=True))


def _pinned(found: Sequence[Prediction]) -> Prediction:
    """One prediction of several for the same target."""
    measured = next((each for each in found if each.basis is Basis.MEASURED), None)
    if measured is not None or len(found) == 1:
        return measured or found[0]
    stated = [each for each in found if each.latency_ns is not None]
    nearest = next((relation for relation in _NEAREST_FIRST if any(each.relation is relation for each in stated)), None)
    kept = [each for each in stated if each.relation is nearest]
    if not kept:
        return next((each for each in found if each.low_ns is not None), found[0])
    return kept[0] if len(kept) == 1 else _mean(kept)


def _mean(kept: Sequence[Prediction]) -> Prediction:
    latency_ns = exp(fmean(log(max(each.latency_ns or 0.0, 1.0)) for each in kept))
    reach = fmean(log((each.high_ns or 1.0) / (each.low_ns or 1.0)) / 2 for each in kept)
    is_inside = all(each.basis is Basis.INTERPOLATED for each in kept)
    return replace(
        kept[0],
        source_id=" + ".join(each.source_id or "" for each in kept),
        latency_ns=latency_ns,
        low_ns=latency_ns * exp(-reach),
        high_ns=latency_ns * exp(reach),
        basis=Basis.INTERPOLATED if is_inside else Basis.EXTRAPOLATED,
        compute_share=fmean(each.compute_share or 0.0 for each in kept),
        memory_share=fmean(each.memory_share or 0.0 for each in kept),
        launch_share=fmean(each.launch_share or 0.0 for each in kept),
        notes=tuple(dict.fromkeys(note for each in kept for note in each.notes)),
    )
