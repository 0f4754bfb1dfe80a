"""The three exits of sampling."""

from array import array
from dataclasses import replace

import numpy as np
import pytest

from onnxdyno.domain.outcomes import PointState
from onnxdyno.domain.plan import Protocol
from onnxdyno.measuring.stopping import StopRule, Verdict

PROTOCOL = Protocol()
MILLISECOND = 1_000_000


def rule(*, launches: int = 1, deadline_ns: int = 10**12, protocol: Protocol = PROTOCOL) -> StopRule:
    """A rule with a deadline that is far away."""
    return StopRule(protocol=protocol, launches=launches, deadline_ns=deadline_ns)


def grown(stop: StopRule, samples: list[int], window: int, *, now_ns: int = 0) -> tuple[Verdict | None, int]:
    """Ask after each window, as the loop does; the verdict and how many samples it took."""
    for end in range(window, len(samples) + 1, window):
        is_full = end >= stop.protocol.most_samples
        verdict = stop.verdict(array("q", samples[:end]), now_ns=now_ns, is_full=is_full)
        if verdict is not None:
            return verdict, end
    return None, len(samples)


def test_precise_samples_are_enough_when_there_are_a_hundred_and_half_a_second_of_them() -> None:
    verdict, n = grown(rule(), [10 * MILLISECOND] * 200, 10)
    assert verdict == Verdict(state=PointState.OK)
    assert n == 100


def test_short_runs_go_on_until_half_a_second_is_filled() -> None:
    verdict, n = grown(rule(), [MILLISECOND] * 1000, 50)
    assert verdict == Verdict(state=PointState.OK)
    assert n == 500


def test_the_least_is_shared_by_all_launches() -> None:
    verdict, n = grown(rule(launches=5), [10 * MILLISECOND] * 200, 10)
    assert verdict == Verdict(state=PointState.OK)
    assert n == 20


def test_wide_noise_goes_on_and_noise_that_stops_improving_is_noisy() -> None:
    rng = np.random.default_rng(3)
    samples = [round(MILLISECOND * rng.choice([1.0, 1.5])) for _ in range(60_000)]
    verdict, n = grown(rule(), samples, 500)
    assert verdict is not None
    assert verdict.state is PointState.NOISY
    assert f"after {n} runs" in (verdict.reason or "")
    assert "±" in (verdict.reason or "")
    assert n < 60_000


def test_noise_that_still_improves_is_not_given_up() -> None:
    rng = np.random.default_rng(3)
    samples = [round(MILLISECOND * rng.lognormal(0, 0.5)) for _ in range(700)]
    assert grown(rule(), samples, 100) == (None, 700)


def test_an_early_agreement_of_few_samples_does_not_stop() -> None:
    assert grown(rule(), [10 * MILLISECOND] * 90, 10) == (None, 90)


def test_the_deadline_ends_with_the_number_of_runs_and_the_interval_reached() -> None:
    verdict, _ = grown(rule(deadline_ns=5), [100, 140] * 10, 20, now_ns=5)
    assert verdict is not None
    assert verdict.state is PointState.UNCONVERGED
    assert verdict.reason == "time budget used after 20 runs: ±16.7% in this launch."


def test_the_deadline_with_too_few_runs_for_an_interval_says_so() -> None:
    verdict, _ = grown(rule(deadline_ns=5), [100], 1, now_ns=9)
    assert verdict is not None
    assert verdict.reason == "time budget used after 1 run: no interval in this launch."


def test_a_full_buffer_ends_and_does_not_blame_the_budget() -> None:
    tiny = replace(PROTOCOL, most_samples=1_000)
    verdict, n = grown(rule(protocol=tiny), [50] * 2_000, 100)
    assert n == 1_000
    assert verdict is not None
    assert verdict.state is PointState.UNCONVERGED
    assert verdict.reason == (
        "the sample buffer is full after 1000 runs: fewer runs or less time in all than the protocol asks for."
    )


@pytest.mark.parametrize("window", [16, 100, 5_000])
def test_samples_are_taken_in_once_however_they_come(window: int) -> None:
    rng = np.random.default_rng(5)
    samples = [round(MILLISECOND * rng.uniform(1, 3)) for _ in range(20_000)]
    stop = rule()
    _, n = grown(stop, samples, window)
    assert n % window == 0
    assert stop._ordered == sorted(samples[:n])


def test_a_deadline_that_left_precise_samples_too_few_is_told_apart_from_one_that_left_them_wide() -> None:
    few, _ = grown(rule(deadline_ns=5), [100] * 20, 20, now_ns=5)
    wide, _ = grown(rule(deadline_ns=5), [100, 140] * 10, 20, now_ns=5)
    assert few is not None
    assert wide is not None
    assert (few.state, few.is_short) == (PointState.UNCONVERGED, True)
    assert (wide.state, wide.is_short) == (PointState.UNCONVERGED, False)
