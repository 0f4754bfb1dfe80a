"""Calls in flight at once: every lane works, every slot is filled, an error ends it."""

import threading
from array import array
from itertools import count

import pytest

from onnxdyno.domain.outcomes import PointState
from onnxdyno.domain.plan import Protocol
from onnxdyno.measuring.concurrency import lanes
from onnxdyno.measuring.timing import Conditions, time_concurrently
from onnxdyno.ports import Sighting


class Meeting:
    """A call that returns only once so many of its kind are in flight."""

    def __init__(self, parties: int) -> None:
        self.barrier = threading.Barrier(parties)
        self.threads: set[int] = set()

    def __call__(self) -> None:
        self.threads.add(threading.get_ident())
        self.barrier.wait(timeout=30)


def test_so_many_calls_are_really_in_flight() -> None:
    meeting = Meeting(3)
    ticks = count(1)
    samples_ns = array("q", bytes(8 * 12))
    with lanes([[meeting]] * 3, clock=lambda: next(ticks)) as sample:
        sample(samples_ns, 0, 12)
    assert len(meeting.threads) == 3
    assert all(value > 0 for value in samples_ns)


def test_a_window_fills_its_own_slots_only() -> None:
    ticks = count(1)
    samples_ns = array("q", bytes(8 * 10))
    with lanes([[lambda: None], [lambda: None]], clock=lambda: next(ticks)) as sample:
        sample(samples_ns, 2, 5)
    assert [value > 0 for value in samples_ns] == [False, False, *[True] * 5, False, False, False]


def test_what_a_call_raises_reaches_who_asked_and_the_threads_end() -> None:
    def fail() -> None:
        raise RuntimeError("no")

    before = threading.active_count()
    with (
        pytest.raises(RuntimeError, match="no"),
        lanes([[fail], [fail]], clock=lambda: 0) as sample,
    ):
        sample(array("q", bytes(80)), 0, 10)
    assert threading.active_count() == before


def test_throughput_counts_the_calls_of_all_lanes() -> None:
    """A clock that only calls move: each of two lanes takes one unit a call, so one unit of wall time holds two."""
    lock = threading.Lock()
    now = [0]

    def call() -> None:
        with lock:
            now[0] += 500_000

    timed = time_concurrently(
        [[call], [call]],
        Conditions(
            clock=lambda: now[0],
            witness=lambda: Sighting(cpu_ns=now[0]),
            protocol=Protocol(),
            launches=1,
            threads=2,
            budget_ns=5_000_000_000,
        ),
    )
    assert timed.state in (PointState.OK, PointState.NOISY, PointState.NOT_STEADY, PointState.UNCONVERGED)
    assert timed.busy_ns == timed.runs * 500_000
