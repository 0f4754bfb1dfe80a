"""Which windows are left out, and for which cause, from what was seen before and after them."""

from collections.abc import Iterator
from itertools import count

import pytest

from onnxdyno.domain.outcomes import Cause, Flag, PointState
from onnxdyno.domain.plan import Protocol
from onnxdyno.measuring.causes import Seen, cause_of, kept_from_running
from onnxdyno.measuring.timing import Conditions, Timed, time_point
from onnxdyno.ports import Brakes, Sighting

MILLISECOND, SECOND = 1_000_000, 1_000_000_000
GHZ = 1e9


def seen(wall_ns: int = 100, before: Brakes | None = None, after: Brakes | None = None) -> Seen:
    """A window whose thread had its core all the time."""
    return Seen(
        wall_ns=wall_ns,
        before=Sighting(cpu_ns=0, brakes=before or Brakes()),
        after=Sighting(cpu_ns=wall_ns, brakes=after or Brakes()),
    )


@pytest.mark.parametrize(
    ("wall_ns", "cpu_ns", "switches", "threads", "lost"),
    [
        (100, 60, 3, 1, 0.4),
        (100, 60, 0, 1, 0.4),  # stopped, which is no involuntary switch
        (100, 101, 3, 1, 0.0),  # clocks of different grain
        (100_000_000, 150_000_000, 20, 2, 0.1),
        (100_000_000, 90_000_000, 1, 2, 0.1),
        (1_000_000, 2_000_000, 20, 2, 1.0),
        (0, 0, 5, 1, 0.0),
    ],
)
def test_what_others_had_of_a_window_where_only_switches_are_known(
    wall_ns: int, cpu_ns: int, switches: int, threads: int, lost: float
) -> None:
    after = Sighting(cpu_ns=cpu_ns, switches=switches)
    assert kept_from_running(Seen(wall_ns=wall_ns, before=Sighting(cpu_ns=0), after=after), threads) == pytest.approx(
        lost
    )


@pytest.mark.parametrize(
    ("cpu_ns", "waits_ns", "cores", "lost"),
    [
        (200, ((1, 10), (2, 20)), 2, 0.0),  # both cores were its own: nobody else had them
        (150, ((1, 50), (2, 20)), 2, 0.4),  # the one that was kept back is waited for
        (160, ((1, 40), (2, 40)), 2, 0.3),
        (200, ((1, 110), (2, 120), (3, 100), (4, 100)), 2, 0.0),  # four threads on two cores wait for one another
        (180, ((1, 110), (2, 120), (3, 100), (4, 100)), 2, 0.2),  # a fifth of one core was somebody else's
        (150, ((1, 10), (2, 20), (3, 5)), 2, 0.05),  # a thread that came later starts from nothing
        (150, ((1, 10),), 2, 0.0),  # one that ended takes nothing along
        (60, ((1, 10), (2, 20)), 2, 0.4),  # less than one core all the time: stopped
    ],
)
def test_of_several_threads_the_one_that_waited_longest_tells_what_was_lost(
    cpu_ns: int, waits_ns: tuple[tuple[int, int], ...], cores: int, lost: float
) -> None:
    window = Seen(
        wall_ns=100,
        before=Sighting(cpu_ns=0, waits_ns=((1, 10), (2, 20)), cores=cores),
        after=Sighting(cpu_ns=cpu_ns, waits_ns=waits_ns, cores=cores, switches=10**6),
    )
    assert kept_from_running(window, threads=2) == pytest.approx(lost)


@pytest.mark.parametrize(
    ("before", "after", "cause"),
    [
        (Brakes(throttles=3, throttled_ns=5), Brakes(throttles=3, throttled_ns=5), None),
        (Brakes(throttles=3, throttled_ns=5), Brakes(throttles=4, throttled_ns=5), Cause.CFS_THROTTLED),
        (Brakes(throttles=3, throttled_ns=5), Brakes(throttles=3, throttled_ns=9), Cause.CFS_THROTTLED),
        (Brakes(), Brakes(throttles=3, throttled_ns=9), None),
        (Brakes(heat_events=7), Brakes(heat_events=7), None),
        (Brakes(heat_events=7), Brakes(heat_events=8), Cause.CLOCK),
        (Brakes(), Brakes(clock_hz=3 * GHZ), None),
        (Brakes(), Brakes(clock_hz=2.3 * GHZ), None),
        (Brakes(), Brakes(clock_hz=2.2 * GHZ), Cause.CLOCK),
        (Brakes(), Brakes(clock_hz=3 * GHZ, expected_hz=4.1 * GHZ), Cause.CLOCK),
    ],
)
def test_a_quota_heat_or_a_low_clock_is_a_cause_though_no_time_was_lost(
    before: Brakes, after: Brakes, cause: Cause | None
) -> None:
    clocks_hz = [3 * GHZ, 3 * GHZ, *([after.clock_hz] if after.clock_hz else [])]
    assert cause_of(seen(before=before, after=after), 0.0, clocks_hz, Protocol()) is cause


def test_time_lost_to_a_quota_is_not_blamed_on_neighbours() -> None:
    window = seen(before=Brakes(throttles=0), after=Brakes(throttles=1))
    assert cause_of(window, 0.5, [], Protocol()) is Cause.CFS_THROTTLED
    assert cause_of(seen(), 0.5, [], Protocol()) is Cause.PREEMPTED


def timed_under(brakes: Iterator[Brakes]) -> Timed:
    """Calls of one millisecond, all on a core of their own; `brakes` are read before and after each window."""
    now_ns = 0

    def call() -> None:
        nonlocal now_ns
        now_ns += MILLISECOND

    return time_point(
        [call],
        Conditions(
            clock=lambda: now_ns,
            witness=lambda: Sighting(cpu_ns=now_ns, brakes=next(brakes)),
            protocol=Protocol(),
            launches=1,
            threads=1,
            budget_ns=8 * SECOND,
        ),
    )


def test_a_quota_that_holds_every_window_back_is_disturbed_and_names_the_quota() -> None:
    got = timed_under(Brakes(throttles=at, throttled_ns=0, quota_cores=0.5) for at in count())
    assert got.state is PointState.DISTURBED
    assert got.reason is not None
    assert "CPU quota of 0.5 cores" in got.reason
    assert got.flags == (Flag.CFS_THROTTLED,)
    assert got.excluded == ()  # nothing would be left: the state tells


def test_a_quota_that_held_one_window_back_costs_that_window_and_flags_the_point() -> None:
    got = timed_under(Brakes(throttles=int(at >= 3), throttled_ns=0) for at in count())
    ((first, end, cause),) = got.excluded
    assert cause == "cfs_throttled"
    assert 0 < end - first < len(got.samples_ns)
    assert got.state is PointState.OK
    assert got.flags == (Flag.CFS_THROTTLED,)


def test_a_clock_that_falls_while_samples_are_taken_costs_those_windows() -> None:
    got = timed_under(Brakes(clock_hz=2 * GHZ if at == 3 else 3 * GHZ) for at in count())
    ((_, _, cause),) = got.excluded
    assert cause == "clock"
    assert got.flags == ()
