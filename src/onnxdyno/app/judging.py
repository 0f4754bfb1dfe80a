"""What stored ceilings say of a run."""

from dataclasses import replace

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


def with_verdicts(run: BenchmarkRun, findings: Findings) -> Findings:
    """The findings with what bounds the first profile and each of its nodes, where the device was calibrated before."""
    known = known_roofline(run, findings)
    if known is None:
        return findings
    roofline, _ = known
    first, *others = findings.profiles
    verdicts = {verdict.found: verdict for verdict in roofline.nodes}
    nodes = tuple(
        replace(node, bound=verdicts[node].bound, bound_reason=verdicts[node].reason) if node in verdicts else node
        for node in first.nodes
    )
    judged_first = replace(
        first,
        nodes=nodes,
        bound=roofline.bound,
        bound_margin=roofline.margin,
        bound_reason=None if roofline.bound else roofline.reason,
    )
    return replace(findings, profiles=(judged_first, *others))


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
