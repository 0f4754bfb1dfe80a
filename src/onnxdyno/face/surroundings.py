"""What a benchmark of a callable needs of the outside world, and the adapters that give it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from onnxdyno.adapters import host, own_process, witness
from onnxdyno.domain.errors import DeviceError
from onnxdyno.measuring.memory import MemoryGauge
from onnxdyno.ports import ClockNs, Witness


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """`drivers` names the loaded drivers of accelerators (None: not readable). `vram` may raise `DeviceError`."""

    clock: ClockNs
    witness: Witness
    ram: MemoryGauge
    vram: Callable[[], MemoryGauge]
    drivers: Callable[[], tuple[str, ...] | None]
    cpu_name: str


def this_process() -> Surroundings:
    """The real ones."""
    brakes = witness.brakes_on(os.sched_getaffinity(0), host.cpu_cgroups(), host.cgroup_quota_cores())
    return Surroundings(
        clock=time.perf_counter_ns,
        witness=witness.presence(brakes=brakes),
        ram=host.ResidentSet(),
        vram=_cuda_gauge,
        drivers=own_process.accelerator_drivers,
        cpu_name=host.cpu_name(),
    )


def _cuda_gauge() -> MemoryGauge:
    try:
        from onnxdyno.adapters.cuda import DeviceMemory  # only where a CUDA driver is loaded already
    except ImportError as error:
        raise DeviceError(f"the CUDA bindings are not installed: {error}. Install cuda-python.") from error
    return DeviceMemory()
