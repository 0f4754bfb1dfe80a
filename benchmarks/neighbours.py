"""What others take of this machine meanwhile: CPU time by /proc/stat, less that of this process and its children."""

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """CPU time so far, in seconds: of the whole machine, of the hypervisor's other guests, of this process's tree."""

    busy_s: float
    steal_s: float
    own_s: float
    wall_s: float


def spent() -> Spent:
    """Now. `resource` counts every descendant that was waited for."""
    user, nice, system, _, _, irq, softirq, steal = map(
        int, Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
    )
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return Spent(
        busy_s=(user + nice + system + irq + softirq) / TICKS_PER_S,
        steal_s=steal / TICKS_PER_S,
        own_s=sum(usage.ru_utime + usage.ru_stime for usage in usages),
        wall_s=time.perf_counter(),
    )


def others_s(before: Spent, after: Spent) -> float:
    """CPU seconds of other processes on all cores together, and of the hypervisor's other guests."""
    busy_s = (after.busy_s - before.busy_s) - (after.own_s - before.own_s)
    return max(0.0, busy_s + after.steal_s - before.steal_s)
