"""The fault suite: real processes, one fault each, and never a latency that passes for good.

| fault | right end | proved by |
|---|---|---|
| CUDA asked where there is none | exit 5, one line, no number | here; tests/integration/test_measuring_process.py |
| provider partly on the CPU | `ep_fallback`, no latency | tests/unit/test_execution.py (ORT's CPU build cannot do it) |
| second tenant on the GPU | `foreign_tenant`, no number | test_gpu_standin.py; integration: test_gpu_*.py |
| SM clock that never rests | `not_steady`, both clocks named | tests/unit/test_device_clock.py |
| GPU throttled | `throttled`, no latency | tests/integration/test_gpu_sampler.py; tests/unit/test_telemetry.py |
| CPU quota of the cgroup | `disturbed`, flag `cfs_throttled`, quota named | here; recorded: unit/test_witness.py |
| CPU clock far down, heat | samples left out (`clock`) | tests/unit/test_causes.py, test_witness.py |
| a busy process on every core | `disturbed` | here; per thread: tests/integration/test_neighbours.py |
| out of memory | `oom`, others go on | here; tests/integration/test_measuring_process.py |
| a call that never ends | `timeout` | here; tests/integration/test_measuring_process.py |
| SIGSEGV, abort in the measuring process | `crashed`, what was measured before stays | here, and as for memory |
| SIGSTOP for 2 s | the window is left out, nothing else | here; tests/unit/test_timing.py |
| wall clock set back | nothing changes | here; tests/unit/test_wall_clock.py |
| NaN outputs | flag `non_finite` and a warning | here; tests/integration/test_measuring_process.py |
| profile cut | `incomplete`, whole runs only | tests/unit/test_profiling.py (O42, O52) |

`pytest -s` prints what each fault ended in.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from commands import CASES, Ran
from quotas import NoQuota, limit, quota_group

GOOD = frozenset({"ok", "noisy"})
NUMBERS = frozenset({"ok", "noisy", "not_steady", "unconverged", "disturbed"})
STOP_S = 2.0
SPEC = "memory: false\nprofile: false\n"
SMALL = ("--resolution", "32x32", "--launches", "1", "--json")


@dataclass
class Log:
    """What each fault ended in, for people."""

    rows: list[tuple[str, str]] = field(default_factory=list)

    def points(self, fault: str, document: dict[str, Any]) -> list[dict[str, Any]]:
        """The points of a bench's document, noted; a point without a number has nothing that looks like one."""
        points: list[dict[str, Any]] = document["points"]
        for point in points:
            has_number = point["state"] in NUMBERS
            assert (point["p50_ms"] is not None) == has_number
            assert has_number or (point["reason"] and point["n"] == 0)
        ends = sorted({" ".join([point["state"], *point["flags"]]) for point in points})
        self.rows.append((fault, " · ".join(ends)))
        return points


@pytest.fixture(scope="module")
def log() -> Iterator[Log]:
    """Printed when the module is through (visible with -s)."""
    kept = Log()
    yield kept
    width = max((len(fault) for fault, _ in kept.rows), default=0)
    sys.stdout.write("\n" + "".join(f"{fault:<{width}}  {end}\n" for fault, end in kept.rows))


@pytest.fixture
def quick(tmp_path: Path) -> tuple[str, str]:
    """Timing only."""
    (tmp_path / "quick.yaml").write_text(SPEC)
    return "--spec", str(tmp_path / "quick.yaml")


@contextmanager
def busy_on_every_core() -> Iterator[None]:
    """A process for each core that may be used, which does nothing but use it."""
    code = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nprint(flush=True)\nwhile True: pass"
    neighbours = [
        subprocess.Popen([sys.executable, "-c", code, str(core)], stdout=subprocess.PIPE)
        for core in os.sched_getaffinity(0)
    ]
    try:
        for each in neighbours:
            assert each.stdout is not None
            each.stdout.readline()
        yield
    finally:
        for each in neighbours:
            each.kill()
            each.communicate()


def test_cuda_where_there_is_none_is_one_line_and_no_number(onnxdyno: Callable[..., Ran], log: Log) -> None:
    """A UUID that is nobody's, so that this holds on a machine with GPUs too."""
    ran = onnxdyno(
        "bench", CASES / "nhwc_dynamic.onnx", "--device", "GPU-00000000-0000-4000-8000-000000000000", "--budget", "4"
    )
    assert ran.code == 5
    assert ran.out == ""
    assert len(ran.err.strip().splitlines()) == 1
    log.rows.append(("CUDA where there is none", f"exit {ran.code}"))


def test_a_busy_process_on_every_core_is_disturbed(
    onnxdyno: Callable[..., Ran], quick: tuple[str, str], log: Log
) -> None:
    """No narrow interval beside neighbours: they have about half of every window."""
    with busy_on_every_core():
        ran = onnxdyno("bench", CASES / "nhwc_dynamic.onnx", *quick, *SMALL, "--batch", "1,4", "--budget", "4")
    points = log.points("busy process on every core", ran.document)
    assert {point["state"] for point in points} == {"disturbed"}


def test_a_size_beyond_memory_is_oom(onnxdyno: Callable[..., Ran], quick: tuple[str, str], log: Log) -> None:
    """Half a tebibyte. That other sizes go on is shown in tests/integration/test_measuring_process.py."""
    ran = onnxdyno(
        "bench", CASES / "batch_oom_64MiB_per_item.onnx", *quick, *SMALL[2:], "--batch", "8192", "--budget", "4"
    )
    points = log.points("out of memory", ran.document)
    assert (ran.code, {point["state"] for point in points}) == (6, {"oom"})


def test_a_call_that_never_ends_is_a_timeout(onnxdyno: Callable[..., Ran], tmp_path: Path, log: Log) -> None:
    (tmp_path / "endless.yaml").write_text(f"inputs:\n  n_steps: {{value: {2**40}}}\n{SPEC}")
    ran = onnxdyno(
        *("bench", CASES / "loop_tripcount_input.onnx", "--spec", tmp_path / "endless.yaml"),
        *(*SMALL[2:], "--batch", "1", "--budget", "1"),
    )
    (point,) = log.points("a call that never ends", ran.document)
    assert (ran.code, point["state"]) == (6, "timeout")


def test_outputs_that_are_not_numbers_are_flagged(
    onnxdyno: Callable[..., Ran], quick: tuple[str, str], log: Log
) -> None:
    ran = onnxdyno("bench", CASES / "nan_inf_outputs.onnx", *quick, *SMALL[2:], "--batch", "1,2", "--budget", "2")
    points = log.points("NaN outputs", ran.document)
    assert all("non_finite" in point["flags"] for point in points if point["state"] in NUMBERS)
    assert any("not usable" in warning for warning in ran.document["findings"]["warnings"])


SWEEP = ("--batch", "1,2,4,8", "--budget", "6")


def pieces(folder: Path) -> int:
    """How many timed points a bench has finished."""
    return len(list((folder / "results" / "progress").glob("*/timing*.json")))


@contextmanager
def bench_after_its_first_point(
    folder: Path, environment: Mapping[str, str], quick: tuple[str, str], *before: str
) -> Iterator["subprocess.Popen[str]"]:
    """A bench whose measuring process has finished one timed point and is at work on the next ones.

    `before`: a command that ends in the bench.
    """
    command = [
        *before,
        sys.executable,
        "-m",
        "onnxdyno.cli",
        "bench",
        str(CASES / "nhwc_dynamic.onnx"),
        *quick,
        *SMALL,
        *SWEEP,
    ]
    with (
        (folder / "err").open("wb") as err,
        subprocess.Popen(
            [*command, "--out", "file:results"],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
        ) as bench,
    ):
        try:
            deadline_s = time.monotonic() + 60
            while not pieces(folder):
                assert bench.poll() is None, (folder / "err").read_text()
                assert time.monotonic() < deadline_s
                time.sleep(0.005)
            yield bench
        finally:
            bench.kill()


def document_of(bench: "subprocess.Popen[str]") -> dict[str, Any]:
    """What a bench printed, once it has ended."""
    out, _ = bench.communicate(timeout=120)
    found: dict[str, Any] = json.loads(out)
    return found


def test_a_cpu_quota_is_disturbed_and_named(
    tmp_path: Path, environment: Mapping[str, str], quick: tuple[str, str], log: Log
) -> None:
    """Set while it measures: what came before stays as it was, and one point may be in between."""
    try:
        with quota_group() as group:
            join = ("/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs"))
            with bench_after_its_first_point(tmp_path, environment, quick, *join) as bench:
                limit(group, cores=0.2)
                finished = pieces(tmp_path) + 1
                document = document_of(bench)
    except NoQuota as error:
        pytest.skip(f"no CPU quota can be set here: {error}")
    points = log.points("CPU quota of the cgroup", document)
    held_back = [point for point in points if "cfs_throttled" in point["flags"]]
    assert len(points) - len(held_back) <= finished
    assert held_back
    assert sum(point["state"] in GOOD for point in held_back) <= 1
    assert any("CPU quota" in (point["reason"] or "") for point in held_back)


def workers_of(bench: "subprocess.Popen[str]") -> list[psutil.Process]:
    """Its measuring process, while it has one."""
    try:
        return psutil.Process(bench.pid).children()
    except psutil.NoSuchProcess:
        return []


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_a_process_that_keeps_dying_costs_the_points_it_had_left(
    tmp_path: Path, environment: Mapping[str, str], quick: tuple[str, str], log: Log, number: signal.Signals
) -> None:
    killed: set[int] = set()
    with bench_after_its_first_point(tmp_path, environment, quick) as bench:
        while bench.poll() is None and len(killed) < 100:
            for worker in workers_of(bench):
                if worker.pid not in killed:
                    killed.add(worker.pid)
                    os.kill(worker.pid, number)
            if killed and (tmp_path / "err").read_text().rstrip().endswith("measured"):
                break
            time.sleep(0.002)
        document = document_of(bench)
    points = log.points(number.name, document)
    crashed = [point for point in points if point["state"] == "crashed"]
    assert crashed
    assert all(number.name in point["reason"] for point in crashed)
    assert {point["state"] for point in points} - {"crashed"} <= NUMBERS
    assert len(crashed) < len(points), "what was measured before stays"


def test_a_stop_of_two_seconds_is_in_no_number(
    onnxdyno: Callable[..., Ran],
    tmp_path: Path,
    environment: Mapping[str, str],
    quick: tuple[str, str],
    log: Log,
) -> None:
    with bench_after_its_first_point(tmp_path, environment, quick) as bench:
        (worker,) = workers_of(bench)
        worker.suspend()
        with pytest.raises(subprocess.TimeoutExpired):
            bench.wait(STOP_S)
        worker.resume()
        document = document_of(bench)
    points = log.points("SIGSTOP for 2 s", document)
    assert {point["state"] for point in points} <= NUMBERS
    asked = onnxdyno(
        "query",
        "SELECT DISTINCT batch FROM samples WHERE phase = 'steady' AND excluded_cause IS NULL "
        "AND duration_ns >= 2000000000",
        *("--results", "file:results", "--json"),
    )
    counted = {row["batch"] for row in asked.document["rows"]}
    told = {point["axes"]["batch"] for point in points if point["state"] == "disturbed"}
    assert counted <= told, "where neighbours spoil every window there is nothing else to count, and the state says so"


BACKWARDS = r"""
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long back;
int clock_gettime(clockid_t id, struct timespec *at) {
    int failed = (int)syscall(SYS_clock_gettime, id, at);
    if (!failed && id == CLOCK_REALTIME) at->tv_sec -= 60 * ++back;
    return failed;
}
int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec; at->tv_usec = now.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""
"""Every look at the wall clock finds it a minute further back."""

MEASURED_BACKWARDS = """
import time
first, second = time.time(), time.time()
assert second < first, "the wall clock does not run backwards here"
from onnxdyno import benchmark
result = benchmark.using(budget_s=1)(sum, range(10_000))
assert result.samples_ns and min(result.samples_ns) > 0
assert sum(result.samples_ns) < 2e9
"""


@pytest.fixture
def wall_clock_set_back(tmp_path: Path, environment: Mapping[str, str]) -> Mapping[str, str]:
    """An environment in which the wall clock is set back all the time."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "back.c").write_text(BACKWARDS)
    library = tmp_path / "back.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "back.c"], check=True, timeout=60)
    return {**environment, "LD_PRELOAD": str(library)}


def test_a_wall_clock_that_is_set_back_changes_nothing(
    tmp_path: Path, wall_clock_set_back: Mapping[str, str], quick: tuple[str, str], log: Log
) -> None:
    def run(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=wall_clock_set_back,
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout

    run("-c", MEASURED_BACKWARDS)
    bench = ("-m", "onnxdyno.cli", "bench", str(CASES / "nhwc_dynamic.onnx"), *quick, *SMALL)
    out = run(*bench, "--batch", "1", "--budget", "3", "--out", "file:results")
    points = log.points("wall clock set back", json.loads(out))
    assert {point["state"] for point in points} <= NUMBERS
    for point in points:
        assert point["p50_ms"] > 0
