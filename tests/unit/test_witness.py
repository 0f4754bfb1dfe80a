"""What the kernel counts of timed work, read from recorded trees of /proc, /sys and both cgroup versions."""

import os
import threading
from pathlib import Path

import pytest

from onnxdyno.adapters import host
from onnxdyno.adapters.witness import attendance, brakes_on, effort_of, presence
from onnxdyno.domain.outcomes import Flag, PointState
from onnxdyno.domain.plan import Protocol
from onnxdyno.measuring.timing import Conditions, time_point
from onnxdyno.ports import Brakes, Sighting

V2 = "usage_usec 900\nuser_usec 800\nsystem_usec 100\nnr_periods 9\nnr_throttled {times}\nthrottled_usec {spent}\n"
V1 = "nr_periods 9\nnr_throttled {times}\nthrottled_time {spent}\n"


def write(path: Path, text: str) -> Path:
    """A small file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_throttling_of_the_own_group_and_those_above_it_is_counted_in_v2(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "0::/pod/own\n")
    root = tmp_path / "cgroup"
    write(root / "cpu.stat", "usage_usec 900\n")
    write(root / "pod/cpu.stat", V2.format(times=2, spent=30))
    own = write(root / "pod/own/cpu.stat", V2.format(times=1, spent=5))
    read = brakes_on((), host.cpu_cgroups(root, tmp_path / "proc"), 1.5)
    assert read() == Brakes(throttles=3, throttled_ns=35_000, quota_cores=1.5)
    own.write_text(V2.format(times=4, spent=6))
    assert read() == Brakes(throttles=6, throttled_ns=36_000, quota_cores=1.5)


def test_throttling_is_counted_once_in_v1_though_a_mount_has_two_names(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "4:memory:/a\n3:cpu,cpuacct:/a\n")
    root = tmp_path / "cgroup"
    write(root / "cpu,cpuacct/a/cpu.stat", V1.format(times=2, spent=30))
    (root / "cpu").symlink_to("cpu,cpuacct")
    assert brakes_on((), host.cpu_cgroups(root, tmp_path / "proc"))() == Brakes(throttles=2, throttled_ns=30)


def test_a_group_that_goes_away_is_no_error(tmp_path: Path) -> None:
    stat = write(tmp_path / "cpu.stat", V2.format(times=2, spent=30))
    read = brakes_on((), (tmp_path,))
    stat.unlink()
    assert read() == Brakes()


def on_core(proc: Path, core: int) -> None:
    """The calling thread's stat, of a thread whose name holds brackets."""
    write(proc / "thread-self/stat", f"7 (a) b) R {' '.join(map(str, range(4, 39)))} {core} 0 0\n")


def test_the_clock_is_that_of_the_core_that_computes(tmp_path: Path) -> None:
    system, proc = tmp_path / "cpu", tmp_path / "proc"
    for core, khz in ((0, 800_000), (3, 2_400_000)):
        write(system / f"cpu{core}/cpufreq/scaling_cur_freq", f"{khz}\n")
    on_core(proc, 3)
    read = brakes_on((0, 3), (), system=system, proc=proc)
    assert read() == Brakes(clock_hz=2.4e9)
    on_core(proc, 0)
    assert read() == Brakes(clock_hz=8e8)
    on_core(proc, 5)
    assert read() == Brakes()


@pytest.mark.parametrize(("cap_khz", "expected_hz"), [(None, 2.1e9), (3_500_000, 2.1e9), (1_200_000, 1.2e9)])
def test_a_core_should_hold_its_base_clock_or_what_somebody_capped_it_at(
    tmp_path: Path, cap_khz: int | None, expected_hz: float
) -> None:
    write(tmp_path / "cpu/cpu0/cpufreq/base_frequency", "2100000\n")
    if cap_khz is not None:
        write(tmp_path / "cpu/cpu0/cpufreq/scaling_max_freq", f"{cap_khz}\n")
    on_core(tmp_path / "proc", 0)
    assert brakes_on((0,), (), system=tmp_path / "cpu", proc=tmp_path / "proc")().expected_hz == expected_hz


def test_heat_is_counted_over_the_cores_of_the_device(tmp_path: Path) -> None:
    for core, events in ((0, 2), (1, 3), (2, 100)):
        write(tmp_path / f"cpu{core}/thermal_throttle/core_throttle_count", f"{events}\n")
    assert brakes_on((0, 1), (), system=tmp_path, proc=tmp_path)() == Brakes(heat_events=5)


def test_a_machine_that_says_nothing_gives_nothing(tmp_path: Path) -> None:
    assert brakes_on((0, 1), (tmp_path,), system=tmp_path, proc=tmp_path)() == Brakes()


def test_waits_of_every_thread_are_read_and_a_thread_that_ends_is_left_out(tmp_path: Path) -> None:
    write(tmp_path / "thread-self/schedstat", "500 0 1\n")
    write(tmp_path / "self/task/11/schedstat", "500 70 1\n")
    write(tmp_path / "self/task/12/schedstat", "500 90 1\n")
    (tmp_path / "self/task/13").mkdir()
    seen = effort_of(2, proc=tmp_path)()
    assert sorted(seen.waits_ns or ()) == [(11, 70), (12, 90)]
    assert seen.cores == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("content", [None, "0 0 0\n", "what\n"])
def test_without_the_kernels_figures_waits_are_unknown(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        write(tmp_path / "thread-self/schedstat", content)
    assert effort_of(2, proc=tmp_path)().waits_ns is None


def test_here_a_witness_names_its_own_threads() -> None:
    before = effort_of(2)()
    if before.waits_ns is None:
        pytest.skip("this kernel keeps no schedstat")
    assert threading.get_native_id() in dict(before.waits_ns)
    assert effort_of(2)().cpu_ns >= before.cpu_ns


def test_time_without_a_core_is_lost_and_other_waiting_is_not(tmp_path: Path) -> None:
    schedstat = write(tmp_path / "thread-self/schedstat", "500 0 1\n")
    now = [1_000]
    witness = presence(lambda: now[0], proc=tmp_path)
    before = witness().cpu_ns
    now[0] += 100_000
    slept = witness().cpu_ns
    assert slept - before == 100_000
    now[0] += 100_000
    schedstat.write_text("900 70000 2\n")
    assert witness().cpu_ns - slept == 30_000


@pytest.mark.parametrize("content", [None, "0 0 0\n", "what\n"])
def test_where_the_kernel_keeps_no_such_figure_switches_are_counted(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        write(tmp_path / "thread-self/schedstat", content)
    now_ns = 10**15
    seen = presence(lambda: now_ns, proc=tmp_path)()
    assert seen.cpu_ns == now_ns - seen.switches * 1_000_000


def test_a_thread_that_waits_for_a_device_has_all_the_time_and_still_its_brakes() -> None:
    brakes = Brakes(throttles=1, throttled_ns=2)
    seen = attendance(lambda: brakes, lambda: 77)()
    assert (seen.cpu_ns, seen.switches, seen.brakes) == (77, 0, brakes)


@pytest.mark.parametrize(("line", "folder", "stat"), [("0::/pod", "pod", V2), ("3:cpu,cpuacct:/pod", "cpu/pod", V1)])
def test_a_recorded_quota_that_holds_every_window_back_is_disturbed_and_flagged(
    tmp_path: Path, line: str, folder: str, stat: str
) -> None:
    """From the files of either version to the state of the point: what tests/e2e does where a quota may be set."""
    write(tmp_path / "proc/self/cgroup", f"{line}\n")
    counted = write(tmp_path / "cgroup" / folder / "cpu.stat", stat.format(times=0, spent=0))
    brakes = brakes_on((), host.cpu_cgroups(tmp_path / "cgroup", tmp_path / "proc"), 0.2)
    now_ns = calls = 0

    def call() -> None:
        nonlocal now_ns, calls
        now_ns += 1_000_000
        calls += 1
        if calls % 100 == 0:
            counted.write_text(stat.format(times=calls // 100, spent=calls))

    how = Conditions(
        clock=lambda: now_ns,
        witness=lambda: Sighting(cpu_ns=now_ns, brakes=brakes()),
        protocol=Protocol(),
        launches=1,
        threads=1,
        budget_ns=8_000_000_000,
    )
    got = time_point([call], how)
    assert got.state is PointState.DISTURBED
    assert "CPU quota of 0.2 cores" in (got.reason or "")
    assert got.flags == (Flag.CFS_THROTTLED,)
