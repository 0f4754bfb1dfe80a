"""Profiles beside the latency of their point."""

import pytest

import factories as make
from onnxdyno.analysis import analyse
from onnxdyno.analysis.nodes import compute_on_cpu, profile_finding
from onnxdyno.domain.cost import NodeWork
from onnxdyno.domain.findings import PointFinding
from onnxdyno.domain.outcomes import PointState

ONE = make.point(batch=1)
CPU, GPU = make.cpu_device(), make.gpu_device()
NODES = (make.node("small", 200_000), make.node("large", 500_000, index=1), make.node("none", 0, index=2))


def test_nodes_are_slowest_first_with_shares_that_add_up_to_one() -> None:
    got = profile_finding(make.profile(ONE, NODES), make.point_finding(ONE, p50_ns=1_000_000), CPU)
    assert [each.node.name for each in got.nodes] == ["large", "small", "none"]
    assert [each.share for each in got.nodes] == pytest.approx([5 / 7, 2 / 7, 0])


def test_coverage_and_overhead_are_against_the_unprofiled_median() -> None:
    got = profile_finding(
        make.profile(ONE, NODES, model_run_ns=1_300_000), make.point_finding(ONE, p50_ns=1_000_000), CPU
    )
    assert got.coverage == pytest.approx(0.7)
    assert got.overhead == pytest.approx(0.3)
    assert got.reason is None


@pytest.mark.parametrize("point", [None, make.skipped_finding(ONE)])
def test_without_a_median_coverage_is_null_with_a_reason(point: PointFinding | None) -> None:
    got = profile_finding(make.profile(ONE, NODES), point, CPU)
    assert (got.coverage, got.overhead) == (None, None)
    assert got.reason == "the point has no unprofiled median"
    assert got.nodes[0].share == pytest.approx(5 / 7)


def test_an_incomplete_profile_says_why_and_stays_incomplete() -> None:
    cut = make.profile(ONE, NODES, is_complete=False, reason="the profile was cut; 2 whole runs of it are used.")
    got = profile_finding(cut, make.point_finding(ONE), CPU)
    assert not got.is_complete
    assert got.reason == "the profile was cut; 2 whole runs of it are used."


def test_a_profile_without_nodes_divides_nothing_by_nothing() -> None:
    empty = make.profile(ONE, (make.node("a", 0),), model_run_ns=None)
    got = profile_finding(empty, make.point_finding(ONE), CPU)
    assert got.nodes[0].share == 0
    assert got.overhead is None


ON_GPU = (
    make.node("in", 100_000, op_type="MemcpyFromHost", provider="CUDAExecutionProvider"),
    make.node("conv", 600_000, index=1, provider="CUDAExecutionProvider"),
    make.node("shape", 200_000, index=2, op_type="Shape", provider="CPUExecutionProvider"),
    make.node("out", 100_000, index=3, op_type="MemcpyToHost", provider="CUDAExecutionProvider"),
)
STRAY = make.node("lstm", 500_000, index=4, op_type="LSTM", provider="CPUExecutionProvider")


def test_on_a_gpu_the_time_on_the_cpu_and_in_copies_is_told() -> None:
    got = profile_finding(make.profile(ONE, ON_GPU), None, GPU)
    assert got.cpu_share == pytest.approx(0.2)
    assert (got.copy_nodes, got.copy_ns, got.copies_reason) == (2, 200_000, None)


def test_on_a_cpu_both_are_null_with_the_reason() -> None:
    got = profile_finding(make.profile(ONE, NODES), None, CPU)
    assert (got.cpu_share, got.copy_nodes, got.copy_ns) == (None, None, None)
    assert got.copies_reason


def test_compute_on_the_cpu_is_named_and_shape_arithmetic_is_none() -> None:
    assert compute_on_cpu(make.profile(ONE, ON_GPU), GPU) is None
    assert compute_on_cpu(make.profile(ONE, (*ON_GPU, STRAY)), CPU) is None
    reason = compute_on_cpu(make.profile(ONE, (*ON_GPU, STRAY)), GPU)
    assert reason == "the profile shows compute nodes on the CPU: LSTM 'lstm'."


def test_no_latency_of_a_gpu_run_with_compute_on_the_cpu_is_published() -> None:
    other = make.point(batch=8)
    run = make.benchmark_run(
        (make.measured(ONE), make.measured(other)),
        plan=make.plan((ONE, other), device=GPU),
        profiles=(make.profile(ONE, (*ON_GPU, STRAY)),),
    )
    found = analyse(run)
    assert [each.state for each in found.points] == [PointState.EP_FALLBACK] * 2
    assert [(each.p50_ns.value, each.throughput_items_per_s.value) for each in found.points] == [(None, None)] * 2
    assert "LSTM" in (found.points[0].reason or "")
    assert found.profiles[0].nodes, "the profile itself is still shown"


def test_work_stays_with_its_node_and_the_unmatched_share_is_told() -> None:
    done = NodeWork(flops=10, read_bytes=4, written_bytes=4, basis="name")
    none = NodeWork(flops=None, read_bytes=None, written_bytes=None, basis=None, reason="unknown")
    got = profile_finding(make.profile(ONE, NODES), None, CPU, (none, done, done))
    assert [(each.node.name, each.work.flops) for each in got.nodes] == [("large", 10), ("small", None), ("none", 10)]
    assert got.matched_share == pytest.approx(5 / 7)
    assert profile_finding(make.profile(ONE, NODES), None, CPU).matched_share is None
