"""How time is shared out."""

from hypothesis import given
from hypothesis import strategies as st

from factories import point
from onnxdyno.domain.plan import Point
from onnxdyno.launching import budget

SECOND = 1_000_000_000
SMALL, MIDDLE, LARGE = point(batch=1), point(batch=8), point(batch=64)


def test_work_is_the_product_of_sizes_and_an_empty_axis_is_one() -> None:
    assert budget.work(point(batch=2, height=3, width=5)) == 30
    assert budget.work(point(past=0, batch=4)) == 4
    assert budget.work(point()) == 1


def test_a_point_that_was_seen_is_predicted_as_seen() -> None:
    assert budget.predict_ns(MIDDLE, {SMALL: 10, MIDDLE: 17}) == 17


def test_a_point_is_predicted_from_the_largest_smaller_one() -> None:
    assert budget.predict_ns(LARGE, {SMALL: 10, MIDDLE: 40}) == 40 * 8


def test_a_point_smaller_than_all_seen_is_predicted_from_the_smallest() -> None:
    assert budget.predict_ns(SMALL, {MIDDLE: 80, LARGE: 900}) == 10


def test_with_nothing_seen_nothing_is_predicted() -> None:
    assert budget.predict_ns(SMALL, {}) is None


def test_the_least_of_a_point_counts_its_launches_and_its_memory_process() -> None:
    assert budget.least_ns(10, 3, is_memory_left=False) == 10 * 3 * budget.LEAST_CALLS
    assert budget.least_ns(10, 3, is_memory_left=True) == 10 * (3 * budget.LEAST_CALLS + budget.MEMORY_CALLS)


def test_points_that_do_not_fit_are_the_dearest() -> None:
    calls_ns = {SMALL: SECOND, MIDDLE: 2 * SECOND, LARGE: 20 * SECOND}
    assert budget.affordable((SMALL, LARGE, MIDDLE), calls_ns, 3, 90 * SECOND) == {SMALL, MIDDLE}


def test_the_first_point_is_kept_however_little_time_there_is() -> None:
    assert budget.affordable((LARGE, SMALL), {SMALL: SECOND, LARGE: 2 * SECOND}, 3, 0) == {LARGE}


def test_quick_points_get_what_they_can_use_and_no_more() -> None:
    shares = budget.share_out((SMALL, MIDDLE), {SMALL: 1000, MIDDLE: 8000}, 1000 * SECOND, LARGE)
    assert shares == {SMALL: budget.WANTED_NS + 60 * 1000, MIDDLE: budget.WANTED_NS + 60 * 8000}


def test_a_launch_in_which_no_point_comes_first_serves_all_alike() -> None:
    calls_ns = {SMALL: 1000, MIDDLE: 1000, LARGE: 1000}
    shares = budget.share_out((SMALL, MIDDLE, LARGE), calls_ns, 3 * SECOND, None)
    assert set(shares.values()) == {SECOND}


def test_what_quick_points_leave_goes_to_the_slow() -> None:
    shares = budget.share_out((LARGE, SMALL), {SMALL: 0, LARGE: SECOND}, 20 * SECOND, MIDDLE)
    assert shares == {SMALL: 8 * SECOND, LARGE: 12 * SECOND}


def test_no_points_share_nothing() -> None:
    assert budget.share_out((), {}, 20 * SECOND, SMALL) == {}


@given(
    calls_ns=st.lists(st.integers(1, 10 * SECOND), min_size=1, max_size=12),
    left_ns=st.integers(-SECOND, 100 * SECOND),
)
def test_each_point_gets_its_least_and_the_sum_keeps_to_the_time_left(calls_ns: list[int], left_ns: int) -> None:
    points: tuple[Point, ...] = tuple(point(batch=at + 1) for at in range(len(calls_ns)))
    known = dict(zip(points, calls_ns, strict=True))
    shares = budget.share_out(points, known, left_ns, points[0])
    least = {each: budget.LEAST_CALLS * known[each] for each in points}
    assert all(shares[each] >= least[each] for each in points)
    assert sum(shares.values()) <= max(left_ns, sum(least.values()))


def test_the_first_point_is_served_before_the_others_and_never_all_there_is() -> None:
    calls_ns = {SMALL: SECOND // 100, MIDDLE: SECOND // 50, LARGE: SECOND // 25}
    short = budget.share_out((SMALL, MIDDLE, LARGE), calls_ns, 6 * SECOND, SMALL)
    assert short[SMALL] > short[MIDDLE] > SECOND
    assert short[SMALL] < 4 * SECOND
    assert sum(short.values()) <= 6 * SECOND
