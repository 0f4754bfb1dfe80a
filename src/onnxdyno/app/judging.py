"""What stored ceilings say of a run."""

from dataclasses import replace

from onnxdyno.analysis.roofline import Datasheet, judge
from onnxdyno.app.ceilings import stored_ceilings
from onnxdyno.domain.ceilings import Ceilings
from onnxdyno.domain.devices import Device, DeviceKind
from onnxdyno.domain.findings import Findings
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.domain.verdicts import Roofline
from onnxdyno.hardware.catalogue import find_accelerator, find_cpu


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
        datasheet=datasheet_of(run.plan.device, run.plan.threads),
    )


def datasheet_of(device: Device, threads: int) -> Datasheet:
    """Of a GPU that the catalogue knows by exactly this name and memory, or a CPU by its name; else nothing.

    Threads of a CPU can use as many of its cores at most. Contractions in float32 run in TF32 where a GPU has it, as
    the runtime has it so unless told otherwise.
    """
    if device.kind is DeviceKind.CPU:
        cpu = find_cpu(device.name)
        if cpu is None:
            return Datasheet()
        peak = cpu.fp32_flop_per_s
        share = min(1.0, threads / cpu.cores)
        others = tuple((dtype, None) for dtype in ("float16", "bfloat16", "float64", "int8"))
        return Datasheet(flop_per_s=peak and peak * share, bytes_per_s=cpu.memory_bytes_per_s, contractions=others)
    gpu = find_accelerator(device.name, device.memory_bytes)
    if gpu is None:
        return Datasheet()
    contractions = (
        ("float32", gpu.tf32_flop_per_s or gpu.fp32_flop_per_s),
        ("float16", gpu.fp16_flop_per_s or gpu.fp16_nontensor_flop_per_s),
        ("bfloat16", gpu.bf16_flop_per_s),
        ("int8", gpu.int8_op_per_s),
        ("float64", None),
    )
    return Datasheet(flop_per_s=gpu.fp32_flop_per_s, bytes_per_s=gpu.memory_bytes_per_s, contractions=contractions)
