"""Conformal intervals hold what they promise where the truth is known, and a group that was not seen says so."""

import numpy as np
import pytest

from onnxdyno.analysis.prediction.conformal import (
    LeftOut,
    conformal_quantile,
    difficulty,
    half_width,
    quantiles,
)
from onnxdyno.analysis.prediction.records import Bound, Relation


def left_out(cluster: str, error: float, relation: Relation = Relation.NEAR, bound: Bound = Bound.GPU) -> LeftOut:
    return LeftOut(relation=relation, bound=bound, cluster=cluster, log_error=error, difficulty=1.0)


def test_one_score_per_cluster_is_the_textbook_rank() -> None:
    assert conformal_quantile([[float(k)] for k in range(1, 20)], 0.9) == 18
    assert conformal_quantile([[float(k)] for k in range(1, 9)], 0.9) == float("inf")


def test_many_rows_of_one_cluster_count_once() -> None:
    lone = [[float(k)] for k in range(1, 20)]
    crowded = [*lone[:-1], [19.0] * 100]
    assert conformal_quantile(crowded, 0.9) == conformal_quantile(lone, 0.9)


def test_intervals_hold_nine_in_ten_new_clusters() -> None:
    chance = np.random.default_rng(7)
    hits = trials = 0
    for _ in range(400):
        scale = chance.lognormal(0, 0.5, size=30)
        clusters = [list(np.abs(chance.normal(0, each, size=3))) for each in scale]
        width = conformal_quantile(clusters[:-1], 0.9)
        hits += sum(score <= width for score in clusters[-1])
        trials += 3
    assert 0.87 < hits / trials < 0.97


def test_an_error_counts_by_its_difficulty() -> None:
    assert difficulty(0.5) > difficulty(0.1) > 0
    found = quantiles([left_out(str(k), 0.01 * k) for k in range(1, 31)], 0.9)
    near = next(each for each in found if each.relation is Relation.NEAR)
    assert half_width(found, Relation.NEAR, Bound.GPU, 0.5) == pytest.approx(0.5 * near.factor)


def test_a_small_group_borrows_and_a_far_one_is_never_narrower() -> None:
    near = [left_out(str(k), 0.01 * k) for k in range(1, 41)]
    far = [left_out(f"far {k}", 0.001, Relation.FAR) for k in range(3)]
    found = {each.relation: each for each in quantiles([*near, *far], 0.9)}
    assert found[Relation.SAME].rows == 0
    assert found[Relation.FAR].rows == 3
    assert found[Relation.SAME].factor <= found[Relation.NEAR].factor <= found[Relation.FAR].factor


def test_a_group_without_any_error_takes_a_factor_of_three() -> None:
    assert half_width((), Relation.FAR, Bound.LAUNCH, 0.1) == pytest.approx(np.log(3))
