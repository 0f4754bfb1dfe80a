"""Quantiles and intervals against definitions, known tables and a seeded simulation."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxdyno.intervals import interval_ranks, interval_shares, median_half_width, quantile, t_interval, t_quantile


@pytest.mark.parametrize(("q", "least"), [(0.5, 6), (0.9, 36), (0.95, 72), (0.99, 368), (0.999, 3_688)])
def test_a_percentile_has_an_interval_from_the_protocols_least_n_on(q: float, least: int) -> None:
    assert interval_ranks(least - 1, q) is None
    ranks = interval_ranks(least, q)
    assert ranks is not None
    assert 0 <= ranks[0] < ranks[1] <= least - 1


@given(samples=st.lists(st.integers(0, 10**12), min_size=1, max_size=60), q=st.floats(0, 1))
def test_a_quantile_is_numpys_default(samples: list[int], q: float) -> None:
    assert quantile(sorted(samples), q) == pytest.approx(float(np.quantile(samples, q)), rel=1e-12)


def below(n: int, q: float, rank: int) -> float:
    """P(Binomial(n, q) <= rank), by summing exact binomials."""
    return sum(math.comb(n, k) * q**k * (1 - q) ** (n - k) for k in range(rank + 1))


@pytest.mark.parametrize(("n", "q"), [(6, 0.5), (20, 0.5), (101, 0.5), (40, 0.9), (200, 0.95), (500, 0.99)])
def test_ranks_are_the_tightest_that_leave_at_most_a_fortieth_in_each_tail(n: int, q: float) -> None:
    ranks = interval_ranks(n, q)
    assert ranks is not None
    low, high = ranks
    assert below(n, q, low) <= 0.025 < below(n, q, low + 1)
    assert 1 - below(n, q, high) <= 0.025 < 1 - below(n, q, high - 1)


@pytest.mark.parametrize("n", [20_000, 200_000])
def test_ranks_of_many_samples_agree_with_the_normal_approximation(n: int) -> None:
    ranks = interval_ranks(n, 0.5)
    assert ranks is not None
    reach = 1.959964 * math.sqrt(n) / 2
    assert ranks[0] == pytest.approx(n / 2 - reach, abs=3)
    assert ranks[1] == pytest.approx(n / 2 + reach, abs=3)


@pytest.mark.parametrize(("n", "q"), [(6, 0.5), (36, 0.9), (500, 0.99)])
def test_shares_are_the_ranks_where_samples_are_independent(n: int, q: float) -> None:
    ranks, shares = interval_ranks(n, q), interval_shares(n + 0.9, q)
    assert ranks is not None
    assert shares is not None
    ordered = list(range(n))
    assert [quantile(ordered, share) for share in shares] == pytest.approx(list(ranks))


def test_fewer_effective_samples_give_a_wider_interval_and_too_few_none() -> None:
    many, few = interval_shares(1_000, 0.9), interval_shares(100, 0.9)
    assert many is not None
    assert few is not None
    assert few[0] < many[0] < 0.9 < many[1] < few[1] <= 1
    assert interval_shares(17.9, 0.9) is None


@pytest.mark.parametrize("n", [18, 35])
def test_from_half_the_number_on_an_interval_reaches_to_the_largest_sample(n: int) -> None:
    shares = interval_shares(n, 0.9)
    assert shares is not None
    assert shares[1] == 1
    assert below(n, 0.9, round(shares[0] * (n - 1))) <= 0.025
    assert interval_shares(5, 0.5) is None


def coverage(q: float, truth: float, n: int, ranks: tuple[int, int], turns: int = 4_000) -> float:
    """How often the order statistics of `ranks` enclose the true quantile of skewed samples."""
    samples = np.sort(np.random.default_rng(7).exponential(size=(turns, n)), axis=1)
    return float(np.mean((samples[:, ranks[0]] <= truth) & (truth <= samples[:, ranks[1]])))


@pytest.mark.parametrize(("n", "q"), [(6, 0.5), (50, 0.5), (36, 0.9), (100, 0.9), (72, 0.95), (400, 0.99)])
def test_order_statistic_intervals_cover_the_truth_at_least_95_times_in_100(n: int, q: float) -> None:
    ranks = interval_ranks(n, q)
    assert ranks is not None
    assert coverage(q, -math.log(1 - q), n, ranks) >= 0.945  # 4,000 turns: 0.95 less 1.5 standard errors


def test_an_interval_of_fixed_ranks_does_not_cover_the_truth() -> None:
    """What the simulation is for: it tells a wrong interval from a right one."""
    assert coverage(0.9, -math.log(0.1), 100, (87, 93)) < 0.9


@pytest.mark.parametrize(
    ("degrees", "known"),
    [
        (1, 12.7062),
        (2, 4.30265),
        (3, 3.18245),
        (4, 2.77645),
        (9, 2.26216),
        (10, 2.22814),
        (29, 2.04523),
        (120, 1.97993),
    ],
)
def test_t_quantiles_are_those_of_the_tables(degrees: int, known: float) -> None:
    assert t_quantile(0.975, degrees) == pytest.approx(known, rel=3e-6)


def test_t_quantiles_hold_at_other_confidences() -> None:
    assert t_quantile(0.95, 5) == pytest.approx(2.01505, rel=3e-6)
    assert t_quantile(0.995, 4) == pytest.approx(4.60409, rel=3e-6)


def test_one_value_has_no_t_interval() -> None:
    assert t_interval([]) is None
    assert t_interval([3.0]) is None


@pytest.mark.parametrize("launches", [2, 3, 5])
def test_t_intervals_over_launches_cover_the_truth_95_times_in_100(launches: int) -> None:
    rng = np.random.default_rng(11)
    intervals = [t_interval([float(value) for value in rng.normal(10, 1, launches)]) for _ in range(3_000)]
    hits = [interval is not None and interval[0] <= 10 <= interval[1] for interval in intervals]
    assert np.mean(hits) == pytest.approx(0.95, abs=0.012)


@pytest.mark.parametrize(
    ("samples", "expected"), [([5] * 5, None), ([5] * 6, 0.0), ([0] * 6, 0.0), ([90, 95, 99, 101, 105, 110], 0.1)]
)
def test_the_half_width_of_the_median_is_relative_and_null_below_six(
    samples: Sequence[int], expected: float | None
) -> None:
    assert median_half_width(samples) == (None if expected is None else pytest.approx(expected))
