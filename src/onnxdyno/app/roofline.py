"""One model against its device's own ceilings: a short run with a profile, and a calibration if none is stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxdyno.app.by_hand import bench
from onnxdyno.app.ceilings import calibrate
from onnxdyno.app.judging import judged
from onnxdyno.app.steps import Tell
from onnxdyno.domain.ceilings import Ceilings
from onnxdyno.domain.devices import Device
from onnxdyno.domain.errors import NothingMeasured
from onnxdyno.domain.findings import Findings
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.domain.text import printable
from onnxdyno.domain.verdicts import Roofline

BUDGET_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A run, the ceilings of its device, and what they say of it."""

    run: BenchmarkRun
    findings: Findings
    ceilings: Ceilings
    roofline: Roofline


def roofline(path: Path, *, on: Device, tell: Tell, parameters: Mapping[str, Any] | None = None) -> Judgement:
    """Profile a model at its base point and judge it. Raises as `bench` does, `NothingMeasured` without a profile."""
    asked = {"batch": 1, "launches": 1, "budget_s": BUDGET_S, "memory": False} | dict(parameters or {})
    run, findings = bench(path, on=on, results_uri=None, tell=tell, parameters=asked)
    if "batch" in (parameters or {}) and run.plan.fixed_batch not in (None, asked["batch"]):
        raise NothingMeasured(
            f"{printable(path.name)}: nothing to judge at batch {asked['batch']}: the model's is fixed at "
            f"{run.plan.fixed_batch}. Leave --batch out."
        )
    if not findings.profiles:
        why = next((point.reason for point in findings.points if point.reason), "no profile was written")
        raise NothingMeasured(f"{printable(path.name)}: nothing to judge: {why}")
    ceilings = calibrate(on, threads=run.plan.threads, tell=tell)
    return Judgement(run=run, findings=findings, ceilings=ceilings, roofline=judged(run, findings, ceilings))
