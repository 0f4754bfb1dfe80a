"""Clean runs are not called anything else: the small version of benchmarks/false_alarms.py."""

import numpy as np
import pytest

from onnxdyno.domain.outcomes import WORST_FIRST, PointState
from simulated import CLEAN, Machine, timed_launches

RUNS = 200
MOST = 0.02


def states(machine: Machine, runs: int, launches: int) -> list[PointState]:
    """The worst state of the launches of each run."""
    found = timed_launches(machine, np.random.default_rng(4), runs=runs, launches=launches)
    return [next(state for state in WORST_FIRST if state in {each.state for each in run}) for run in found]


@pytest.mark.parametrize("machine", CLEAN, ids=lambda machine: machine.name)
def test_at_most_two_clean_runs_in_a_hundred_are_not_ok(machine: Machine) -> None:
    ended = states(machine, RUNS, launches=3)
    assert sum(state is not PointState.OK for state in ended) <= MOST * RUNS


def test_nothing_of_a_clean_run_is_left_out() -> None:
    runs = timed_launches(CLEAN[0], np.random.default_rng(4), runs=20, launches=3)
    assert not any(each.excluded or each.flags for run in runs for each in run)
