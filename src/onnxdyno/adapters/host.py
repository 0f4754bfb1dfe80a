"""The door to this machine: its CPU as a device, what limits it, and the memory of this process."""

import os
import platform
import re
import sys
from collections.abc import Callable
from pathlib import Path

import psutil

from onnxdyno.domain.devices import Device, DeviceKind, Fact

_PROC = Path("/proc")
_CGROUP = Path("/sys/fs/cgroup")
_CPU_SYS = Path("/sys/devices/system/cpu")
_NODE_SYS = Path("/sys/devices/system/node")
_PCI = Path("/sys/bus/pci/devices")


class CpuProbe:
    """The cores of this machine that this process may use, as one device."""

    def __init__(self, runtime_version: str, image_digest: str | None = None) -> None:
        """`image_digest`: of the container image that this process runs in, where somebody has said it."""
        self._runtime_version = runtime_version
        self._image_digest = image_digest

    def devices(self) -> tuple[Device, ...]:
        """Exactly one: the CPU."""
        cores = tuple(sorted(os.sched_getaffinity(0)))
        usable = usable_cores(len(cores), cgroup_quota_cores())
        threads = default_threads(usable)
        name = cpu_name()
        major, minor = self._runtime_version.split(".")[:2]
        return (
            Device(
                id="cpu",
                kind=DeviceKind.CPU,
                name=name,
                device_class=f"{slug(name)}-{threads}t.cpu.ort{major}.{minor}",
                memory_bytes=memory_limit_bytes(),
                cores=cores,
                threads=threads,
                fingerprint=_fingerprint(cores, usable, self._image_digest),
            ),
        )


class ResidentSet:
    """Resident memory of this process, from /proc; its peak can be reset, unlike that of getrusage."""

    def used_bytes(self) -> int:
        """VmRSS now."""
        return _status_bytes("VmRSS")

    def peak_bytes(self) -> int:
        """VmHWM: the most since `reset`."""
        return _status_bytes("VmHWM")

    def reset(self) -> None:
        """Set the peak back to what is used now. Raises `OSError` where the kernel does not let it."""
        (_PROC / "self/clear_refs").write_text("5")


def usable_cores(affinity: int, quota_cores: float | None) -> int:
    """min(affinity mask, cgroup quota), at least 1; never the host's count."""
    return max(1, affinity if quota_cores is None else min(affinity, int(quota_cores)))


def default_threads(usable: int) -> int:
    """One core fewer than usable: a pool as wide as a shared machine collapses under any neighbour (protocol, 0)."""
    return max(1, usable - 1)


def cgroup_quota_cores(root: Path = _CGROUP, proc: Path = _PROC) -> float | None:
    """CPU quota in cores (v2 `cpu.max`, v1 `cpu.cfs_quota_us`), the least of this cgroup and those above it.

    None = no limit readable.
    """
    quotas = (_quota_cores(folder) for folder in _cgroup_folders(root, proc, "cpu"))
    return min((quota for quota in quotas if quota is not None), default=None)


def cpu_cgroups(root: Path = _CGROUP, proc: Path = _PROC) -> tuple[Path, ...]:
    """Where the files of this process's cgroup for CPU time, and of those above it, may be."""
    return _cgroup_folders(root, proc, "cpu")


def memory_limit_bytes(root: Path = _CGROUP, proc: Path = _PROC) -> int:
    """Bytes that this process may use: the least of physical memory and the limits of its cgroup and those above it."""
    limits = (_limit_bytes(folder) for folder in _cgroup_folders(root, proc, "memory"))
    return min([int(psutil.virtual_memory().total), *(limit for limit in limits if limit is not None)])


def available_bytes(root: Path = _CGROUP, proc: Path = _PROC) -> int:
    """Bytes that a new process could use now without swapping, within the limits of its cgroup and those above it."""
    rooms = (_room_bytes(folder) for folder in _cgroup_folders(root, proc, "memory"))
    return min([int(psutil.virtual_memory().available), *(room for room in rooms if room is not None)])


def memory_cgroup(root: Path = _CGROUP, proc: Path = _PROC) -> Path | None:
    """The folder of this process's own memory cgroup; None where it cannot be seen."""
    for folder in _cgroup_folders(root, proc, "memory"):
        if str(os.getpid()) in (_read(folder / "cgroup.procs") or "").split():
            return folder
    return None


def own_cgroup_peak_bytes(root: Path = _CGROUP, proc: Path = _PROC) -> tuple[int | None, str | None]:
    """The most memory that the kernel counted for this process's cgroup (v2 `memory.peak`, v1 `max_usage_in_bytes`).

    None with a reason where others are in it: what is counted together cannot be told apart.
    """
    for folder in _cgroup_folders(root, proc, "memory"):
        members = _read(folder / "cgroup.procs")
        peak = _read(folder / "memory.peak") or _read(folder / "memory.max_usage_in_bytes")
        if members is None or peak is None:
            continue
        others = {member for member in members.split() if member != str(os.getpid())}
        if others:
            return None, f"the process shares its memory cgroup with {len(others)} others"
        return int(peak), None
    return None, "no memory cgroup of this process can be read"


def oom_kills(root: Path = _CGROUP, proc: Path = _PROC) -> int | None:
    """How often the kernel has killed in this cgroup for memory; None where it does not say."""
    for folder in _cgroup_folders(root, proc, "memory"):
        text = _read(folder / "memory.events") or _read(folder / "memory.oom_control")
        found = re.search(r"^oom_kill (\d+)$", text or "", re.MULTILINE)
        if found:
            return int(found[1])
    return None


def cpu_name() -> str:
    """The model name of the first core as the kernel gives it, else the architecture."""
    found = re.search(r"^model name\s*:\s*(.+)$", _read(_PROC / "cpuinfo") or "", re.MULTILINE)
    return found[1].strip() if found else f"{platform.machine()} CPU"


def slug(name: str) -> str:
    """A safe path segment from a device's name: lower case letters, digits and single dashes."""
    plain = re.sub(r"\((?:r|tm)\)|@.*$|\bcpu\b|\bprocessor\b", " ", name.lower())
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-") or "unknown"


def host_id() -> str:
    """Identity of the process table this process is in: boot id and PID namespace. Pids mean nothing outside it."""
    boot = _read(_PROC / "sys/kernel/random/boot_id") or platform.node()
    try:
        namespace = (_PROC / "self/ns/pid").readlink()
    except OSError:
        return boot
    return f"{boot} {namespace}"


def process_started(pid: int) -> str | None:
    """When a process started, in ticks since boot (tells a reused pid apart); None if it is gone."""
    text = _read(_PROC / str(pid) / "stat")
    if text is None:
        return None
    after_name = text.rpartition(")")[2].split()
    is_dead = after_name[0] in ("Z", "X")
    return None if is_dead else after_name[19]


def is_descendant(pid: int, proc: Path = _PROC) -> bool:
    """Whether a process is this one, or was started by it or by one that it started. False for one that is gone."""
    ourselves, seen = os.getpid(), set[int]()
    while pid > 0 and pid not in seen:
        if pid == ourselves:
            return True
        seen.add(pid)
        fields = (_read(proc / str(pid) / "stat") or "").rpartition(")")[2].split()
        pid = int(fields[1]) if len(fields) > 1 else 0
    return False


def numa_node(pci_bus_id: str, root: Path = _PCI) -> int | None:
    """The memory node next to a PCI slot (`00000000:3B:00.0`, as NVML writes it); None where firmware does not say."""
    domain, _, slot = pci_bus_id.lower().partition(":")
    text = _read(root / f"{domain[-4:]}:{slot}" / "numa_node")
    return int(text) if text is not None and text.isdigit() else None


def _fingerprint(cores: tuple[int, ...], usable: int, image_digest: str | None) -> tuple[Fact, ...]:
    cpuinfo = _read(_PROC / "cpuinfo") or ""
    microcode = re.search(r"^microcode\s*:\s*(\S+)$", cpuinfo, re.MULTILINE)
    return (
        Fact(name="cpu", value=cpu_name()),
        _fact("microcode", lambda: microcode[1] if microcode else None, "not in /proc/cpuinfo"),
        Fact(name="cores", value=",".join(map(str, cores))),
        Fact(name="usable_cores", value=str(usable)),
        _file_fact("smt", _CPU_SYS / "smt/active"),
        _file_fact("numa_nodes", _NODE_SYS / "online"),
        _file_fact("governor", _CPU_SYS / "cpu0/cpufreq/scaling_governor"),
        _fact("cgroup_cpu_quota_cores", lambda: _text(cgroup_quota_cores()), "no quota, or none readable"),
        Fact(name="memory_limit_bytes", value=str(memory_limit_bytes())),
        Fact(name="kernel", value=platform.release()),
        Fact(name="python", value=sys.version.split()[0]),
        _fact("container_image", lambda: image_digest, "ONNXDYNO_IMAGE_DIGEST is not set"),
    )


def _fact(name: str, read: Callable[[], str | None], reason: str) -> Fact:
    value = read()
    return Fact(name=name, value=value, reason=None if value is not None else reason)


def _file_fact(name: str, path: Path) -> Fact:
    return _fact(name, lambda: _read(path), f"{path} cannot be read")


def _text(value: float | None) -> str | None:
    return None if value is None else str(value)


def _cgroup_folders(root: Path, proc: Path, controller: str) -> tuple[Path, ...]:
    """Where this process's cgroup files may be: its own folder (v2 or v1) and those above it.

    In a container the path is often the host's: then only the mount itself is there, which is the container's own.
    """
    folders: list[Path] = []
    for line in (_read(proc / "self/cgroup") or "").splitlines():
        _, names, path = line.split(":", 2)
        if not names:
            folders.extend(_upwards(root, path))
        elif controller in names.split(","):
            folders.extend((*_upwards(root / controller, path), *_upwards(root / names, path)))
    return tuple(dict.fromkeys((*folders, root / controller, root)))


def _upwards(mount: Path, path: str) -> tuple[Path, ...]:
    parts = [part for part in path.split("/") if part not in ("", "..")]
    return tuple(mount.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1))


def _quota_cores(folder: Path) -> float | None:
    unified = _read(folder / "cpu.max")
    if unified is not None:
        quota, _, period = unified.partition(" ")
        return None if quota == "max" else int(quota) / int(period or 100_000)
    legacy, period_us = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
    if legacy is None or period_us is None or int(legacy) < 0:
        return None
    return int(legacy) / int(period_us)


def _limit_bytes(folder: Path) -> int | None:
    text = _read(folder / "memory.max") or _read(folder / "memory.limit_in_bytes")
    return int(text) if text is not None and text.isdigit() else None


def _room_bytes(folder: Path) -> int | None:
    """Limit less use; file cache that the kernel gives back when asked is not use."""
    limit_bytes = _limit_bytes(folder)
    used = _read(folder / "memory.current") or _read(folder / "memory.usage_in_bytes")
    if limit_bytes is None or used is None:
        return None
    cache = re.search(r"^(?:total_)?inactive_file (\d+)$", _read(folder / "memory.stat") or "", re.MULTILINE)
    return max(0, limit_bytes - max(0, int(used) - int(cache[1] if cache else 0)))


def _status_bytes(field: str) -> int:
    text = (_PROC / "self/status").read_text()
    found = re.search(rf"^{field}:\s+(\d+) kB$", text, re.MULTILINE)
    if found is None:
        raise OSError(f"/proc/self/status has no {field}")
    return int(found[1]) * 1024


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def cache_bytes(core: int, root: Path = _CPU_SYS) -> tuple[int, ...]:
    """Sizes of the caches that hold this core's data, smallest first; empty where the kernel does not say."""
    found = set()
    for folder in (root / f"cpu{core}/cache").glob("index*"):
        size = re.fullmatch(r"(\d+)K", _read(folder / "size") or "")
        if size is not None and _read(folder / "type") in ("Data", "Unified"):
            found.add(int(size[1]) * 1024)
    return tuple(sorted(found))
