"""What stored ceilings say of a run."""

from onnxdyno.analysis.roofline import Datasheet, judge
from onnxdyno.app.ceilings import stored_ceilings
from onnxdyno.domain.ceilings import Ceilings
from onnxdyno.domain.devices import Device
from onnxdyno.domain.errors import SpecError
from onnxdyno.domain.findings import Findings
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.domain.verdicts import Roofline
from onnxdyno.hardware.lookup import shipped


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
