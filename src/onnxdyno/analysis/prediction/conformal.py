"""Split-conformal intervals: quantiles of the log errors on devices that were left out, each over its difficulty."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log

from onnxdyno.analysis.prediction.calibration import Quantile
from onnxdyno.analysis.prediction.records import Bound, Relation

_LEAST_CLUSTERS = 20
"""A group with fewer takes the quantile of all groups of its bound: its own would be its maximum, or infinite."""
_STEADY = 0.05
"""Like the form of `difficulty`, chosen after the errors of the GPUs left out had been seen (docs/prediction.md)."""
_UNCHECKED = log(3.0)
_NEAREST_FIRST = (Relation.SAME, Relation.NEAR, Relation.FAR)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """One prediction of a device that was in no fit: log(predicted / measured), its difficulty, and its group.

    `cluster`: what was measured once, a model on a target. Predictions of it from several sources are one witness.
    """

    relation: Relation
    bound: Bound
    cluster: str
    log_error: float
    difficulty: float


def difficulty(idle_share: float) -> float:
    """How hard a prediction is, up to a factor: steady streaming is known to some 5 %; the rest depends on luck.

    How a kernel is tiled, how its last wave falls and what a launch costs on another host differ by whole factors.
    Conformal scores over a difficulty (Lei et al. 2018, section 5.2) keep their coverage and widen where it is due.
    """
    return _STEADY + idle_share


def conformal_quantile(clusters: Sequence[Sequence[float]], confidence: float) -> float:
    """The least score that holds a share confidence × (K + 1) / K of K clusters, each of weight 1; else infinite.

    With one score per cluster it is the ceil((K + 1) × confidence)-th smallest (Lei et al. 2018, Distribution-free
    predictive inference for regression, section 2); pooling clusters like this keeps that (Dunn, Wasserman & Ramdas
    2023, Distribution-free prediction sets for two-layer hierarchical models, section 3).
    """
    weighted = sorted((score, 1 / len(scores)) for scores in clusters for score in scores)
    wanted = (len(clusters) + 1) * confidence - 1e-9
    held = 0.0
    for score, weight in weighted:
        held += weight
        if held >= wanted:
            return score
    return inf


def quantiles(errors: Sequence[LeftOut], confidence: float) -> tuple[Quantile, ...]:
    """One factor per group that has errors; a small group borrows from all of its bound, a far one is never less.

    Grouping by relation and bound is Mondrian conformal prediction (Vovk et al. 2005, 4.5).
    """
    found: list[Quantile] = []
    for bound in Bound:
        of_bound = [each for each in errors if each.bound is bound]
        least = 0.0
        for relation in _NEAREST_FIRST if of_bound else ():
            own = [each for each in of_bound if each.relation is relation]
            scores = _clustered(own if len({each.cluster for each in own}) >= _LEAST_CLUSTERS else of_bound)
            highest = max(max(each) for each in scores)
            width = conformal_quantile(scores, confidence)
            least = max(least, width if width < inf else 2 * highest)
            found.append(Quantile(relation=relation, bound=bound, factor=least, rows=len(own)))
    return tuple(found)


def _clustered(errors: Sequence[LeftOut]) -> list[list[float]]:
    clusters: dict[str, list[float]] = {}
    for each in errors:
        clusters.setdefault(each.cluster, []).append(abs(each.log_error) / each.difficulty)
    return list(clusters.values())


def half_width(known: Sequence[Quantile], relation: Relation, bound: Bound, hard: float) -> float:
    """The half-width of the log of a prediction of this difficulty; where nothing was checked, a factor of three."""
    factors = [each.factor for each in known if each.relation is relation and each.bound is bound]
    return factors[0] * hard if factors else _UNCHECKED
