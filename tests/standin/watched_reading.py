"""Played by a test in a process that finds the stand-in: the sampler over a process that reads memory or a profile.

Arguments: device, pass, `leaves` or `stays`, script. The script holds from the middle of the reading on, and with
`leaves` ends with the process. Prints what came of the reading.
"""

import json
import os
import sys
import time
from collections.abc import Generator
from dataclasses import asdict
from pathlib import Path

import factories as make
from onnxdyno.adapters import host
from onnxdyno.adapters.nvml import GpuProbe, GpuSampler
from onnxdyno.domain.assignments import Assignment, Pass, Turn
from onnxdyno.domain.plan import Protocol
from onnxdyno.launching.driving import Answer
from onnxdyno.launching.telemetry import watched

POINT = make.point(batch=1)
NODE = make.node(provider="CUDAExecutionProvider")
HALF_NS = 300_000_000


def spin(duration_ns: int) -> None:
    """Take time as a call does."""
    until_ns = time.perf_counter_ns() + duration_ns
    while time.perf_counter_ns() < until_ns:
        pass


def says(*lines: str) -> None:
    """The script from now on."""
    script = Path(os.environ["STANDIN_SCRIPT"])
    fresh = script.with_suffix(".new")
    fresh.write_text("".join(f"{line}\n" for line in lines).replace("OURS", str(os.getpid())))
    fresh.replace(script)


def reading(kind: Pass, *, leaves: bool, script: list[str]) -> Generator[Answer, None, None]:
    spin(HALF_NS)
    says(*script)
    spin(HALF_NS)
    yield make.memory_reading(POINT) if kind is Pass.MEMORY else make.profile(POINT, (NODE,))
    if leaves:
        says()


def main() -> None:
    device_id, kind, end, *script = sys.argv[1:]
    devices = GpuProbe("1.31.1", cores=(0,), threads=1, slug=host.slug).devices()
    assignment = Assignment(
        kind=Pass(kind),
        launch=1,
        launches=1,
        model_path="model.onnx",
        device=next(each for each in devices if each.id == device_id),
        threads=1,
        recipes=(),
        turns=(Turn(point=POINT, budget_ns=0),),
        seed=0,
        protocol=Protocol(),
    )

    def answers() -> Generator[Answer, None, None]:
        return reading(assignment.kind, leaves=end == "leaves", script=script)

    (found,) = watched(answers, assignment, GpuSampler(host.is_descendant))
    sys.stdout.write(json.dumps(asdict(found), default=str))


if __name__ == "__main__":
    main()
