"""The measuring process: `python -m onnxdyno.worker --answer-to FD --parent PID`, an assignment on standard input.

The second composition root: it picks the adapters ort, cuda, nvml, host, witness and confinement,
and reaches no store or table.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from onnxdyno import wire
from onnxdyno.adapters import confinement
from onnxdyno.domain.assignments import Assignment, Event
from onnxdyno.domain.cold import FileReading
from onnxdyno.domain.cost import Count
from onnxdyno.domain.devices import DeviceKind
from onnxdyno.measuring.memory import MemoryGauge, nobody_counts
from onnxdyno.ports import DeviceClock, EnergyMeter, Gpu, Witness


def main() -> None:
    """Read the assignment, confine this process, work it through."""
    parser = argparse.ArgumentParser(prog="onnxdyno.worker", description=__doc__)
    parser.add_argument("--answer-to", type=int, required=True, metavar="FD")
    parser.add_argument("--parent", type=int, required=True, metavar="PID")
    arguments = parser.parse_args()
    live_with(arguments.parent)
    assignment = wire.decode_assignment(sys.stdin.buffer.read())
    confined = confine(assignment)
    live_with(arguments.parent)  # a change of namespaces may have undone it
    work(assignment, arguments.answer_to, confined)
    os._exit(0)  # everything was said; to take a session and an interpreter apart first costs each launch 0.1 s


def live_with(parent: int) -> None:
    """End when the parent ends, also if it has ended already."""
    if not confinement.die_with(parent):
        sys.exit("the process that asked for this measurement is gone")


def confine(assignment: Assignment) -> tuple[tuple[str, str], ...]:
    """Own cores, bounded memory and CPU time, no core dumps, no network where the kernel allows that; says which.

    A GPU process has no memory limit, since CUDA reserves huge ranges, and keeps its user for the device's files.
    """
    is_cpu = assignment.device.kind is DeviceKind.CPU
    confinement.stay_on(assignment.device.cores)
    network = confinement.leave_network(may_change_user=is_cpu)
    confinement.limit(memory_bytes=assignment.memory_limit_bytes if is_cpu else None, cpu_s=assignment.cpu_limit_s)
    return (network,)


def work(assignment: Assignment, answer_to: int, confined: tuple[tuple[str, str], ...]) -> None:
    """Measure; each event leaves at once, so that a death loses only the point it happened in."""
    from onnxdyno.adapters.ort import OrtRuntime
    from onnxdyno.execution import Workshop, execute

    def emit(event: Event) -> None:
        line = memoryview(wire.encode(event) + b"\n")
        while line:
            line = line[os.write(answer_to, line) :]

    meter = _meter(assignment)
    gpu = _gpu(assignment)
    shop = Workshop(
        runtime=OrtRuntime(gpu),
        gauge=_gauge(assignment),
        clock=time.perf_counter_ns,
        witness_of=lambda threads: _metered(_witness(assignment, threads), meter),
        no_energy=meter.reason,
        emit=emit,
        scratch=Path.cwd(),
        confined=confined,
        read_files=_read_files,
        gpu=gpu,
        device_clock=device_clock(assignment),
        own_cgroup_peak=_own_cgroup_peak,
        own_device_bytes=partial(own_device_bytes, assignment),
    )
    execute(assignment, shop)


def _read_files(paths: Sequence[Path]) -> FileReading | None:
    from onnxdyno.adapters.files import read_through

    try:
        return read_through(paths, time.perf_counter_ns)
    except OSError:
        return None


def _own_cgroup_peak() -> Count:
    from onnxdyno.adapters.host import own_cgroup_peak_bytes

    value, reason = own_cgroup_peak_bytes()
    return Count(value=value, reason=reason)


def own_device_bytes(assignment: Assignment) -> Count:
    """What the GPU's driver counts for this process now."""
    if assignment.device.kind is DeviceKind.CPU:
        return nobody_counts()
    from onnxdyno.adapters.nvml import process_bytes

    value, reason = process_bytes(assignment.device.id, os.getpid())
    return Count(value=value, reason=reason)


def _gauge(assignment: Assignment) -> MemoryGauge:
    if assignment.device.kind is DeviceKind.CPU:
        from onnxdyno.adapters.host import ResidentSet

        return ResidentSet()
    from onnxdyno.adapters.cuda import DeviceMemory

    return DeviceMemory()


def device_clock(assignment: Assignment) -> DeviceClock | None:
    """Of the GPU; its driver is asked at the first reading only."""
    if assignment.device.kind is DeviceKind.CPU:
        return None
    from onnxdyno.adapters.nvml import SmClock

    return SmClock(assignment.device)


def _gpu(assignment: Assignment) -> Gpu | None:
    if assignment.device.kind is DeviceKind.CPU:
        return None
    from onnxdyno.adapters.cuda import CudaGpu

    return CudaGpu()


def _witness(assignment: Assignment, threads: int) -> Witness:
    """On a GPU the calling thread waits: what it got of its core says nothing of the device."""
    from onnxdyno.adapters import host, witness

    brakes = witness.brakes_on(assignment.device.cores, host.cpu_cgroups(), host.cgroup_quota_cores())
    if assignment.device.kind is DeviceKind.CUDA:
        return witness.attendance(brakes)
    return witness.effort_of(threads, brakes)


def _metered(witness: Witness, meter: EnergyMeter) -> Witness:
    read_uj = meter.read_uj
    return witness if read_uj is None else lambda: replace(witness(), energy_uj=read_uj())


def _meter(assignment: Assignment) -> EnergyMeter:
    """A GPU's energy is read from outside, by the parent."""
    if assignment.device.kind is DeviceKind.CUDA:
        return EnergyMeter(reason="nobody read the GPU's counter")
    from onnxdyno.adapters.rapl import package_energy

    return package_energy()


if __name__ == "__main__":
    main()
