"""One row per point, with what each launch made of it."""

from onnxdyno.domain.findings import Findings, PointFinding
from onnxdyno.domain.outcomes import Measured, Outcome, Skipped
from onnxdyno.domain.plan import Point
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.storage.jsontext import finite
from onnxdyno.storage.rows.columns import at, estimate, key
from onnxdyno.storage.rowtypes import OutcomeEntry, PointRow


def point_rows(run: BenchmarkRun, findings: Findings) -> tuple[PointRow, ...]:
    """One row per point, in the order of the findings."""
    outcomes: dict[Point, list[OutcomeEntry]] = {}
    for outcome in run.outcomes:
        outcomes.setdefault(outcome.point, []).append(_outcome(outcome))
    baselines = {reading.point: reading.baseline_bytes for reading in run.memory}
    return tuple(
        _point(run, point, tuple(outcomes.get(point.point, ())), baselines.get(point.point), findings.front)
        for point in findings.points
    )


def _point(
    run: BenchmarkRun,
    finding: PointFinding,
    outcomes: tuple[OutcomeEntry, ...],
    baseline_bytes: int | None,
    on_front: tuple[Point, ...],
) -> PointRow:
    return PointRow(
        **key(run),
        variant=finding.point.variant.value,
        **at(run.signature, finding.point.sizes),
        threads=finding.point.threads or run.plan.threads,
        concurrency=finding.point.concurrency,
        is_on_front=finding.point in on_front if finding.state.is_measured else None,
        state=finding.state.value,
        flags=tuple(flag.value for flag in finding.flags),
        reason=finding.reason,
        remedy=finding.remedy or None,
        n=finding.n,
        launches=finding.launches,
        excluded=finding.excluded,
        n_eff=finite(finding.n_eff.value),
        n_eff_reason=finding.n_eff.reason,
        items=finding.items,
        **estimate("p50", finding.p50_ns),
        **estimate("p90", finding.p90_ns),
        **estimate("p95", finding.p95_ns),
        **estimate("p99", finding.p99_ns),
        **estimate("mad", finding.mad_ns),
        **estimate("iqr", finding.iqr_ns),
        **estimate("throughput", finding.throughput_items_per_s, unit="items_per_s", scale=1.0),
        **estimate("first_run", finding.first_run_ns),
        **estimate("energy_per_item", finding.energy_per_item_mj, unit="mj", scale=1.0),
        **estimate("energy_per_call", finding.energy_per_call_mj, unit="mj", scale=1.0),
        **estimate("event", finding.event_ns),
        **estimate("h2d", finding.h2d_ns),
        **estimate("d2h", finding.d2h_ns),
        peak_memory_bytes=finding.peak_memory_bytes,
        peak_memory_reason=finding.peak_memory_reason,
        baseline_memory_bytes=baseline_bytes,
        flops=finding.flops.value,
        activation_peak_bytes=finding.activation_peak_bytes.value,
        cost_reason=finding.flops.reason or finding.activation_peak_bytes.reason,
        outcomes=outcomes,
    )


def _outcome(outcome: Outcome) -> OutcomeEntry:
    match outcome:
        case Measured():
            return OutcomeEntry(
                launch=outcome.launch,
                state=outcome.state.value,
                reason=outcome.reason,
                remedy=None,
                first_run_ns=outcome.first_run_ns,
                busy_ns=outcome.busy_ns,
                runs=outcome.runs,
                outputs=outcome.outputs,
                input_sha256=outcome.input_sha256 or None,
            )
        case Skipped():
            return OutcomeEntry(
                launch=outcome.launch,
                state=outcome.state.value,
                reason=outcome.reason,
                remedy=outcome.remedy or None,
                first_run_ns=None,
                busy_ns=None,
                runs=None,
                outputs=(),
                input_sha256=None,
            )
