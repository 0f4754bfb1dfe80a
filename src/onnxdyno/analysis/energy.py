"""Energy of a call and of an item, and what the telemetry of a run leaves unknown."""

from collections.abc import Iterable, Sequence

from onnxdyno.analysis.latency import over_launches
from onnxdyno.domain.devices import DeviceKind
from onnxdyno.domain.findings import Estimate
from onnxdyno.domain.outcomes import Measured
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.domain.telemetry import Energy, TelemetrySample


def energy_per_call_mj(measured: Sequence[Measured], confidence: float = 0.95) -> Estimate:
    """Millijoules a call, per launch, then over launches. Idle power is in it: it is what the calls cost."""
    return _over_launches(measured, 1, confidence)


def energy_per_item_mj(measured: Sequence[Measured], items: int | None, confidence: float = 0.95) -> Estimate:
    """The same for each of the items of a call."""
    if items is None:
        return Estimate(value=None, reason="items cannot be counted")
    return _over_launches(measured, items, confidence)


def _over_launches(measured: Sequence[Measured], parts: int, confidence: float) -> Estimate:
    read = [each.energy for each in measured if each.energy is not None]
    values = [value for energy in read if (value := _per_run(energy)) is not None]
    if not values:
        return Estimate(value=None, reason=next((each.reason for each in read if each.reason), "energy was not read"))
    return over_launches([value / parts for value in values], confidence)


def _per_run(energy: Energy) -> float | None:
    return None if energy.energy_mj is None or energy.runs == 0 else energy.energy_mj / energy.runs


def telemetry_gaps(run: BenchmarkRun) -> Iterable[str]:
    """What nobody could see of a GPU while it was measured, so that silence is not taken for a good sign."""
    if run.plan.device.kind is not DeviceKind.CUDA or not any(isinstance(each, Measured) for each in run.outcomes):
        return
    unread = (each.device_clock_reason for each in run.outcomes if isinstance(each, Measured))
    if (no_clock := next(filter(None, unread), None)) is not None:
        yield f"Where warm-up ended, the GPU's SM clock was not looked at, at some points at least: {no_clock}."
    samples = [sample for outcome in run.outcomes for sample in outcome.telemetry]
    if not samples:
        yield "The GPU was not watched while it was measured: throttling or other tenants would not have been seen."
        return
    why = dict(reason for sample in samples for reason in sample.reasons)
    if all(sample.clock_events is None for sample in samples):
        yield f"Throttling would not have been seen: {why.get('clock_events', 'not read')}."
    if all(sample.tenants is None for sample in samples):
        yield f"Other processes on the GPU would not have been seen: {why.get('tenants', 'not read')}."
    elif not any(tenant.is_ours for sample in samples for tenant in sample.tenants or ()):
        yield _told_apart(samples)


def _told_apart(samples: Sequence[TelemetrySample]) -> str:
    """Of a container, where no process id is ours."""
    if any(sample.tenants for sample in samples):
        return (
            "The GPU's process ids are not of this process table (a container): one process there is taken for ours, "
            "and a second beside it would have been seen."
        )
    return (
        "The driver listed no process on the GPU, not even ours (a container): processes that came while it was "
        "measured would not have been seen, only memory in use before."
    )
