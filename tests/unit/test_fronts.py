"""The front of operating points and its knee."""

from dataclasses import replace

import factories as make
from onnxdyno.analysis.fronts import front, knee, operating_points
from onnxdyno.domain.findings import Choice, PointFinding


def at(batch: int, p50_ms: float, rate: float, half_width: float = 0.01) -> PointFinding:
    finding = make.point_finding(make.point(batch=batch), p50_ms * 1e6)
    return replace(
        finding,
        items=batch,
        p50_ns=make.estimate(p50_ms * 1e6, half_width),
        throughput_items_per_s=make.estimate(rate, half_width),
    )


def drawn(*points: PointFinding) -> tuple[list[int], Choice]:
    planned = make.plan(tuple(each.point for each in points))
    operating = operating_points(points, planned)
    on_front = front(operating)
    batches = [dict(point.sizes)["batch"] for point in on_front]
    return batches, knee(operating, on_front)


def test_a_point_that_another_beats_in_both_is_not_on_the_front() -> None:
    assert drawn(at(1, 1, 1000), at(2, 2, 1500), at(4, 4, 900))[0] == [1, 2]


def test_a_point_whose_interval_touches_that_of_a_better_one_stays() -> None:
    assert drawn(at(1, 1, 1000, 0.1), at(2, 1.05, 990, 0.1))[0] == [1, 2]


def test_the_knee_is_where_throughput_stops_growing_much() -> None:
    _, found = drawn(at(1, 1, 100), at(2, 1.2, 180), at(4, 4, 200), at(8, 8, 210))
    assert found.value == 2.0


def test_two_points_have_no_knee_and_say_why() -> None:
    _, found = drawn(at(1, 1, 100), at(2, 2, 180))
    assert found.point is None
    assert "3 points" in found.reason
