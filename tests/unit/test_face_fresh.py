"""Fresh processes: what can be sent to one, what comes back, and what happens to one that fails."""

import functools
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onnxdyno.domain.errors import UsageError
from onnxdyno.domain.outcomes import PointState
from onnxdyno.face import fresh
from onnxdyno.face.benchmarking import Benchmark, benchmark

MODULE = r"""
import os
import time

noise = []

def square(number, *, power=2):
    print("chatter" * 100)
    return number ** power

def say_pid(path):
    with open(path, "a") as file:
        file.write(f"{os.getpid()}\n")

def fail(after):
    noise.append(1)
    if len(noise) > after:
        raise ValueError("no more \x1b[31m")

def die():
    print("last words", flush=True)
    os.abort()

def hang():
    time.sleep(3600)

def wait():
    pass

class Box:
    def method(self):
        pass
"""


@pytest.fixture
def sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of a person's own, on a path that only this process knows of."""
    (tmp_path / "sent_to_children.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "sent_to_children", raising=False)
    return importlib.import_module("sent_to_children")


def test_each_launch_is_a_process_of_its_own_and_together_they_have_an_interval(sent: Any, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    got = benchmark.using(launches=2, budget_s=0.4)(sent.say_pid, str(pids))
    seen = set(pids.read_text().split())
    assert len(seen) == 2
    assert str(os.getpid()) not in seen
    assert len(got.launches) == 2
    assert got.p50_ns.low is not None
    assert got.ram.value_bytes is not None


def test_arguments_arrive_and_what_the_target_prints_spoils_nothing(sent: Any) -> None:
    got = benchmark.using(launches=2, budget_s=0.2, sync=sent.wait)(sent.square, 3, power=3)
    assert got.state.is_measured, got.reason
    assert got.samples_ns


def test_an_exception_in_a_launch_keeps_its_samples_and_ends_the_launches(sent: Any) -> None:
    got = Benchmark(launches=3, budget_s=30)(sent.fail, 50)
    assert got.state is PointState.MODEL_ERROR
    assert "ValueError: no more \\x1b[31m" in (got.reason or "")
    assert len(got.launches) == 1
    assert 30 <= len(got.samples_ns) <= 48


def test_a_process_that_dies_is_crashed_with_its_last_words(sent: Any) -> None:
    got = Benchmark(launches=2)(sent.die)
    assert got.state is PointState.CRASHED
    assert "SIGABRT" in (got.reason or "")
    assert "last words" in (got.reason or "")


def test_a_process_that_hangs_is_ended(sent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh, "START_S", 0.5)
    assert Benchmark(launches=2, budget_s=0.1)(sent.hang).state is PointState.TIMEOUT


def targets(sent: Any) -> dict[str, Callable[..., Any]]:
    shadowed = sent.square
    sent.square = lambda number: number
    return {
        "no name": functools.partial(sent.square, 1),
        "cannot be imported": lambda: None,
        "another object": shadowed,
        "a method": sent.Box().method,
    }


@pytest.mark.parametrize("kind", ["no name", "cannot be imported", "another object", "a method"])
def test_what_another_process_cannot_import_is_refused_with_the_way_out(sent: Any, kind: str) -> None:
    with pytest.raises(UsageError, match=r"cannot be measured in fresh processes.*leave launches at 1"):
        fresh.import_path(targets(sent)[kind], "the target")


def test_a_function_of_the_running_program_is_refused(sent: Any) -> None:
    sent.square.__module__ = "__main__"
    with pytest.raises(UsageError, match="__main__"):
        benchmark.using(launches=2)(sent.square, 1)


@pytest.mark.parametrize("argument", [(1, 2), float("nan"), b"bytes", {1: "one"}, object(), {"deep": [(1,)]}])
def test_arguments_that_would_arrive_as_others_are_refused(sent: Any, argument: Any) -> None:
    with pytest.raises(UsageError, match="arguments cannot be sent"):
        benchmark.using(launches=2)(sent.square, argument)


def test_a_sync_that_cannot_be_imported_is_refused(sent: Any) -> None:
    with pytest.raises(UsageError, match="sync cannot be measured"):
        benchmark.using(launches=2, sync=lambda: None)(sent.square, 1)
