"""When two windows agree."""

import pytest

from onnxdyno.measuring.steady import is_steady


def test_windows_with_medians_within_the_tolerance_are_steady() -> None:
    assert is_steady([1000] * 10, [1010] * 10, 0.01)


def test_windows_with_medians_apart_are_not_steady() -> None:
    assert not is_steady([1000] * 10, [1012] * 10, 0.01)


@pytest.mark.parametrize("step", [3, -3])
def test_a_trend_in_one_direction_is_not_steady_although_the_medians_agree(step: int) -> None:
    drifting = [1000 + step * at for at in range(16)]
    assert abs(drifting[4] - drifting[12]) <= 0.03 * 1000
    assert not is_steady(drifting[:8], drifting[8:], 0.03)


def test_the_same_values_without_a_direction_are_steady() -> None:
    drifting = [1000 + 3 * at for at in range(16)]
    assert is_steady(drifting[::2], drifting[1::2], 0.03)


def test_noise_of_no_direction_is_steady() -> None:
    noisy = [1000, 1080, 960, 1010, 990, 1050, 940, 1000]
    assert is_steady(noisy, noisy[::-1], 0.01)


def test_two_windows_of_two_slow_runs_are_judged_by_their_medians_alone() -> None:
    assert is_steady([1000, 1004], [1004, 1008], 0.01)
    assert not is_steady([1000, 1004], [1100, 1104], 0.01)
