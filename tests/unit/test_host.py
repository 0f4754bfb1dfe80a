"""This machine's limits, read from recorded folder trees of both cgroup versions."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from onnxdyno.adapters import host
from onnxdyno.adapters.host import CpuProbe, ResidentSet

MIB = 2**20
NO_LIMIT_V1 = "9223372036854771712"


def tree(folder: Path, cgroup: str, **files: str) -> tuple[Path, Path]:
    """A cgroup mount and a /proc; keys are paths with `__` for `/` and `_dot_` for `.`."""
    root, proc = folder / "cgroup", folder / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "self/cgroup").write_text(cgroup)
    root.mkdir()
    for key, text in files.items():
        path = root / key.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root, proc


def test_a_v2_quota_is_a_number_of_cores(tmp_path: Path) -> None:
    assert host.cgroup_quota_cores(*tree(tmp_path, "0::/\n", cpu_dot_max="150000 100000")) == 1.5


def test_a_v2_group_without_a_quota_has_none(tmp_path: Path) -> None:
    assert host.cgroup_quota_cores(*tree(tmp_path, "0::/\n", cpu_dot_max="max 100000")) is None


def test_a_quota_above_the_own_group_counts(tmp_path: Path) -> None:
    where = tree(
        tmp_path,
        "0::/pod/container/own\n",
        pod__cpu_dot_max="200000 100000",
        pod__container__cpu_dot_max="400000 100000",
        pod__container__own__cpu_dot_max="max 100000",
    )
    assert host.cgroup_quota_cores(*where) == 2


def test_a_v1_quota_is_a_number_of_cores(tmp_path: Path) -> None:
    where = tree(
        tmp_path,
        "4:memory:/a\n3:cpu,cpuacct:/a\n",
        cpu__a__cpu_dot_cfs_quota_us="250000",
        cpu__a__cpu_dot_cfs_period_us="100000",
    )
    assert host.cgroup_quota_cores(*where) == 2.5


def test_a_v1_quota_of_minus_one_is_none(tmp_path: Path) -> None:
    where = tree(tmp_path, "3:cpu:/\n", cpu__cpu_dot_cfs_quota_us="-1", cpu__cpu_dot_cfs_period_us="100000")
    assert host.cgroup_quota_cores(*where) is None


def test_in_a_container_the_mount_itself_is_read_where_the_hosts_path_is_not_there(tmp_path: Path) -> None:
    where = tree(
        tmp_path,
        "3:cpu,cpuacct:/docker/0123abc\n2:memory:/docker/0123abc\n",
        cpu__cpu_dot_cfs_quota_us="50000",
        cpu__cpu_dot_cfs_period_us="100000",
        memory__memory_dot_limit_in_bytes=str(64 * MIB),
    )
    assert host.cgroup_quota_cores(*where) == 0.5
    assert host.memory_limit_bytes(*where) == 64 * MIB


def test_a_path_that_leaves_the_mount_is_not_followed(tmp_path: Path) -> None:
    where = tree(tmp_path, "0::/../../outside\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/cpu.max").write_text("1000 100000")
    assert host.cgroup_quota_cores(*where) is None


def test_a_machine_without_cgroups_has_neither_quota_nor_limit(tmp_path: Path) -> None:
    where = tmp_path / "no", tmp_path / "nothing"
    assert host.cgroup_quota_cores(*where) is None
    assert host.memory_limit_bytes(*where) == psutil.virtual_memory().total
    assert 0 < host.available_bytes(*where) <= psutil.virtual_memory().total
    assert host.oom_kills(*where) is None


def test_the_smallest_memory_limit_on_the_way_up_counts(tmp_path: Path) -> None:
    where = tree(
        tmp_path,
        "0::/pod/own\n",
        pod__memory_dot_max=str(128 * MIB),
        pod__own__memory_dot_max="max",
    )
    assert host.memory_limit_bytes(*where) == 128 * MIB


def test_the_unlimited_v1_number_is_no_limit(tmp_path: Path) -> None:
    where = tree(tmp_path, "4:memory:/\n", memory__memory_dot_limit_in_bytes=NO_LIMIT_V1)
    assert host.memory_limit_bytes(*where) == psutil.virtual_memory().total


@pytest.mark.parametrize(
    ("line", "files"),
    [
        (
            "0::/\n",
            {
                "memory_dot_max": str(100 * MIB),
                "memory_dot_current": str(90 * MIB),
                "memory_dot_stat": f"anon 1\ninactive_file {50 * MIB}\nactive_file 7",
            },
        ),
        (
            "2:memory:/\n",
            {
                "memory__memory_dot_limit_in_bytes": str(100 * MIB),
                "memory__memory_dot_usage_in_bytes": str(90 * MIB),
                "memory__memory_dot_stat": f"cache 5\ntotal_inactive_file {50 * MIB}",
            },
        ),
    ],
)
def test_room_within_a_limit_counts_cached_files_as_free(tmp_path: Path, line: str, files: dict[str, str]) -> None:
    assert host.available_bytes(*tree(tmp_path, line, **files)) == 60 * MIB


def test_a_group_over_its_limit_has_no_room_and_not_less(tmp_path: Path) -> None:
    where = tree(tmp_path, "0::/\n", memory_dot_max="1000", memory_dot_current="2000")
    assert host.available_bytes(*where) == 0


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("0::/\n", {"memory_dot_events": "low 0\noom 9\noom_kill 3\noom_group_kill 0"}),
        ("2:memory:/\n", {"memory__memory_dot_oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3"}),
    ],
)
def test_kills_for_memory_are_counted(tmp_path: Path, line: str, files: dict[str, str]) -> None:
    assert host.oom_kills(*tree(tmp_path, line, **files)) == 3


@pytest.mark.parametrize(
    ("affinity", "quota", "usable"), [(8, None, 8), (8, 2.0, 2), (8, 2.9, 2), (2, 16.0, 2), (8, 0.5, 1), (1, None, 1)]
)
def test_usable_cores_are_the_smaller_of_affinity_and_quota(affinity: int, quota: float | None, usable: int) -> None:
    assert host.usable_cores(affinity, quota) == usable


@pytest.mark.parametrize(("usable", "threads"), [(1, 1), (2, 1), (8, 7)])
def test_one_core_is_left_to_the_neighbours(usable: int, threads: int) -> None:
    assert host.default_threads(usable) == threads


def test_a_process_confined_to_one_core_has_one_core_whatever_the_host_has() -> None:
    one = min(os.sched_getaffinity(0))
    code = (
        f"import os; os.sched_setaffinity(0, {{{one}}})\n"
        "from onnxdyno.adapters.host import CpuProbe\n"
        "device, = CpuProbe('1.31.1').devices(); print(device.cores, device.threads, device.device_class)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    assert out.startswith(f"({one},) 1 ")
    assert "-1t.cpu.ort1.31" in out


def test_the_cpu_is_one_device_with_a_class_that_is_a_safe_path_segment() -> None:
    (device,) = CpuProbe("1.31.1").devices()
    assert device.id == "cpu"
    assert set(device.device_class) <= set("abcdefghijklmnopqrstuvwxyz0123456789-.")
    assert device.cores == tuple(sorted(os.sched_getaffinity(0)))
    assert device.memory_bytes is not None
    assert 0 < device.memory_bytes <= psutil.virtual_memory().total
    for fact in device.fingerprint:
        assert (fact.value is None) == (fact.reason is not None), fact
        assert fact.value != ""


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("Intel(R) Xeon(R) CPU E5-2673 v4 @ 2.30GHz", "intel-xeon-e5-2673-v4"),
        ("AMD EPYC 7763 64-Core Processor", "amd-epyc-7763-64-core"),
        ("NVIDIA H100 80GB HBM3", "nvidia-h100-80gb-hbm3"),
        ("../../etc/passwd", "etc-passwd"),
        ("\x1b[31m漢", "31m"),
        ("漢字", "unknown"),
        ("", "unknown"),
    ],
)
def test_a_slug_is_a_safe_path_segment(name: str, slug: str) -> None:
    assert host.slug(name) == slug


def test_a_processes_start_tells_it_from_a_dead_one() -> None:
    started = host.process_started(os.getpid())
    assert started is not None
    assert started.isdigit()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert child.stdin is not None
    alive = host.process_started(child.pid)
    assert alive is not None
    assert int(alive) >= int(started)
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and not yet reaped
    assert host.process_started(child.pid) is None
    child.wait()
    assert host.process_started(child.pid) is None


def test_a_process_whose_name_holds_a_bracket_is_still_read(tmp_path: Path) -> None:
    odd = tmp_path / "a) Z 1 (b"
    odd.symlink_to("/bin/sleep")
    child = subprocess.Popen([str(odd), "60"])
    try:
        assert (host.process_started(child.pid) or "").isdigit()
    finally:
        child.kill()
        child.wait()


def test_the_same_table_of_processes_has_the_same_identity() -> None:
    code = "from onnxdyno.adapters.host import host_id; print(host_id())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    assert other.strip() == host.host_id()
    assert "pid:[" in host.host_id()


def test_the_resident_set_sees_a_block_come_and_its_peak_stay_until_reset() -> None:
    gauge = ResidentSet()
    gauge.reset()
    before = gauge.used_bytes()
    block = bytearray(os.urandom(1 << 20)) * 64
    assert gauge.used_bytes() - before > 48 * MIB
    del block
    assert gauge.peak_bytes() - before > 48 * MIB
    gauge.reset()
    assert gauge.peak_bytes() - before < 48 * MIB


def test_a_descendant_is_told_from_strangers_and_from_the_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert host.is_descendant(child.pid)
        child.communicate(b"\n")
    assert not host.is_descendant(child.pid)
    assert host.is_descendant(os.getpid())
    assert not host.is_descendant(os.getppid())
    assert not host.is_descendant(0)


def test_the_memory_node_of_a_pci_slot_is_found_under_the_name_that_nvml_gives_it(tmp_path: Path) -> None:
    for slot, node in (("0000:3b:00.0", "1"), ("0000:5e:00.0", "-1")):
        (tmp_path / slot).mkdir()
        (tmp_path / slot / "numa_node").write_text(f"{node}\n")
    assert host.numa_node("00000000:3B:00.0", tmp_path) == 1
    assert host.numa_node("00000000:5E:00.0", tmp_path) is None, "-1: the firmware does not say"
    assert host.numa_node("00000000:AA:00.0", tmp_path) is None
