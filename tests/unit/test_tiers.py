"""Requirement tiers: the least device that holds, that meets, the best one; and what is refused."""

from dataclasses import replace
from typing import Any

import pytest

import factories as make
from onnxdyno.analysis.prediction import ProfileNode
from onnxdyno.analysis.requirements import (
    USABLE_SHARE,
    Aim,
    Goal,
    Load,
    MeasuredOn,
    Target,
    candidates,
    standings,
    tiers,
)
from onnxdyno.analysis.requirements.of_run import tiers_of
from onnxdyno.analysis.requirements.predicting import predict_load
from onnxdyno.domain.cost import Count, NodeWork
from onnxdyno.domain.errors import SpecError
from onnxdyno.domain.findings import Choice, Estimate, NodeFinding, PointFinding, Tier
from onnxdyno.domain.outcomes import PointState
from onnxdyno.domain.plan import BenchmarkSpec, Point
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.hardware.lookup import Added, shipped
from onnxdyno.hardware.records import Accelerator, Price

MIB, GIB = 2**20, 2**30
CONV = ProfileNode(kind="Conv", flops=1e10, bytes=1e7, latency_ns=None)


def load(items: int = 1, **changes: object) -> Load:
    """A model of ten convolutions of 10 GFLOP an item, 100 MB of weights, nothing measured."""
    scaled = replace(CONV, flops=items * CONV.flops, bytes=items * CONV.bytes)
    plain: dict[str, object] = {
        "sizes": (("batch", items),),
        "items": items,
        "evidence": "arithmetic of model.onnx",
        "nodes": (scaled,) * 10,
        "weights_bytes": 100_000_000,
        "activation_bytes": items * 10_000_000,
    }
    return Load(**(plain | changes))  # type: ignore[arg-type]


def goal(**changes: object) -> Goal:
    return Goal(**({"catalogue": shipped()} | changes))  # type: ignore[arg-type]


def within(most_ms: float) -> Target:
    return Target(most_ns=most_ms * 1e6, asked=f"{most_ms} ms")


def device(name: str | None) -> Accelerator:
    return next(each for each in shipped().accelerators if each.id == name)


def priced(*prices: tuple[str, float, str]) -> Goal:
    found = tuple(
        Price(device_id=name, amount=amount, currency=unit, date="2026-01-31") for name, amount, unit in prices
    )
    return goal(catalogue=shipped().with_devices(Added(prices=found)))


def test_the_minimum_is_the_least_device_that_holds_the_upper_bound() -> None:
    minimum, _, _ = tiers(load(), load(), goal())
    assert minimum.needed_bytes == 4 * 110_000_000 + 1100 * MIB + GIB
    chosen = device(minimum.device_id)
    assert minimum.needed_bytes <= USABLE_SHARE * chosen.memory_bytes
    for other in candidates(goal()):
        holds = minimum.needed_bytes <= USABLE_SHARE * other.memory_bytes
        assert not holds or other.memory_bytes_per_s >= chosen.memory_bytes_per_s
    assert minimum.basis == "memory"
    assert "least memory bandwidth, then least memory, then least fp32 peak" in minimum.order


@pytest.mark.parametrize("gib", [1, 4, 8, 12, 16, 20])
def test_a_larger_need_never_gets_a_device_that_does_not_hold_it(gib: int) -> None:
    heavy = load(weights_bytes=gib * GIB)
    for tier in tiers(heavy, heavy, goal()):
        assert tier.device_id is None or (tier.needed_bytes or 0) <= USABLE_SHARE * device(tier.device_id).memory_bytes


def test_what_no_single_device_holds_gets_none() -> None:
    heavy = load(weights_bytes=100 * GIB)
    for tier in tiers(heavy, heavy, goal()):
        assert tier.device_id is None
        assert "no single supported device" in tier.reason


def test_the_minimum_keeps_a_latency_bound() -> None:
    slow, _, _ = tiers(load(), load(), goal())
    quick, _, _ = tiers(load(), load(), goal(bound_ns=15e6))
    assert quick.device_id != slow.device_id
    assert quick.latency_ns.high is not None
    assert quick.latency_ns.high <= 15e6 < (slow.latency_ns.high or 0)
    assert quick.probability == 0.9


def test_the_recommended_device_meets_the_target_with_the_far_end_and_no_lesser_one_does() -> None:
    wanted, asked = load(8), goal(target=within(100))
    _, recommended, _ = tiers(load(), wanted, asked)
    assert recommended.latency_ns.high is not None
    assert recommended.latency_ns.high <= 100e6
    assert recommended.probability == 0.9
    assert recommended.basis == "extrapolated"
    bandwidth = device(recommended.device_id).memory_bytes_per_s
    for other in standings(wanted, candidates(asked), asked):
        assert other.device.memory_bytes_per_s >= bandwidth or not other.meets(100e6)


def test_a_harder_target_is_never_met_by_a_lesser_device() -> None:
    found = [tiers(load(), load(8), goal(target=within(ms)))[1] for ms in (1000, 300, 100, 60)]
    rates = [device(each.device_id).memory_bytes_per_s for each in found if each.device_id]
    assert rates == sorted(rates)


def test_a_target_that_nothing_is_shown_to_meet_is_an_abstention_with_the_nearest() -> None:
    _, recommended, _ = tiers(load(), load(8), goal(target=within(0.1)))
    assert recommended.device_id is None
    assert "the nearest, " in recommended.reason


def test_without_a_target_nothing_is_claimed_of_speed() -> None:
    _, recommended, _ = tiers(load(), load(8), goal())
    assert recommended.basis == "memory"
    assert recommended.probability is None
    assert "no target was given" in recommended.reason


def test_the_minimum_that_suffices_is_said() -> None:
    minimum, recommended, _ = tiers(load(), load(), goal(target=within(1000)))
    assert recommended.device_id == minimum.device_id
    assert recommended.reason.startswith("the minimum suffices: the same device; ")


def test_the_least_is_by_dated_price_where_there_are_prices() -> None:
    asked = priced(("l4", 2500, "USD"), ("a100-pcie-40gb", 900, "USD"), ("t4", 1000, "USD"))
    minimum, _, _ = tiers(load(), load(), asked)
    assert (minimum.device_id, minimum.price, minimum.price_currency) == ("a100-pcie-40gb", 900, "USD")
    assert minimum.price_date == "2026-01-31"
    assert "without a price left aside" in minimum.order


def test_prices_in_two_currencies_are_not_compared() -> None:
    minimum, _, _ = tiers(load(), load(), priced(("l4", 2500, "USD"), ("t4", 1, "EUR")))
    assert "prices in EUR, USD are not compared" in minimum.order
    assert minimum.device_id not in ("l4", "t4")


def test_equal_prices_are_ties() -> None:
    minimum, _, _ = tiers(load(), load(), priced(("l4", 700, "USD"), ("t4", 700, "USD")))
    assert (minimum.device_id, minimum.ties) == ("l4", ("t4",))


def test_the_optimal_device_has_the_best_expected_value_and_names_those_not_told_apart() -> None:
    asked = goal()
    _, _, optimal = tiers(load(), load(8), asked)
    every = [each.latency_ns.value for each in standings(load(8), candidates(asked), asked)]
    assert optimal.latency_ns.value == min(each for each in every if each is not None)
    assert optimal.ties
    assert optimal.probability is None


def test_the_optimal_by_watt_and_by_price() -> None:
    by_watt = tiers(load(), load(8), goal(aim=Aim.WATT))[2]
    assert (device(by_watt.device_id).tdp_w or 1e9) < 150
    none = tiers(load(), load(8), goal(aim=Aim.PRICE))[2]
    assert none.device_id is None
    assert "no device has a dated price" in none.reason
    asked = replace(priced(("l4", 2500, "USD"), ("h100-pcie-80gb", 30_000, "USD")), aim=Aim.PRICE)
    assert tiers(load(), load(8), asked)[2].device_id == "l4"


def test_only_single_supported_devices_of_the_asked_markets_are_candidates() -> None:
    every = goal(markets=("datacenter", "workstation", "desktop", "laptop", "edge"))
    for each in candidates(every):
        assert each.compute_capability >= (7, 5)
        assert each.compute_capability[0] not in (10, 11)
        assert "per GPU" not in each.name
    assert {each.market for each in candidates(goal(markets=("laptop",)))} == {"laptop"}
    assert {each.market for each in candidates(goal())} == {"datacenter", "workstation", "desktop"}


def test_no_tier_is_a_jetson_nano_or_a_box_of_many() -> None:
    asked = goal(markets=("datacenter", "workstation", "desktop", "laptop", "edge"), target=within(266.7))
    for tier in tiers(load(), load(8), asked):
        assert tier.device_id is not None
        assert "nano" not in tier.device_id or "orin" in tier.device_id
        assert tier.device_id in {each.id for each in shipped().accelerators}


@pytest.mark.parametrize("weights_bytes", [0, 1000, 10_000_000])
def test_no_need_is_less_than_the_context_of_the_runtime(weights_bytes: int) -> None:
    small = load(weights_bytes=weights_bytes, activation_bytes=0)
    assert all((tier.needed_bytes or 0) >= 1100 * MIB for tier in tiers(small, small, goal()))


def test_dense_peaks_alone_are_used() -> None:
    """Sparse peaks of the H100 are twice the dense ones (datasheet: 1,979 and 989.4 in fp16)."""
    h100 = device("h100-sxm5-80gb")
    assert h100.fp16_flop_per_s == pytest.approx(989.4e12, rel=0.01)
    (found,) = standings(load(8), (h100,), goal(dtype="fp16"))
    assert (found.latency_ns.value or 0) >= 10 * 8 * CONV.flops / 989.4e12 * 1e9


def test_a_measured_device_stands_as_measured_and_pins_the_others() -> None:
    measured = MeasuredOn(
        device_id="t4",
        latency_ns=Estimate(value=50e6, low=49e6, high=51e6),
        evidence="run R, batch=1: p50 measured",
        nodes=tuple(replace(CONV, latency_ns=5e6) for _ in range(10)),
        peak_bytes=900 * MIB,
    )
    pinned = load(measured={"t4": measured})
    t4, l4 = standings(pinned, (device("t4"), device("l4")), goal())
    assert (t4.basis, t4.latency_ns.value, t4.evidence) == ("measured", 50e6, "run R, batch=1: p50 measured")
    assert t4.needed_bytes == 2000 * MIB, "what was measured and a context"
    assert l4.needed_bytes == 2900 * MIB, "one more doubling of the arena"
    assert "profile of t4; run R" in l4.evidence
    (alone,) = standings(load(), (device("l4"),), goal())
    assert (l4.latency_ns.value or 0) > (alone.latency_ns.value or 0), "a slow source says that the model is slow"


def test_unknown_arithmetic_is_no_speed_and_unknown_memory_no_device() -> None:
    unknown = load(nodes=(), nodes_reason="not known for 1 × NonMaxSuppression")
    _, recommended, optimal = tiers(unknown, unknown, goal(target=within(1000)))
    for tier in (recommended, optimal):
        assert tier.device_id is None
        assert "NonMaxSuppression" in tier.reason
    lost = load(activation_bytes=None, activation_reason="a shape depends on data")
    assert all(
        tier.device_id is None and "a shape depends on data" in tier.reason for tier in tiers(lost, lost, goal())
    )


def at(batch: int) -> Point:
    return make.point(batch=batch, height=32, width=32)


def of_run(*points: PointFinding, best: Point | None = None, **changes: Any) -> tuple[Tier, ...]:
    run = ran(**changes)
    profiles = tuple(
        replace(found, nodes=tuple(_worked(each) for each in found.nodes))
        for found in (make.profile_finding(point.point) for point in points)
    )
    counted = tuple(replace(each, activation_peak_bytes=Count(value=1_000_000)) for each in points)
    return tiers_of(run, counted, profiles, Choice(point=best, value=None, reason=""), shipped())


def ran(target_ms: float | None = None, **changes: Any) -> BenchmarkRun:
    planned = make.plan((at(1),), spec=BenchmarkSpec(latency_target_ms=target_ms), **changes)
    return make.benchmark_run((make.measured(at(1)),), plan=planned)


def _worked(found: NodeFinding) -> NodeFinding:
    work = NodeWork(flops=10**9, read_bytes=10**6, written_bytes=10**6, basis="name")
    return replace(found, work=work)


def test_a_cpu_run_gives_gpus_arithmetic_and_says_so() -> None:
    minimum, recommended, optimal = of_run(make.point_finding(at(1)), target_ms=50)
    assert minimum.basis == "memory"
    assert recommended.basis == optimal.basis == "extrapolated"
    assert "this run has no times for these GPUs" in recommended.evidence
    assert "no profile: by arithmetic alone" in recommended.evidence


def test_a_run_is_asked_at_its_best_batch() -> None:
    minimum, recommended, _ = of_run(make.point_finding(at(1)), make.point_finding(at(8)), best=at(8))
    assert dict(minimum.sizes)["batch"] == 1
    assert dict(recommended.sizes)["batch"] == 8


def test_a_gpu_run_stands_as_measured() -> None:
    point = make.point_finding(at(1), 1e6, peak_memory_bytes=900 * MIB)
    _, recommended, optimal = of_run(point, target_ms=5, device=make.gpu_device())
    assert recommended.device_id is not None
    assert optimal.device_id is not None
    assert "t4" in recommended.evidence or recommended.basis == "measured"


def test_a_gpu_that_the_catalogue_does_not_know_is_never_measured() -> None:
    strange = make.gpu_device(name="NVIDIA Tesla T4 Super")
    _, recommended, _ = of_run(make.point_finding(at(1)), target_ms=5, device=strange)
    assert recommended.basis == "extrapolated"


def test_nothing_measured_gives_three_abstentions() -> None:
    found = of_run(make.skipped_finding(at(1), PointState.TIMEOUT))
    assert [each.tier for each in found] == ["minimum", "recommended", "optimal"]
    assert all(each.device_id is None and "was not measured" in each.reason for each in found)


def test_no_page_of_ours_speaks_of_circular_references() -> None:
    assert "<circular reference" not in repr(tiers(load(), load(8), goal()))


def test_a_device_that_was_measured_is_told_its_p50_and_not_the_sum_of_its_profile() -> None:
    told = MeasuredOn(
        device_id="t4",
        latency_ns=Estimate(value=50e6, low=49e6, high=51e6),
        evidence="run R",
        nodes=(replace(CONV, latency_ns=9e6),),
    )
    found = predict_load(load(measured={"t4": told}), "Tesla T4", "fp32", shipped())
    assert (found.latency_ns, found.low_ns, found.high_ns, found.confidence) == (50e6, 49e6, 51e6, 0.95)
    assert (found.basis, found.notes[0]) == ("measured", "run R")


def test_a_cpu_that_was_measured_pins_other_cpus_and_no_gpu() -> None:
    host = MeasuredOn(
        device_id="xeon-8375c",
        latency_ns=Estimate(value=80e6),
        evidence="run R",
        nodes=tuple(replace(CONV, latency_ns=8e6) for _ in range(10)),
    )
    known = load(hosts={host.device_id: host})
    other = predict_load(known, "xeon-8488c", "fp32", shipped())
    assert (other.source_id, other.notes[0]) == ("xeon-8375c", "run R")
    gpu = predict_load(known, "t4", "fp32", shipped())
    assert (gpu.source_id, gpu.notes[0]) == (None, "arithmetic of model.onnx")
    with pytest.raises(SpecError, match="nothing to predict from: not counted"):
        predict_load(load(nodes=(), nodes_reason="not counted"), "t4", "fp32", shipped())
