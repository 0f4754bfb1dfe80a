"""Quantiles, order-statistic intervals from one sorted set of samples, and t intervals over launches.

The estimator of every published quantile is linear interpolation between order statistics at (n - 1) q
(Hyndman & Fan 1996, type 7; numpy's default).
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean, stdev


def quantile(ordered: Sequence[int] | Sequence[float], q: float) -> float:
    """The q-quantile of samples in ascending order; `ordered` must not be empty, 0 <= q <= 1."""
    at = (len(ordered) - 1) * q
    below = math.floor(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (at - below)


@lru_cache(maxsize=4096)
def interval_ranks(n: int, q: float, confidence: float = 0.95) -> tuple[int, int] | None:
    """0-based ranks (low, high) of order statistics that enclose the q-quantile with at least `confidence`.

    Each tail holds at most (1 - confidence) / 2 of Binomial(n, q) (Conover, Practical Nonparametric Statistics, 3.2);
    None where n is too small for such an interval to exist: n < 6 for the median, 36 for p90, 72 for p95, 368 for p99.
    """
    tail = (1 - confidence) / 2
    low = _largest_rank_below(n, q, tail)
    mirrored = _largest_rank_below(n, 1 - q, tail)
    if low is None or mirrored is None:
        return None
    return low, n - 1 - mirrored


def interval_shares(n: float, q: float) -> tuple[float, float] | None:
    """Which quantiles enclose the q-quantile of `n` samples with 95 %: the ranks of `interval_ranks` over n - 1.

    With the effective number of correlated samples for `n` it widens the interval as independent samples of that
    number would. From half the number that an interval takes, the upper share of a high quantile is 1: no bound below
    the largest sample is known. None where there are fewer.
    """
    whole = math.floor(n)
    ranks = interval_ranks(whole, q)
    if ranks is not None:
        return ranks[0] / (whole - 1), ranks[1] / (whole - 1)
    low = _largest_rank_below(whole, q, 0.025) if interval_ranks(2 * whole, q) is not None else None
    return None if low is None else (low / (whole - 1), 1.0)


def _largest_rank_below(n: int, q: float, tail: float) -> int | None:
    """The largest 0-based rank r with P(Binomial(n, q) <= r) <= tail, or None if even r = 0 has more."""
    cumulative = 0.0
    log_q, log_p = math.log(q), math.log1p(-q)
    log_n_factorial = math.lgamma(n + 1)
    negligible_below = max(0, math.floor(n * q - 12 * math.sqrt(n * q * (1 - q)) - 12))
    rank = negligible_below - 1 if negligible_below else None
    for k in range(negligible_below, n + 1):
        term = log_n_factorial - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * log_q + (n - k) * log_p
        cumulative += math.exp(term)
        if cumulative > tail:
            return rank
        rank = k
    return rank


def median_half_width(ordered: Sequence[int]) -> float | None:
    """Half the width of the 95 % interval of the median, relative to the median; None while n < 6."""
    ranks = interval_ranks(len(ordered), 0.5)
    if ranks is None:
        return None
    middle = quantile(ordered, 0.5)
    return (ordered[ranks[1]] - ordered[ranks[0]]) / 2 / middle if middle else 0.0


def t_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float] | None:
    """Two-sided interval of the mean of a few independent values (Student's t); None for fewer than 2."""
    if len(values) < 2:
        return None
    middle = fmean(values)
    reach = t_quantile(1 - (1 - confidence) / 2, len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return middle - reach, middle + reach


@lru_cache(maxsize=256)
def t_quantile(p: float, degrees: int) -> float:
    """The p-quantile (0.5 < p < 1) of Student's t with whole degrees of freedom, by bisection of its exact CDF.

    Abramowitz & Stegun 26.7.3 and 26.7.4. Relative error below 1e-9.
    """
    low, high = 0.0, 1.0
    while _t_cdf(high, degrees) < p:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_cdf(middle, degrees) < p else (low, middle)
    return (low + high) / 2


def _t_cdf(t: float, degrees: int) -> float:
    theta = math.atan2(t, math.sqrt(degrees))
    sine, cosine = math.sin(theta), math.cos(theta)
    if degrees % 2:
        term, total = cosine, 0.0
        for k in range(1, degrees - 1, 2):
            total += term
            term *= cosine * cosine * (k + 1) / (k + 2)
        inside = 2 / math.pi * (theta + sine * total)
    else:
        term, total = 1.0, 0.0
        for k in range(0, degrees - 1, 2):
            total += term
            term *= cosine * cosine * (k + 1) / (k + 2)
        inside = sine * total
    return 0.5 + inside / 2
