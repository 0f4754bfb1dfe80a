"""One model against its device's own ceilings: a short run with a profile, and a calibration if none is stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxdyno.analysis.roofline import Datasheet, judge
from onnxdyno.app.by_hand import bench
from onnxdyno.app.ceilings import calibrate, stored_ceilings
from onnxdyno.app.steps import Tell
from onnxdyno.domain.ceilings import Ceilings
from onnxdyno.domain.devices import Device
from onnxdyno.domain.errors import NothingMeasured, SpecError
from onnxdyno.domain.findings import Findings
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.domain.text import printable
from onnxdyno.domain.verdicts import Roofline
from onnxdyno.hardware.lookup import shipped

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
    if not findings.profiles:
        why = next((point.reason for point in findings.points if point.reason), "no profile was written")
        raise NothingMeasured(f"{printable(path.name)}: nothing to judge: {why}")
    ceilings = calibrate(on, threads=run.plan.threads, tell=tell)
    return Judgement(run=run, findings=findings, ceilings=ceilings, roofline=judged(run, findings, ceilings))


def known_roofline(run: BenchmarkRun, findings: Findings) -> tuple[Roofline, Ceilings] | None:
    """The verdict of a run whose device was calibrated before; None if it was not."""
    if not findings.profiles:
        return None
    ceilings = stored_ceilings(run.plan.device, run.plan.threads)
    return None if ceilings is None else (judged(run, findings, ceilings), ceilings)


def judged(run: BenchmarkRun, findings: Findings, ceilings: Ceilings) -> Roofline:
    """The verdict at the profiled point."""
    return judge(
        findings.profiles[0],
        ceilings,
        run.plan.device,
        run.plan.threads,
        weight_bytes=run.signature.weight_bytes,
        datasheet=_datasheet(run.plan.device),
    )


def _datasheet(device: Device) -> Datasheet:
    """Of a device that the catalogue knows by exactly this name."""
    try:
        known = shipped().find(device.name)
    except SpecError:
        return Datasheet()
    return Datasheet(flop_per_s=known.fp32_flop_per_s, bytes_per_s=known.memory_bytes_per_s)
