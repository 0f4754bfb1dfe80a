"""Samples of all launches to what is published of a point."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import factories as make
from onnxdyno.analysis.latency import over_launches, point_finding
from onnxdyno.domain.findings import PointFinding
from onnxdyno.domain.outcomes import Flag, Measured, MemoryReading, PointState, Skipped
from onnxdyno.domain.plan import BenchmarkPlan, Point
from onnxdyno.intervals import quantile

CASES = Path(__file__).parents[1] / "cases"
MS = 1_000_000
ONE, FOUR = make.point(batch=1), make.point(batch=4)
PLAN = make.plan((ONE, FOUR))


def finding(
    measured: Sequence[Measured],
    *,
    point: Point = ONE,
    skipped: Sequence[Skipped] = (),
    plan: BenchmarkPlan = PLAN,
    memory: MemoryReading | None = None,
    reference: tuple[str, ...] = (),
) -> PointFinding:
    """What is published of these launches."""
    return point_finding(point, measured=measured, skipped=skipped, memory=memory, plan=plan, reference=reference)


def launches(*samples_ms: Iterable[float], point: Point = ONE) -> list[Measured]:
    """One launch for each row of samples."""
    return [
        make.measured(point, tuple(round(value * MS) for value in row), launch=at)
        for at, row in enumerate(samples_ms, start=1)
    ]


def test_the_recorded_latencies_give_the_recorded_summary_and_warm_up_never_enters() -> None:
    """O43."""
    recorded = json.loads((CASES / "data" / "latencies_warmup.json").read_text())
    expected = recorded["expected_after_warmup"]
    warm_up, samples = np.split(np.array(recorded["samples_ms"]) * MS, [recorded["warmup_runs"]])
    steady_ns = tuple(round(value) for value in samples)
    ordered = sorted(steady_ns)
    for q, name in ((0.5, "p50"), (0.9, "p90"), (0.95, "p95"), (0.99, "p99")):
        assert quantile(ordered, q) / MS == pytest.approx(expected[name], abs=1e-9)
    got = finding(
        [make.measured(FOUR, steady_ns, warm_up_ns=tuple(round(value) for value in warm_up))],
        point=FOUR,
        plan=replace(PLAN, spec=replace(PLAN.spec, launches=1)),
    )
    assert got.n == expected["n"]
    assert got.p50_ns.value == 10.0 * MS
    assert got.throughput_items_per_s.value == pytest.approx(
        recorded["expected_throughput_items_per_s_from_mean"], rel=1e-5
    )
    for estimate, name in ((got.p90_ns, "p90"), (got.p95_ns, "p95"), (got.p99_ns, "p99")):
        assert (estimate.value, estimate.low, estimate.high) == (None, None, None)
        assert estimate.reason == f"20 samples are too few for a 95 % interval of {name}"


def test_the_estimate_is_the_median_of_the_launches_medians_with_their_t_interval() -> None:
    got = finding(launches([10] * 11, [10.2] * 11, [10.1] * 11))
    assert got.p50_ns.value == pytest.approx(10.1 * MS)
    reach = 4.30265 * 0.1 / 3**0.5 * MS
    assert got.p50_ns.low == pytest.approx(10.1 * MS - reach, rel=1e-6)
    assert got.p50_ns.high == pytest.approx(10.1 * MS + reach, rel=1e-6)


def test_an_interval_over_launches_knows_what_one_process_cannot() -> None:
    """Each launch is quiet and at its own level: an interval from within one of them would miss the truth."""
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(400):
        rows = [10 * (1 + 0.01 * rng.standard_normal()) + 0.001 * rng.standard_normal(50) for _ in range(3)]
        interval = finding(launches(*rows)).p50_ns
        assert interval.low is not None
        assert interval.high is not None
        hits += interval.low <= 10 * MS <= interval.high
    assert hits / 400 == pytest.approx(0.95, abs=0.03)


def test_one_launch_has_a_value_and_no_interval_and_says_why() -> None:
    got = finding(launches([10] * 200), plan=replace(PLAN, spec=replace(PLAN.spec, launches=1)))
    assert got.p50_ns.value == 10 * MS
    assert (got.p50_ns.low, got.p50_ns.high) == (None, None)
    assert "one launch" in (got.p50_ns.reason or "")
    assert got.state is PointState.OK


def test_an_interval_never_lies_beside_its_value_nor_below_zero() -> None:
    skewed = over_launches([1.0] * 9 + [1000.0] * 8)
    assert skewed.value == 1.0
    assert skewed.low == 1.0
    assert over_launches([1.0, 100.0]).low == 0.0


@pytest.mark.parametrize(("n", "published"), [(35, ()), (36, (90,)), (72, (90, 95)), (368, (90, 95, 99))])
def test_a_tail_is_published_from_the_n_that_gives_it_an_interval(n: int, published: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    thirds = np.array_split(10 + rng.random(n), 3)
    got = finding(launches(*thirds))
    tails = {90: got.p90_ns, 95: got.p95_ns, 99: got.p99_ns}
    for q, estimate in tails.items():
        if q in published:
            assert estimate.value is not None
            assert estimate.low is not None
            assert estimate.high is not None
            assert estimate.low <= estimate.value <= estimate.high
        else:
            assert estimate.value is None
            assert f"p{q}" in (estimate.reason or "")


def test_a_tails_interval_is_widened_by_what_differs_between_launches() -> None:
    rng = np.random.default_rng(2)
    quiet = finding(launches(*(10 + rng.random(100) for _ in range(3)))).p90_ns
    apart = finding(launches(*(10 + at + rng.random(100) for at in range(3)))).p90_ns
    assert quiet.low is not None
    assert quiet.high is not None
    assert apart.low is not None
    assert apart.high is not None
    assert apart.high - apart.low > 4 * (quiet.high - quiet.low)
    assert apart.high > 13 * MS


def test_one_launch_has_tails_without_intervals_too() -> None:
    rng = np.random.default_rng(2)
    samples = np.round((10 + rng.random(400)) * MS)
    got = finding(launches(samples / MS), plan=replace(PLAN, spec=replace(PLAN.spec, launches=1)))
    for q, estimate in ((0.90, got.p90_ns), (0.95, got.p95_ns), (0.99, got.p99_ns)):
        assert estimate.value == pytest.approx(float(np.quantile(samples, q)))
        assert (estimate.low, estimate.high) == (None, None)
        assert "one launch" in (estimate.reason or "")


def test_tails_are_those_of_numpy_over_all_samples_brought_to_the_common_median() -> None:
    rng = np.random.default_rng(2)
    rows = [np.round((10 + at + rng.exponential(size=151)) * MS) for at in range(3)]
    got = finding(launches(*(row / MS for row in rows)))
    common = np.median([np.median(row) for row in rows])
    levelled = np.concatenate([row * common / np.median(row) for row in rows])
    for q, estimate in ((0.90, got.p90_ns), (0.95, got.p95_ns), (0.99, got.p99_ns)):
        assert estimate.value == pytest.approx(float(np.quantile(levelled, q)))
    assert got.n == 453


def test_a_slow_launch_is_no_tail() -> None:
    """Of all samples as they are, the slowest third is the slow launch: their p90 would be its own 70 %."""
    quiet = [10 + at / 1_000 for at in np.random.default_rng(2).permutation(100)]
    got = finding(launches(quiet, quiet, [sample * 1.5 for sample in quiet]))
    assert got.p90_ns.value == pytest.approx(float(np.quantile(quiet, 0.9)) * MS, rel=1e-6)
    assert got.p90_ns.high is not None
    assert got.p90_ns.high > 15 * MS


def test_samples_that_follow_one_another_do_not_count_as_many() -> None:
    """A tail's interval needs 368 independent samples for p99; 1,200 in clumps of 12 are not that many."""
    rng = np.random.default_rng(2)
    independent = [10 + rng.exponential(size=400) for _ in range(3)]
    clumped = [np.repeat(10 + rng.exponential(size=34), 12)[:400] for _ in range(3)]
    assert finding(launches(*independent)).p99_ns.low is not None
    got = finding(launches(*clumped)).p99_ns
    assert got.value is not None
    assert (got.low, got.high) == (None, None)
    assert (got.reason or "").startswith("1200 samples that follow one another are worth ")
    assert (got.reason or "").endswith("independent ones, too few for a 95 % interval of p99")


@settings(deadline=None)
@given(rows=st.lists(st.lists(st.integers(0, 10**10), min_size=13, max_size=40), min_size=1, max_size=5))
def test_percentiles_are_in_order_and_inside_their_intervals(rows: list[list[int]]) -> None:
    got = finding([make.measured(ONE, tuple(row), launch=at, busy_ns=1) for at, row in enumerate(rows, 1)])
    estimates = [each for each in (got.p50_ns, got.p90_ns, got.p95_ns, got.p99_ns) if each.value is not None]
    if all(np.median(row) > 0 for row in rows):
        values = [each.value or 0.0 for each in estimates]
        assert all(one <= other * (1 + 1e-12) for one, other in pairwise(values))
    for each in estimates:
        assert (each.low is None) == (each.high is None)
        if each.low is not None and each.high is not None and each.value is not None:
            assert 0 <= each.low <= each.value <= each.high
        else:
            assert each.reason


def test_a_point_says_what_its_samples_are_worth() -> None:
    rng = np.random.default_rng(2)
    assert finding(launches([10, 11, 12] * 3)).n_eff.reason == (
        "too few samples to see their autocorrelation: a launch has 9"
    )
    worth = finding(launches(*(10 + rng.random(100) for _ in range(3)))).n_eff.value
    assert worth is not None
    assert 200 <= worth <= 300


def test_excluded_samples_stay_out_of_every_number_and_are_counted() -> None:
    samples = (10 * MS, 500 * MS, 10 * MS, 10 * MS)
    got = finding([make.measured(ONE, samples, launch=at, excluded=((1, 2, "throttled"),)) for at in (1, 2, 3)])
    assert got.excluded == 3
    assert got.n == 9
    assert got.mad_ns.value == 0
    assert got.p50_ns.value == 10 * MS


def test_a_batch_that_does_not_scale_the_output_takes_its_throughput_away() -> None:
    """O03."""
    same = ("y float32[1,4]",)
    got = finding([make.measured(FOUR, launch=at, outputs=same) for at in (1, 2, 3)], point=FOUR, reference=same)
    assert Flag.BATCH_NOT_SCALED in got.flags
    assert got.items is None
    assert got.throughput_items_per_s.value is None
    assert "batch 1 and batch 4" in (got.throughput_items_per_s.reason or "")
    assert got.p50_ns.value is not None


def test_a_batch_that_scales_the_output_counts_its_items() -> None:
    got = finding(
        [make.measured(FOUR, (2 * MS,) * 10, launch=at, outputs=("y float32[4,4]",)) for at in (1, 2, 3)],
        point=FOUR,
        reference=("y float32[1,4]",),
    )
    assert got.flags == ()
    assert got.throughput_items_per_s.value == pytest.approx(4 / 2e-3)


def test_the_base_point_is_not_compared_with_itself() -> None:
    same = ("y float32[1,4]",)
    got = finding([make.measured(ONE, outputs=same)], reference=same)
    assert got.flags == ()
    assert got.items == 1


def test_a_fixed_batch_counts_its_items() -> None:
    """O05: throughput = 4 / latency."""
    fixed = make.point()
    plan = make.plan((fixed,), batch_axes=(), fixed_batch=4)
    got = finding([make.measured(fixed, (8 * MS,) * 10, launch=at) for at in (1, 2, 3)], point=fixed, plan=plan)
    assert got.items == 4
    assert got.throughput_items_per_s.value == pytest.approx(4 / 8e-3)


def test_a_model_without_a_batch_processes_one_item_a_call() -> None:
    got = finding([make.measured(make.point())], point=make.point(), plan=make.plan((make.point(),), batch_axes=()))
    assert got.items == 1


def test_throughput_is_from_back_to_back_wall_time_not_from_the_median() -> None:
    got = finding([make.measured(ONE, (MS,) * 9 + (11 * MS,), launch=at, busy_ns=25 * MS) for at in (1, 2)])
    assert got.throughput_items_per_s.value == pytest.approx(10 / 25e-3)


def test_a_lost_launch_is_said_and_makes_a_point_unconverged() -> None:
    lost = make.skipped(ONE, PointState.CRASHED, "the measuring process died (SIGSEGV).", launch=2)
    got = finding(launches([10] * 200, [10] * 200), skipped=[lost])
    assert got.state is PointState.UNCONVERGED
    assert got.launches == 2
    assert got.reason == "2 of 3 launches. launch 2: crashed: the measuring process died (SIGSEGV)."


@pytest.mark.parametrize(
    ("states", "worst"),
    [
        ((PointState.OK, PointState.OK, PointState.NOISY), PointState.NOISY),
        ((PointState.NOISY, PointState.UNCONVERGED, PointState.OK), PointState.UNCONVERGED),
        ((PointState.NOT_STEADY, PointState.UNCONVERGED, PointState.OK), PointState.NOT_STEADY),
        ((PointState.DISTURBED, PointState.NOT_STEADY, PointState.OK), PointState.DISTURBED),
    ],
)
def test_a_point_is_as_good_as_its_worst_launch_and_says_which(
    states: tuple[PointState, ...], worst: PointState
) -> None:
    got = finding(
        [make.measured(ONE, launch=at, state=state, reason=f"{state} it was.") for at, state in enumerate(states, 1)]
    )
    assert got.state is worst
    if worst is PointState.UNCONVERGED:
        assert got.reason == (
            "the time budget ended before the protocol's precision in 1 of 3 launches (steady runs: 10, 10, 10). "
            "Raise --budget."
        )
    else:
        assert got.reason == f"launch {states.index(worst) + 1}: {worst.value} it was."


def short(launch: int, count: int) -> Measured:
    """A steady, precise launch that the budget ended before it had its share of runs and time; calls of 10 ms."""
    return make.measured(
        ONE, (10_000_000,) * count, launch=launch, state=PointState.UNCONVERGED, reason="short.", is_short=True
    )


def long_enough(launch: int, count: int) -> Measured:
    return make.measured(ONE, (10_000_000,) * count, launch=launch)


def test_a_short_launch_does_no_harm_where_all_together_have_the_runs_and_the_time() -> None:
    got = finding([long_enough(1, 60), short(2, 10), long_enough(3, 60)])
    assert (got.state, got.reason, got.n) == (PointState.OK, None, 130)


def test_short_launches_that_have_too_little_together_are_unconverged() -> None:
    got = finding([long_enough(1, 40), short(2, 10), long_enough(3, 40)])
    assert got.state is PointState.UNCONVERGED
    assert "in 1 of 3 launches (steady runs: 40, 10, 40)" in (got.reason or "")


def test_a_launch_without_a_steady_state_is_not_made_good_by_the_others() -> None:
    cut = make.measured(ONE, (10_000_000,) * 50, launch=2, state=PointState.UNCONVERGED, reason="before a steady state")
    got = finding([long_enough(1, 60), cut, short(3, 10)])
    assert got.state is PointState.UNCONVERGED
    assert "in 1 of 3 launches" in (got.reason or "")


def test_flags_of_all_launches_are_kept() -> None:
    got = finding([make.measured(ONE), make.measured(ONE, launch=2, flags=(Flag.NON_FINITE,))])
    assert got.flags == (Flag.NON_FINITE,)


def test_a_skipped_point_has_no_number_and_a_reason_everywhere() -> None:
    skip = make.skipped(FOUR, PointState.SHAPE_ERROR, "Got 4 Expected 1")
    got = finding([], point=FOUR, skipped=[skip])
    assert (got.state, got.reason, got.remedy) == (PointState.SHAPE_ERROR, "Got 4 Expected 1", "Choose another size.")
    for estimate in (got.p50_ns, got.p90_ns, got.p95_ns, got.p99_ns, got.throughput_items_per_s, got.first_run_ns):
        assert estimate.value is None
        assert "Got 4 Expected 1" in (estimate.reason or "")
    assert got.peak_memory_bytes is None
    assert got.peak_memory_reason == "memory was not measured at this point"


def test_memory_stands_beside_the_latency_and_a_missing_one_has_its_reason() -> None:
    assert finding([make.measured(ONE)], memory=make.memory_reading(ONE, 123)).peak_memory_bytes == 123
    missing = finding([make.measured(ONE)], memory=make.memory_reading(ONE, None))
    assert (missing.peak_memory_bytes, missing.peak_memory_reason) == (None, "the memory process crashed")


def test_spreads_are_over_all_samples() -> None:
    got = finding(launches([10, 11, 12, 13, 14]))
    assert got.mad_ns.value == 1 * MS
    assert got.iqr_ns.value == 2 * MS
    assert finding(launches([10])).mad_ns.value is None
