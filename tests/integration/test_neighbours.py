"""The real witness beside real neighbours: a busy process on the same cores, and a CPU quota of the own cgroup."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from statistics import median
from time import perf_counter_ns

import pytest

from onnxdyno.adapters import host
from onnxdyno.adapters.witness import brakes_on, effort_of
from onnxdyno.domain.plan import Protocol
from onnxdyno.measuring.causes import Seen, kept_from_running

WINDOW_NS = 100_000_000
CORES = sorted(os.sched_getaffinity(0))


@contextmanager
def busy(core: int) -> Iterator[None]:
    """A process that does nothing but use this core."""
    code = f"import os\nos.sched_setaffinity(0, {{{core}}})\nprint(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as neighbour:
        try:
            assert neighbour.stdout is not None
            neighbour.stdout.readline()
            yield
        finally:
            neighbour.kill()


@contextmanager
def only_on(*cores: int) -> Iterator[None]:
    """This thread, and threads that it starts, on these cores alone."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _can_be_first() -> bool:
    try:
        with first_of_all():
            return True
    except PermissionError:
        return False


@contextmanager
def first_of_all() -> Iterator[None]:
    """Before every ordinary process of this machine: as if there were none, but for what the kernel keeps for them."""
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


CAN_BE_FIRST = pytest.mark.skipif(not _can_be_first(), reason="only root can be undisturbed for certain")
HAS_WAITS = pytest.mark.skipif(effort_of(2)().waits_ns is None, reason="this kernel keeps no schedstat")


def spin() -> None:
    """Compute for one window without holding the interpreter's lock for long: hashing releases it."""
    import hashlib

    block = bytes(1 << 20)
    began_ns = perf_counter_ns()
    while perf_counter_ns() - began_ns < WINDOW_NS:
        hashlib.sha256(block).digest()


def lost(threads: int) -> float:
    """Share of one window in which threads that compute all the time were kept from it."""
    witness = effort_of(threads)
    others = [threading.Thread(target=spin) for _ in range(threads - 1)]
    before, began_ns = witness(), perf_counter_ns()
    for each in others:
        each.start()
    spin()
    wall_ns, after = perf_counter_ns() - began_ns, witness()
    for each in others:
        each.join()
    return kept_from_running(Seen(wall_ns=wall_ns, before=before, after=after), threads)


def typical(threads: int) -> float:
    """Of five windows, since others use this machine too."""
    return median(lost(threads) for _ in range(5))


@CAN_BE_FIRST
def test_a_neighbour_on_the_core_of_the_calling_thread_has_its_share() -> None:
    with only_on(CORES[0]), busy(CORES[0]):
        assert typical(1) > 0.2
        with first_of_all():
            assert typical(1) < Protocol().preempted_share


@CAN_BE_FIRST
@HAS_WAITS
@pytest.mark.skipif(len(CORES) < 2, reason="two threads need two cores")
def test_a_neighbour_on_each_core_keeps_threads_back_and_threads_alone_do_not() -> None:
    with only_on(*CORES[:2]), ExitStack() as neighbours:
        for core in CORES[:2]:
            neighbours.enter_context(busy(core))
        assert typical(2) > 0.2
        with first_of_all():
            assert typical(2) < Protocol().preempted_share


@CAN_BE_FIRST
@HAS_WAITS
def test_threads_that_wait_for_one_another_are_not_neighbours() -> None:
    with only_on(CORES[0]), first_of_all():
        assert typical(3) < Protocol().preempted_share


def test_a_reading_costs_less_than_a_hundredth_of_a_window_of_the_protocol() -> None:
    """0.25 s; a loose bound that holds on a busy machine too."""
    read = effort_of(2, brakes_on(CORES, host.cpu_cgroups(), host.cgroup_quota_cores()))
    costs_ns = []
    for _ in range(50):
        began_ns = perf_counter_ns()
        read()
        costs_ns.append(perf_counter_ns() - began_ns)
    assert min(costs_ns) < 2_500_000
