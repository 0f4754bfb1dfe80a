"""Profiles beside the latency of their point."""

import pytest

import factories as make
from onnxdyno.analysis.nodes import profile_finding
from onnxdyno.domain.findings import PointFinding

ONE = make.point(batch=1)
NODES = (make.node("small", 200_000), make.node("large", 500_000, index=1), make.node("none", 0, index=2))


def test_nodes_are_slowest_first_with_shares_that_add_up_to_one() -> None:
    got = profile_finding(make.profile(ONE, NODES), make.point_finding(ONE, p50_ns=1_000_000))
    assert [each.node.name for each in got.nodes] == ["large", "small", "none"]
    assert [each.share for each in got.nodes] == pytest.approx([5 / 7, 2 / 7, 0])


def test_coverage_and_overhead_are_against_the_unprofiled_median() -> None:
    got = profile_finding(make.profile(ONE, NODES, model_run_ns=1_300_000), make.point_finding(ONE, p50_ns=1_000_000))
    assert got.coverage == pytest.approx(0.7)
    assert got.overhead == pytest.approx(0.3)
    assert got.reason is None


@pytest.mark.parametrize("point", [None, make.skipped_finding(ONE)])
def test_without_a_median_coverage_is_null_with_a_reason(point: PointFinding | None) -> None:
    got = profile_finding(make.profile(ONE, NODES), point)
    assert (got.coverage, got.overhead) == (None, None)
    assert got.reason == "the point has no unprofiled median"
    assert got.nodes[0].share == pytest.approx(5 / 7)


def test_an_incomplete_profile_says_why_and_stays_incomplete() -> None:
    cut = make.profile(ONE, NODES, is_complete=False, reason="the profile was cut; 2 whole runs of it are used.")
    got = profile_finding(cut, make.point_finding(ONE))
    assert not got.is_complete
    assert got.reason == "the profile was cut; 2 whole runs of it are used."


def test_a_profile_without_nodes_divides_nothing_by_nothing() -> None:
    empty = make.profile(ONE, (make.node("a", 0),), model_run_ns=None)
    got = profile_finding(empty, make.point_finding(ONE))
    assert got.nodes[0].share == 0
    assert got.overhead is None
