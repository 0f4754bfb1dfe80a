"""The rows of what is read beside latency: memory, cold numbers, the device while it worked."""

from typing import Any

from onnxdyno.domain.findings import ColdFinding, Findings, MemoryFinding
from onnxdyno.domain.outcomes import Measured, Outcome
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.domain.telemetry import TelemetrySample, event_names
from onnxdyno.storage.jsontext import finite
from onnxdyno.storage.rows.columns import at, estimate, key
from onnxdyno.storage.rowtypes import ColdRow, MemoryRow, TelemetryRow


def memory_rows(run: BenchmarkRun, findings: Findings) -> tuple[MemoryRow, ...]:
    """One row per point whose memory was read, or was to be."""
    return tuple(
        MemoryRow(
            **key(run),
            variant=finding.point.variant.value,
            **at(run.signature, finding.point.sizes),
            **_values(finding.memory),
            predicted_error=finite(finding.memory.predicted_error.value),
            processes=finding.memory.processes,
            reasons=tuple(finding.memory.reasons.items()),
        )
        for finding in findings.points
        if finding.memory is not None
    )


def _values(memory: MemoryFinding) -> dict[str, Any]:
    return {name: count.value for name, count in memory.counts.items()}


def cold_rows(run: BenchmarkRun, findings: Findings) -> tuple[ColdRow, ...]:
    """One row per cold number, in the order of the findings."""
    return tuple(_cold(run, finding) for finding in findings.cold)


def _cold(run: BenchmarkRun, finding: ColdFinding) -> ColdRow:
    return ColdRow(
        **key(run),
        phase=finding.phase.value,
        optimisation=finding.optimisation and finding.optimisation.value,
        page_cache=finding.page_cache,
        variant=finding.point.variant.value if finding.point else None,
        axes=finding.point.sizes if finding.point else None,
        launches=len(finding.values_ns),
        **estimate("time", finding.time_ns),
        read_bytes=finding.read_bytes,
        was_cached=finding.was_cached,
        values_ns=finding.values_ns,
    )


def telemetry_rows(run: BenchmarkRun) -> tuple[TelemetryRow, ...]:
    """One row per reading of the device, in the order of the outcomes; a point that was throttled has its own too."""
    return tuple(_telemetry(run, outcome, sample) for outcome in run.outcomes for sample in outcome.telemetry)


def _telemetry(run: BenchmarkRun, outcome: Outcome, sample: TelemetrySample) -> TelemetryRow:
    return TelemetryRow(
        **key(run),
        variant=outcome.point.variant.value,
        **at(run.signature, outcome.point.sizes),
        launch=outcome.launch,
        t_ns=sample.t_ns,
        is_steady=isinstance(outcome, Measured)
        and any(span.opened_ns <= sample.t_ns < span.opened_ns + span.wall_ns for span in outcome.spans),
        sm_clock_mhz=sample.sm_clock_mhz,
        memory_clock_mhz=sample.memory_clock_mhz,
        power_mw=sample.power_mw,
        temperature_c=sample.temperature_c,
        utilisation=sample.utilisation,
        memory_used_bytes=sample.memory_used_bytes,
        clock_event_bits=sample.clock_events,
        clock_events=None if sample.clock_events is None else event_names(sample.clock_events),
        energy_mj=sample.energy_mj,
        own_processes=_processes(sample, is_ours=True),
        other_processes=_processes(sample, is_ours=False),
        reasons=sample.reasons,
    )


def _processes(sample: TelemetrySample, *, is_ours: bool) -> int | None:
    return None if sample.tenants is None else sum(tenant.is_ours is is_ours for tenant in sample.tenants)
