"""Energy of the calls that count: differences of a counter over the steady windows. Idle power is not subtracted."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from onnxdyno.domain.outcomes import Measured, SteadySpan
from onnxdyno.domain.plan import Protocol
from onnxdyno.domain.telemetry import Energy, TelemetrySample

NVML = "nvml"
RAPL = "rapl"


def gpu_energy(measured: Measured, samples: Sequence[TelemetrySample], protocol: Protocol) -> Energy:
    """By the GPU's own counter, between readings in proportion to time; windows with excluded samples are left out."""
    spans = [span for span in measured.spans if not _is_touched(span, measured.excluded)]
    runs = sum(span.end - span.first for span in spans)
    readings = [(sample.t_ns, sample.energy_mj) for sample in samples if sample.energy_mj is not None]
    reason = _unusable(spans, readings, samples, protocol)
    if reason is not None:
        return Energy(energy_mj=None, runs=runs, source=NVML, reason=reason)
    energy_mj = sum(_at(readings, span.opened_ns + span.wall_ns) - _at(readings, span.opened_ns) for span in spans)
    if energy_mj <= 0:
        return Energy(energy_mj=None, runs=runs, source=NVML, reason="the energy counter did not move")
    return Energy(energy_mj=energy_mj, runs=runs, source=NVML)


def cpu_energy(energies_uj: Sequence[int | None], runs: int, unreadable: str | None) -> Energy:
    """From what a counter of the CPU's packages gave over each window that counts."""
    read = [energy_uj for energy_uj in energies_uj if energy_uj is not None]
    if unreadable is not None or len(read) < len(energies_uj):
        return Energy(energy_mj=None, runs=runs, reason=unreadable or "the energy counter stopped")
    if sum(read) <= 0:
        return Energy(energy_mj=None, runs=runs, reason="the energy counter did not move")
    return Energy(energy_mj=sum(read) / 1e3, runs=runs, source=RAPL)


def _is_touched(span: SteadySpan, excluded: Sequence[tuple[int, int, str]]) -> bool:
    return any(first < span.end and span.first < end for first, end, _ in excluded)


def _unusable(
    spans: Sequence[SteadySpan],
    readings: Sequence[tuple[int, int]],
    samples: Sequence[TelemetrySample],
    protocol: Protocol,
) -> str | None:
    if not readings:
        return next((why for sample in samples for name, why in sample.reasons if name == "energy_mj"), "not read")
    if not spans:
        return "no steady window is free of excluded samples"
    if sum(span.wall_ns for span in spans) < protocol.least_time_ns:
        return f"less than {protocol.least_time_ns / 1e9:g} s of steady time: too short for a counter of milliseconds"
    if any(after < before for (_, before), (_, after) in pairwise(readings)):
        return "the energy counter went back"
    if spans[0].opened_ns < readings[0][0] or spans[-1].opened_ns + spans[-1].wall_ns > readings[-1][0]:
        return "the energy counter was not read over all of the steady time"
    return None


def _at(readings: Sequence[tuple[int, int]], t_ns: int) -> float:
    """The counter at a time between its first and last reading."""
    after = min(bisect_right(readings, (t_ns, 2**63)), len(readings) - 1)
    (t0_ns, before_mj), (t1_ns, after_mj) = readings[after - 1], readings[after]
    return before_mj + (after_mj - before_mj) * (t_ns - t0_ns) / max(1, t1_ns - t0_ns)
