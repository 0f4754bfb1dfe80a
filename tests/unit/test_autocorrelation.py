"""What correlated samples are worth, against processes whose autocorrelation time is known in closed form."""

import math

import numpy as np
import pytest

from onnxdyno.analysis.autocorrelation import autocorrelation_time, n_eff, tail_n_eff
from simulated import Machine

LAUNCHES, N = 3, 4_000


def worth(rho: float, seed: int) -> float:
    """n / n_eff of three launches of correlated samples."""
    rows = Machine(name="", rho=rho).samples_ns(np.random.default_rng(seed), runs=1, launches=LAUNCHES, n=N)[0]
    found = n_eff([row.tolist() for row in rows]).value
    assert found is not None
    return LAUNCHES * N / found


def side_time(rho: float) -> float:
    """Integrated autocorrelation time of the side of the median: rho_k = 2 / pi asin(rho^k) (Sheppard 1899)."""
    return 1 + 2 * sum(2 / math.pi * math.asin(rho**k) for k in range(1, 1_000))


@pytest.mark.parametrize("rho", [0.3, 0.5, 0.9])
def test_the_worth_of_correlated_samples_is_that_of_theory(rho: float) -> None:
    found = np.mean([worth(rho, seed) for seed in range(10)])
    assert found == pytest.approx(side_time(rho), rel=0.12)


def test_independent_samples_are_worth_their_number_nearly_always() -> None:
    found = [worth(0.0, seed) for seed in range(60)]
    assert np.median(found) == 1.0
    assert max(found) < 1.15


def test_the_autocorrelation_time_of_a_first_order_series_is_that_of_theory() -> None:
    rng = np.random.default_rng(3)
    rho, series = 0.8, np.zeros((20, 20_000))
    noise = rng.standard_normal(series.shape)
    for at in range(1, series.shape[1]):
        series[:, at] = rho * series[:, at - 1] + noise[:, at]
    assert autocorrelation_time(list(series)) == pytest.approx((1 + rho) / (1 - rho), rel=0.05)


def test_levels_of_launches_are_no_autocorrelation() -> None:
    rng = np.random.default_rng(3)
    rows = [(10**6 * level + 1_000 * rng.random(500)).astype(int).tolist() for level in (1, 2, 3)]
    assert (n_eff(rows).value or 0) > 1_200


def test_a_mean_that_swings_between_neighbours_is_never_worth_more_than_n() -> None:
    rows = [[10, 12] * 200, [11, 13] * 200]
    assert n_eff(rows).value == 800


def test_launches_may_have_different_numbers_of_samples() -> None:
    rng = np.random.default_rng(3)
    rows = [rng.integers(1_000, 2_000, size).tolist() for size in (37, 512, 1_000)]
    assert n_eff(rows).value == pytest.approx(1_549, rel=0.1)


def test_the_tail_is_worth_what_its_clumps_are_worth() -> None:
    """Above the threshold in runs of 20: the exceedances come one clump at a time, the rest is independent."""
    rng = np.random.default_rng(3)
    independent = rng.random((3, 2_000))
    clumped = independent + 10 * (np.arange(2_000) % 200 < 20)
    assert tail_n_eff(clumped.tolist(), 5.0) < 6_000 / 10
    assert tail_n_eff(independent.tolist(), 0.9) > 5_000


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([[1, 2, 3, 4, 5, 6, 7, 8, 9]], "too few samples to see their autocorrelation: a launch has 9"),
        ([[5], [5] * 100], "too few samples to see their autocorrelation: a launch has 1"),
        ([[7] * 50, [8] * 50], "all samples of a launch are equal"),
    ],
)
def test_where_it_cannot_be_estimated_it_is_null_with_the_reason(rows: list[list[int]], reason: str) -> None:
    found = n_eff(rows)
    assert found.value is None
    assert (found.reason or "").startswith(reason)
