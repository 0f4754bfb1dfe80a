"""The door to what the kernel counts of work that is timed: what it got of its cores, and what held the cores back.

Read around windows of calls, never inside. What a kernel or a container does not show is None.
"""

import os
import re
import resource
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from onnxdyno.ports import Brakes, ClockNs, Sighting, Witness

_PROC = Path("/proc")
_CPU_SYS = Path("/sys/devices/system/cpu")
_MOST_BYTES = 65_536
_SLICE_NS = 1_000_000
"""What one involuntary context switch costs at least where only their number is known."""
_PROCESSOR = 36
"""Field of /proc/…/stat after the name: the core that the thread was last on (field 39 of proc_pid_stat(5))."""

BrakesReader = Callable[[], Brakes]


def effort_of(threads: int, brakes: BrakesReader = Brakes, proc: Path = _PROC) -> Witness:
    """A witness of threads that compute all the time: of the calling one if it is alone, else of the whole process.

    Of several threads also what each waited for a core: while one computes, another may be kept back.
    """
    cores = len(os.sched_getaffinity(0))
    if threads == 1:
        return lambda: Sighting(
            cpu_ns=time.thread_time_ns(),
            switches=resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw,
            cores=cores,
            brakes=brakes(),
        )
    tasks = proc / "self/task" if _is_kept(proc / "thread-self/schedstat") else None
    return lambda: Sighting(
        cpu_ns=time.process_time_ns(),
        switches=resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw,
        waits_ns=None if tasks is None else _waits_ns(tasks),
        cores=cores,
        brakes=brakes(),
    )


def presence(
    clock: ClockNs = time.perf_counter_ns, brakes: BrakesReader = Brakes, proc: Path = _PROC
) -> Callable[[], Sighting]:
    """A witness of the calling thread for code that may also wait: all time is its own but that in which it was ready
    to run and had no core (`schedstat`, else involuntary switches by number). Sleep and I/O are not disturbances.
    """
    schedstat = proc / "thread-self/schedstat"
    if _is_kept(schedstat):
        return lambda: Sighting(cpu_ns=clock() - _waited_ns(schedstat), switches=_switches(), brakes=brakes())
    return lambda: Sighting(cpu_ns=clock() - _SLICE_NS * _switches(), switches=_switches(), brakes=brakes())


def attendance(brakes: BrakesReader = Brakes, clock: ClockNs = time.perf_counter_ns) -> Witness:
    """A witness of a thread that waits for another device: all time is its own, only the brakes can tell."""
    return lambda: Sighting(cpu_ns=clock(), brakes=brakes())


def brakes_on(
    cores: Iterable[int],
    cgroups: Iterable[Path],
    quota_cores: float | None = None,
    system: Path = _CPU_SYS,
    proc: Path = _PROC,
) -> BrakesReader:
    """A reader of what holds these cores back: `cpu.stat` of the cgroups (own and above), clocks and heat.

    The clock is that of the core which the calling thread is on: an idle core's is low and says nothing.
    """
    known = tuple(dict.fromkeys(path.resolve() for folder in cgroups if _throttling(path := folder / "cpu.stat")))
    heat = tuple(path for core in cores if _number(path := _heat_file(system, core)) is not None)
    expected_hz = {core: _expected_hz(system, core) for core in cores}

    def read() -> Brakes:
        throttled = [each for each in map(_throttling, known) if each is not None]
        core = _core_of_this_thread(proc) if expected_hz else None
        return Brakes(
            throttles=sum(times for times, _ in throttled) if throttled else None,
            throttled_ns=sum(spent_ns for _, spent_ns in throttled) if throttled else None,
            quota_cores=quota_cores,
            clock_hz=None if core is None else _hz(system, core, "scaling_cur_freq"),
            expected_hz=None if core is None else expected_hz.get(core),
            heat_events=sum(_number(path) or 0 for path in heat) if heat else None,
        )

    return read


def _throttling(stat: Path) -> tuple[int, int] | None:
    """(times, nanoseconds) that a cgroup was held back for its quota: v2 counts microseconds, v1 nanoseconds."""
    text = _read(stat)
    times = re.search(r"^nr_throttled (\d+)$", text, re.MULTILINE)
    spent = re.search(r"^throttled_(usec|time) (\d+)$", text, re.MULTILINE)
    if times is None or spent is None:
        return None
    return int(times[1]), int(spent[2]) * (1_000 if spent[1] == "usec" else 1)


def _core_of_this_thread(proc: Path) -> int | None:
    fields = _read(proc / "thread-self/stat").rpartition(")")[2].split()
    return int(fields[_PROCESSOR]) if len(fields) > _PROCESSOR else None


def _expected_hz(system: Path, core: int) -> float | None:
    """What a core holds under load without help: its base clock, or what somebody capped it at; None where unsaid."""
    base_hz, most_hz = _hz(system, core, "base_frequency"), _hz(system, core, "scaling_max_freq")
    return None if base_hz is None else min(base_hz, most_hz or base_hz)


def _hz(system: Path, core: int, name: str) -> float | None:
    khz = _number(system / f"cpu{core}" / "cpufreq" / name)
    return None if khz is None else khz * 1_000.0


def _heat_file(system: Path, core: int) -> Path:
    return system / f"cpu{core}" / "thermal_throttle" / "core_throttle_count"


def _is_kept(schedstat: Path) -> bool:
    """Whether the kernel keeps the figures: a thread that asks has run, so where they are off its run time is 0."""
    try:
        ran_ns, _, _ = map(int, schedstat.read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return False
    return ran_ns > 0


def _waits_ns(tasks: Path) -> tuple[tuple[int, int], ...]:
    """(thread, nanoseconds it waited for a core) of every thread; one that ends meanwhile is left out."""
    waits = []
    for thread in os.listdir(tasks):  # noqa: PTH208  a third of the time that iterdir takes
        text = _read(f"{tasks}/{thread}/schedstat").split()
        if len(text) == 3:
            waits.append((int(thread), int(text[1])))
    return tuple(waits)


def _waited_ns(schedstat: Path) -> int:
    """Nanoseconds that the calling thread was ready to run and did not (the kernel's Documentation/scheduler)."""
    return int(_read(schedstat).split()[1])


def _switches() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


def _number(path: Path) -> int | None:
    text = _read(path).strip()
    return int(text) if text.isdigit() else None


def _read(path: Path | str) -> str:
    """The text of a small file; empty where there is none to be had. Without a file object: a third of its time."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(descriptor, _MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)
