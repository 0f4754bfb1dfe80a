"""When warm-up ends: two adjacent windows that agree, with no trend across them (protocol, section 2)."""

from collections.abc import Sequence
from statistics import median


def is_steady(earlier_ns: Sequence[int], later_ns: Sequence[int], tolerance: float) -> bool:
    """Whether two adjacent windows have medians within `tolerance` of one another and no trend.

    A trend is a drift of the median from the first to the last quarter of both windows together, in one direction
    through all four quarters, of more than `tolerance`; it is only sought where each quarter has at least 4 samples.
    """
    if not agree(median(earlier_ns), median(later_ns), tolerance):
        return False
    return drift([*earlier_ns, *later_ns]) <= tolerance


def drift(samples_ns: Sequence[int]) -> float:
    """Change of the median from the first to the last quarter, relative to the larger, if all four go one way; else 0.

    0 where a quarter has fewer than 4 samples.
    """
    quarter = len(samples_ns) // 4
    if quarter < 4:
        return 0.0
    quarters = [median(samples_ns[at * quarter : (at + 1) * quarter]) for at in range(4)]
    is_monotone = quarters == sorted(quarters) or quarters == sorted(quarters, reverse=True)
    return abs(quarters[0] - quarters[-1]) / max(quarters[0], quarters[-1], 1) if is_monotone else 0.0


def agree(one: float, other: float, tolerance: float) -> bool:
    """Whether two values differ by no more than `tolerance` of the larger."""
    return abs(one - other) <= tolerance * max(one, other)
