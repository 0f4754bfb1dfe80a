"""Micro-models in a real measuring process."""

import os
from pathlib import Path

from factories import cpu_device
from onnxdyno.adapters import host
from onnxdyno.adapters.processes import DeviceLock, ProcessLauncher
from onnxdyno.domain.assignments import Assignment, Pass, Turn
from onnxdyno.domain.ceilings import CeilingReading
from onnxdyno.domain.devices import DeviceKind
from onnxdyno.domain.micros import micros
from onnxdyno.domain.outcomes import PointState, Skipped
from onnxdyno.domain.plan import Point, Protocol, Variant
from onnxdyno.launching.driving import Limits, drive

CACHES = (32 * 2**10, 2**20, 4 * 2**20)
KNOWN = micros(DeviceKind.CPU, CACHES)


def answers(folder: Path, *names: str) -> dict[str, CeilingReading | Skipped]:
    """What a measuring process says of these micro-models."""
    places = [next(place for place, micro in enumerate(KNOWN) if micro.name == name) for name in names]
    device = cpu_device(cores=tuple(sorted(os.sched_getaffinity(0))), threads=1)
    asked = Assignment(
        kind=Pass.CEILINGS,
        launch=1,
        launches=3,
        model_path="",
        device=device,
        threads=1,
        recipes=(),
        turns=tuple(
            Turn(point=Point(sizes=(("micro", place),), variant=Variant.DEVICE), budget_ns=0) for place in places
        ),
        seed=0,
        protocol=Protocol(),
        cache_bytes=CACHES,
    )
    with DeviceLock(folder / "locks", device, 0, print) as lock:
        limits = Limits(load_s=60, turn_s=lambda _: 60)
        said = list(drive(ProcessLauncher(lock, host.oom_kills), asked, limits))
    kept = [each for each in said if isinstance(each, CeilingReading | Skipped)]
    return dict(zip(names, kept, strict=True))


def test_every_micro_model_of_a_cpu_runs_or_says_why_not(tmp_path: Path) -> None:
    names = [micro.name for micro in KNOWN if micro.working_bytes is None]
    said = answers(tmp_path, *names)
    skipped = {name for name, each in said.items() if isinstance(each, Skipped)}
    rare = {f"{op} float16" for op in ("MatMul", "Conv")}
    rare |= {f"{op} bfloat16 x {nodes}" for op in ("MatMul", "Conv") for nodes in (1, 5)}
    assert skipped <= {*rare, "Conv float64"}
    assert all(each.call_ns > 0 for each in said.values() if isinstance(each, CeilingReading))


def test_a_runtime_that_casts_float16_away_has_no_float16_rate(tmp_path: Path) -> None:
    (said,) = answers(tmp_path, "MatMul float16").values()
    if isinstance(said, Skipped):
        assert said.state is PointState.UNSUPPORTED
        assert "Cast" in said.reason


def test_longer_chains_and_larger_buffers_take_longer(tmp_path: Path) -> None:
    sizes = sorted({micro.working_bytes for micro in KNOWN if micro.label == "stream" and micro.working_bytes})
    names = [f"stream {sizes[1]} x 4", f"stream {sizes[1]} x 20", f"stream {sizes[-1]} x 2"]
    calls_ns = [each.call_ns for each in answers(tmp_path, *names).values() if isinstance(each, CeilingReading)]
    assert calls_ns == sorted(calls_ns)
    assert len(calls_ns) == 3
