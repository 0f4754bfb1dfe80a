"""Sentences that every form of the report shares."""

from onnxdyno.domain.axes import describe
from onnxdyno.domain.devices import DeviceKind
from onnxdyno.domain.findings import Choice, Findings, PointFinding
from onnxdyno.domain.outcomes import Measured
from onnxdyno.domain.plan import Variant
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.reporting import units

_VARIANTS = {
    Variant.DEVICE: "inputs and outputs bound and preallocated",
    Variant.E2E: "host arrays in and out",
    Variant.ENQUEUE: "the host's time to submit a call",
    Variant.GRAPH: "a replayed CUDA graph, bound and preallocated",
}
_ALWAYS = {Variant.DEVICE, Variant.E2E}


def subtitle(run: BenchmarkRun) -> tuple[str, ...]:
    """On what, when and why."""
    return (run.plan.device.name, run.plan.device.device_class, run.origin.started_at, run.origin.reason)


def headlines(run: BenchmarkRun, findings: Findings) -> tuple[tuple[str, str], ...]:
    """The few numbers that most readers come for, each with its name."""
    base = next((each for each in findings.points if each.point == run.plan.base), None)
    tier = next((each for each in findings.tiers if each.tier == "minimum"), None)
    return (
        (f"p50 at {describe(run.plan.base.sizes)}", _latency(base)),
        ("best batch", _best(findings)),
        (f"memory at {describe(run.plan.base.sizes)}", units.size(base.peak_memory_bytes if base else None)),
        ("minimum device (memory alone)", (tier and tier.device_name) or units.MISSING),
    )


def method(run: BenchmarkRun) -> tuple[tuple[str, str], ...]:
    """What the numbers mean and how they were obtained: (term, sentence)."""
    spec, protocol = run.plan.spec, run.plan.protocol
    measured = dict.fromkeys(point.variant for point in run.plan.points) or dict.fromkeys(spec.variants)
    variants = " and ".join(variant.value for variant in measured)
    told = ", ".join(
        f"{variant.value} = {_VARIANTS[variant]}" for variant in Variant if variant in _ALWAYS | set(measured)
    )
    runtime = ", ".join(f"{name} {version}" for name, version in (run.launches[0].runtime if run.launches else ())[:2])
    steady = (
        f"windows of {protocol.window_ns / 1e9:g} s, steady within {100 * protocol.steady_tolerance:g} %, at least "
        f"{protocol.least_samples} samples, seed {spec.seed}, {run.plan.threads} threads, budget {spec.budget_s:g} s"
    )
    return (
        (
            "p50",
            f"median of the medians of {spec.launches} fresh processes (launches); ± is its 95 % interval{_span(run)}",
        ),
        (
            "p90, p99",
            "of all samples, each launch brought to the common median; only where they are enough for an interval",
        ),
        ("items/s", "items of the batch per second of back-to-back wall time"),
        ("latency", f"steady state only (no warm-up, no first run, no profiler); variant {variants}: {told}"),
        (
            "memory",
            "peak over the process's baseline, each point in its own process; MiB = 2^20 bytes, GiB = 2^30 bytes",
        ),
        *_energy(run),
        ("nodes", "median self time over profiled runs; the profiler slows a run down, so read the shares"),
        (f"protocol {protocol.version}", steady),
        *((("runtime", runtime),) if runtime else ()),
        ("model", f"sha256 {run.plan.model.ref.sha256}"),
        ("run", run.origin.run_id),
    )


def _span(run: BenchmarkRun) -> str:
    """What the intervals speak of: a machine that is shared may be another one minutes later."""
    return "" if run.launches_span_s is None else f" for the {run.launches_span_s:.0f} s that they took"


def _energy(run: BenchmarkRun) -> tuple[tuple[str, str], ...]:
    """What energy is of, where any was read."""
    is_read = any(isinstance(each, Measured) and each.energy and each.energy.energy_mj for each in run.outcomes)
    if not is_read:
        return ()
    whose = (
        "all CPU packages (RAPL), with everything else that ran on them"
        if run.plan.device.kind is DeviceKind.CPU
        else "the whole GPU by its own counter"
    )
    return (("mJ, J", f"energy over the steady calls of {whose}; idle power is in it"),)


def _latency(point: PointFinding | None) -> str:
    if point is None or point.p50_ns.value is None:
        return units.MISSING
    unit = units.latency_unit([point.p50_ns.value])
    return f"{units.with_interval(point.p50_ns, unit)} {unit.name}"


def _best(findings: Findings) -> str:
    choice: Choice = findings.best_batch
    point = next((each for each in findings.points if each.point == choice.point), None)
    if choice.value is None or point is None:
        return units.MISSING
    return f"{choice.value:g} ({units.number(point.throughput_items_per_s.value, units.ITEMS_PER_S)} items/s)"
