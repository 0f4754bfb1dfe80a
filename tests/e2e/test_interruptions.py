"""A run that is interrupted leaves nothing half-written, and the next one goes on where it stopped."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from commands import CASES, Ran
from onnxdyno.adapters import host

MODEL = CASES / "nhwc_dynamic.onnx"
ARGUMENTS = (
    "bench",
    str(MODEL),
    "--out",
    "file:results",
    "--budget",
    "20",
    "--precision",
    "1",
    "--batch",
    "1,2,4,8,16",
)


def pieces(folder: Path) -> dict[str, int]:
    """Name of each kept piece -> when it was written."""
    found = (path for path in (folder / "results" / "progress").glob("*/*.json"))
    return {path.name: path.stat().st_mtime_ns for path in found}


@contextmanager
def bench_in_mid_sweep(folder: Path, environment: Mapping[str, str], kept: int) -> Iterator["subprocess.Popen[bytes]"]:
    """A bench that has kept at least `kept` timed points; its measuring process is at work."""
    command = [sys.executable, "-m", "onnxdyno.cli", *ARGUMENTS]
    with (
        (folder / "err").open("wb") as err,
        subprocess.Popen(command, cwd=folder, env=environment, stderr=err) as bench,
    ):
        try:
            deadline_s = time.monotonic() + 60
            while sum(name.startswith("timing") for name in pieces(folder)) < kept:
                assert bench.poll() is None, (folder / "err").read_text()
                assert time.monotonic() < deadline_s
                select_a_moment()
            yield bench
        finally:
            bench.kill()


def select_a_moment() -> None:
    """Give the other process the core for a moment."""
    os.sched_yield()
    time.sleep(0.01)


def assert_gone(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=10)
    assert alive == []


def test_a_search_for_the_least_memory_that_is_interrupted_leaves_no_process_and_no_cgroup(
    tmp_path: Path, environment: Mapping[str, str]
) -> None:
    own = host.memory_cgroup()
    before = set(own.glob("onnxdyno-*")) if own else set()
    asked = ("--batch", "1", "--resolution", "64x64", "--launches", "1", "--budget", "3", "--true-minimum")
    command = [sys.executable, "-m", "onnxdyno.cli", "bench", str(MODEL), *asked]
    err = tmp_path / "err"
    with err.open("wb") as sink, subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=sink) as bench:
        try:
            deadline_s = time.monotonic() + 90
            while "true minimum" not in err.read_text():
                assert bench.poll() is None, err.read_text()
                assert time.monotonic() < deadline_s
                select_a_moment()
            children = psutil.Process(bench.pid).children(recursive=True)
            bench.send_signal(signal.SIGINT)
            assert bench.wait(30) == 130
        finally:
            bench.kill()
    assert_gone(children)
    assert "Traceback" not in err.read_text()
    assert not own or {each for each in own.glob("onnxdyno-*") if str(bench.pid) in each.name} - before == set()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_the_next_bench_finishes_what_another_began(
    onnxdyno: Callable[..., Ran], tmp_path: Path, environment: Mapping[str, str], number: signal.Signals
) -> None:
    with bench_in_mid_sweep(tmp_path, environment, kept=3) as bench:
        children = psutil.Process(bench.pid).children(recursive=True)
        assert children
        bench.send_signal(number)
        code = bench.wait(30)
    assert code == (-signal.SIGKILL if number is signal.SIGKILL else 130)
    assert_gone(children)
    assert "Traceback" not in (tmp_path / "err").read_text()
    kept = pieces(tmp_path)
    half = onnxdyno("query", "SELECT count(*) n FROM points", "--results", "file:results", "--json")
    assert half.document["rows"] == [{"n": 0}]
    assert not list((tmp_path / "results").rglob("*unfinished*"))
    assert len(list((tmp_path / "tmp").iterdir())) == (1 if number is signal.SIGKILL else 0)

    done = onnxdyno(*ARGUMENTS)
    assert done.code == 0
    assert list((tmp_path / "tmp").iterdir()) == []
    runs = onnxdyno("query", "SELECT count(DISTINCT run_id) n FROM points", "--results", "file:results", "--json")
    assert runs.document["rows"] == [{"n": 1}]
    twice = onnxdyno(
        "query",
        "SELECT count(*) n FROM (SELECT axes, launch, phase, ordinal FROM samples GROUP BY ALL HAVING count(*) > 1)",
        "--results",
        "file:results",
        "--json",
    )
    assert twice.document["rows"] == [{"n": 0}]
    assert kept
    assert pieces(tmp_path) == {}  # a committed run needs none


def test_a_kept_piece_is_not_measured_again(
    onnxdyno: Callable[..., Ran], tmp_path: Path, environment: Mapping[str, str]
) -> None:
    with bench_in_mid_sweep(tmp_path, environment, kept=4) as bench:
        bench.kill()
        bench.wait(30)
    before = pieces(tmp_path)
    with bench_in_mid_sweep(tmp_path, environment, kept=sum(name.startswith("timing") for name in before) + 1) as bench:
        bench.kill()
        bench.wait(30)
    after = pieces(tmp_path)
    assert before.items() <= after.items()
    assert len(after) > len(before)
    assert onnxdyno(*ARGUMENTS).code == 0
