"""Choices from a sweep: what is claimed, and what is refused."""

from dataclasses import replace

import factories as make
from onnxdyno.analysis.choices import Choices, choose
from onnxdyno.domain.axes import Axis, Role
from onnxdyno.domain.findings import Estimate, PointFinding
from onnxdyno.domain.models import Signature
from onnxdyno.domain.outcomes import PointState
from onnxdyno.domain.plan import BenchmarkPlan, BenchmarkSpec, Point, Variant


def at(batch: int, side: int = 32) -> Point:
    return make.point(batch=batch, height=side, width=side)


def plan(target_ms: float | None = None, **changes: object) -> BenchmarkPlan:
    return make.plan((at(1),), spec=BenchmarkSpec(latency_target_ms=target_ms), **changes)


def answers(
    *points: PointFinding, target_ms: float | None = None, signature: Signature | None = None, **changes: object
) -> Choices:
    return choose(points, signature or make.image_signature(), plan(target_ms, **changes))


def with_throughput(point: PointFinding, value: float, low: float, high: float) -> PointFinding:
    return replace(point, throughput_items_per_s=Estimate(value=value, low=low, high=high))


def test_without_a_target_the_best_batch_has_the_highest_throughput() -> None:
    found = answers(
        make.point_finding(at(1), 1e6), make.point_finding(at(2), 1.5e6), make.point_finding(at(4), 4e6)
    ).best_batch
    assert (found.point, found.value) == (at(2), 2.0)


def test_the_whole_interval_must_be_within_the_target() -> None:
    points = (make.point_finding(at(1), 1e6), make.point_finding(at(2), 1.5e6))
    assert answers(*points, target_ms=1.52).best_batch.value == 2.0
    assert answers(*points, target_ms=1.51).best_batch.value == 1.0


def test_a_point_without_an_interval_is_not_shown_to_meet_a_target() -> None:
    bare = replace(make.point_finding(at(1)), p50_ns=Estimate(value=1e6, reason="one launch"))
    found = answers(bare, target_ms=100).best_batch
    assert found.point is None
    assert found.value is None
    assert "no interval" in found.reason


def test_of_two_batches_that_cannot_be_told_apart_the_smaller_is_chosen_and_said() -> None:
    found = answers(
        with_throughput(make.point_finding(at(8)), 1000, 980, 1020),
        with_throughput(make.point_finding(at(16)), 1010, 990, 1030),
        with_throughput(make.point_finding(at(1)), 500, 490, 510),
    ).best_batch
    assert found.value == 8.0
    assert "batch 16" in found.reason


def test_a_larger_batch_that_is_faster_beyond_its_interval_wins() -> None:
    found = answers(
        with_throughput(make.point_finding(at(8)), 1000, 995, 1005),
        with_throughput(make.point_finding(at(16)), 1100, 1095, 1105),
    ).best_batch
    assert found.value == 16.0


def test_points_of_another_resolution_or_variant_are_not_compared() -> None:
    other = make.point(Variant.E2E, batch=64, height=32, width=32)
    found = answers(
        make.point_finding(at(1), 1e6), make.point_finding(at(32, side=8), 1e6), make.point_finding(other, 1e6)
    ).best_batch
    assert found.value == 1.0


def test_a_batch_that_the_output_does_not_follow_is_never_the_best() -> None:
    flat = make.point_finding(at(64), 1e6, items=None)
    assert answers(make.point_finding(at(1), 1e6), flat).best_batch.value == 1.0


def test_a_skipped_point_is_never_chosen() -> None:
    found = answers(make.skipped_finding(at(1), PointState.OOM))
    assert found.best_batch.point is None
    assert "oom" in found.best_batch.reason
    assert found.largest_resolution.point is None


def test_a_fixed_batch_says_its_size() -> None:
    signature = make.image_signature(axes=(Axis(name="batch", role=Role.BATCH, size=4),))
    found = answers(make.point_finding(at(1)), signature=signature, batch_axes=())
    assert found.best_batch.point is None
    assert found.best_batch.reason == "fixed by the model at 4"
    assert found.largest_sequence.reason == "the model has no sequence axis"


def test_the_largest_resolution_under_the_target_names_what_came_next() -> None:
    points = (
        make.point_finding(at(1, 32), 1e6),
        make.point_finding(at(1, 64), 4e6),
        make.point_finding(at(1, 128), 16e6),
    )
    found = answers(*points, target_ms=5).largest_resolution
    assert (found.point, found.value) == (at(1, 64), 64.0 * 64.0)
    assert "128 × 128 px" in found.reason
    assert "16 ms" in found.reason


def test_without_a_target_the_largest_resolution_is_the_largest_that_ran_and_says_so() -> None:
    found = answers(
        make.point_finding(at(1, 32)),
        make.point_finding(at(1, 64)),
        make.skipped_finding(at(1, 128), PointState.TIMEOUT),
    ).largest_resolution
    assert found.point == at(1, 64)
    assert "no latency target" in found.reason
    assert "128 × 128 px, is timeout" in found.reason


def test_the_largest_sequence_is_found_on_a_text_model() -> None:
    sizes = (16, 128)
    points = tuple(make.point_finding(make.point(batch=1, sequence=size), size * 1e5) for size in sizes)
    planned = make.plan((points[0].point,))
    found = choose(points, make.text_signature(), planned)
    assert found.largest_sequence.value == 128.0
    assert found.largest_resolution.point is None


def test_a_large_throughput_is_told_without_an_exponent() -> None:
    found = answers(with_throughput(make.point_finding(at(1)), 35_812.3, 35_000, 36_000)).best_batch
    assert "35,812 items/s" in found.reason
