"""The door to what the kernel knows of this process while it runs other people's code: waits and drivers."""

import re
import resource
import time
from collections.abc import Callable
from pathlib import Path

_PROC = Path("/proc")
_SLICE_NS = 1_000_000
"""What one involuntary context switch costs at least where only their number is known."""
_DRIVERS = re.compile(r"/(lib(?:cuda|amdhip64|hsa-runtime64|ze_loader|tpu|nrt))\.so")


def presence(clock: Callable[[], int] = time.perf_counter_ns, proc: Path = _PROC) -> Callable[[], tuple[int, int]]:
    """A witness of the calling thread for code that may also wait: all time is its own but that in which it was ready
    to run and had no core (`schedstat`, else involuntary switches by number). Sleep and I/O are not disturbances.
    """
    schedstat = proc / "thread-self/schedstat"
    if _is_kept(schedstat):
        return lambda: (clock() - _waited_ns(schedstat), _switches())
    return lambda: (clock() - _SLICE_NS * _switches(), _switches())


def accelerator_drivers(proc: Path = _PROC) -> tuple[str, ...] | None:
    """Drivers of accelerators that this process has loaded; without one its work is the CPU's. None = not readable."""
    try:
        maps = (proc / "self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return tuple(sorted(set(_DRIVERS.findall(maps))))


def _is_kept(schedstat: Path) -> bool:
    """Whether the kernel keeps the figures: a thread that asks has run, so where they are off its run time is 0."""
    try:
        ran_ns, _, _ = map(int, schedstat.read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return False
    return ran_ns > 0


def _waited_ns(schedstat: Path) -> int:
    """Nanoseconds that the calling thread was ready to run and did not (the kernel's Documentation/scheduler)."""
    return int(schedstat.read_text(encoding="ascii").split()[1])


def _switches() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
