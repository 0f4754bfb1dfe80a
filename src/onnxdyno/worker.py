"""The measuring process: `python -m onnxdyno.worker --answer-to FD --parent PID`, an assignment on standard input.

The second composition root: it picks the adapters ort, cuda and host; it reaches no orchestrator, store or table.
"""

import argparse
import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from pathlib import Path

from onnxdyno import wire
from onnxdyno.domain.assignments import Assignment, Event
from onnxdyno.domain.devices import DeviceKind
from onnxdyno.measuring.memory import MemoryGauge
from onnxdyno.ports import Witness

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Read the assignment, confine this process, work it through."""
    parser = argparse.ArgumentParser(prog="onnxdyno.worker", description=__doc__)
    parser.add_argument("--answer-to", type=int, required=True, metavar="FD")
    parser.add_argument("--parent", type=int, required=True, metavar="PID")
    arguments = parser.parse_args()
    die_with(arguments.parent)
    assignment = wire.decode_assignment(sys.stdin.buffer.read())
    confine(assignment)
    work(assignment, arguments.answer_to)


def die_with(parent: int) -> None:
    """End this process when its parent ends; the parent may already have ended before this was asked."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the process that asked for this measurement is gone")


def confine(assignment: Assignment) -> None:
    """Own cores, no core dumps, and on the CPU a limit on private memory so that a model cannot take the machine down.

    A GPU process has no such limit: CUDA reserves huge ranges.
    """
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, assignment.device.cores)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if assignment.device.kind is DeviceKind.CPU and assignment.memory_limit_bytes is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (assignment.memory_limit_bytes, assignment.memory_limit_bytes))


def work(assignment: Assignment, answer_to: int) -> None:
    """Measure; each event leaves at once, so that a death loses only the point it happened in."""
    from onnxdyno.adapters.ort import OrtRuntime
    from onnxdyno.execution import Workshop, execute

    def emit(event: Event) -> None:
        line = memoryview(wire.encode(event) + b"\n")
        while line:
            line = line[os.write(answer_to, line) :]

    shop = Workshop(
        runtime=OrtRuntime(),
        gauge=_gauge(assignment),
        clock=time.perf_counter_ns,
        witness=_witness(assignment),
        emit=emit,
        scratch=Path.cwd(),
    )
    execute(assignment, shop)


def _gauge(assignment: Assignment) -> MemoryGauge:
    if assignment.device.kind is DeviceKind.CPU:
        from onnxdyno.adapters.host import ResidentSet

        return ResidentSet()
    from onnxdyno.adapters.cuda import DeviceMemory

    return DeviceMemory()


def _witness(assignment: Assignment) -> Witness:
    """On a GPU the calling thread waits: what it got of its core says nothing of the device, so all time is its own."""
    if assignment.device.kind is DeviceKind.CUDA:
        return lambda: (time.perf_counter_ns(), 0)
    from onnxdyno.adapters.host import effort_of

    return effort_of(assignment.threads)


if __name__ == "__main__":
    main()
