"""Played by a test in a process that finds the stand-in: the real sampler over a launch whose calls take real time.

Two points of six windows of 0.1 s; before the second, the script given as arguments is written. Prints what came out.
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
from onnxdyno.domain.errors import DeviceError
from onnxdyno.domain.outcomes import Measured, Skipped, SteadySpan
from onnxdyno.domain.plan import Point, Protocol
from onnxdyno.launching.driving import Answer
from onnxdyno.launching.telemetry import watched

POINTS = (make.point(batch=1), make.point(batch=2))
CALL_NS = 1_000_000


def spin(until_ns: int) -> None:
    """Take time as a call does."""
    while time.perf_counter_ns() < until_ns:
        pass


def work(point: Point) -> Measured:
    """Six windows of a hundred calls of 1 ms."""
    spans = []
    for at in range(6):
        opened_ns = time.perf_counter_ns()
        spin(opened_ns + 100 * CALL_NS)
        wall_ns = time.perf_counter_ns() - opened_ns
        spans.append(SteadySpan(first=100 * at, end=100 * at + 100, opened_ns=opened_ns, wall_ns=wall_ns))
    return make.measured(point, (CALL_NS,) * 600, spans=tuple(spans))


def launch() -> Generator[Answer, None, None]:
    yield work(POINTS[0])
    script = Path(os.environ["STANDIN_SCRIPT"])
    fresh = script.with_suffix(".new")
    fresh.write_text("".join(f"{line}\n" for line in sys.argv[2:]).replace("OURS", str(os.getpid())))
    fresh.replace(script)
    yield work(POINTS[1])


def shown(point: Measured | Skipped) -> dict[str, object]:
    """What a test looks at."""
    energy = point.energy if isinstance(point, Measured) else None
    return {
        "state": point.state.value,
        "reason": point.reason,
        "flags": list(point.flags) if isinstance(point, Measured) else [],
        "excluded": list(point.excluded) if isinstance(point, Measured) else [],
        "energy": None if energy is None else (energy.energy_mj, energy.runs, energy.reason),
        "steady_ns": sum(span.wall_ns for span in point.spans) if isinstance(point, Measured) else None,
        "last": asdict(point.telemetry[-1]) if point.telemetry else None,
        "readings": len(point.telemetry),
    }


def main() -> None:
    devices = GpuProbe("1.31.1", cores=(0,), threads=1, slug=host.slug).devices()
    device = next(each for each in devices if each.id == sys.argv[1])
    assignment = Assignment(
        kind=Pass.TIMING,
        launch=1,
        launches=1,
        model_path="model.onnx",
        device=device,
        threads=1,
        recipes=(),
        turns=tuple(Turn(point=point, budget_ns=1) for point in POINTS),
        seed=0,
        protocol=Protocol(),
    )
    points: list[Measured | Skipped] = []
    lost = None
    try:
        for answer in watched(launch, assignment, GpuSampler(host.is_descendant)):
            assert isinstance(answer, Measured | Skipped)
            points.append(answer)
    except DeviceError as error:
        lost = str(error)
    told = [shown(each) for each in points]
    sys.stdout.write(json.dumps({"points": told, "lost": lost}))


if __name__ == "__main__":
    main()
