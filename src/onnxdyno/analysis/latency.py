"""Samples of all launches of a point -> one finding. Estimates are over launches: one process looks too quiet."""

from collections.abc import Callable, Sequence
from statistics import median

from onnxdyno.domain.findings import Estimate, PointFinding
from onnxdyno.domain.outcomes import Flag, Measured, MemoryReading, PointState, Skipped
from onnxdyno.domain.plan import BenchmarkPlan, Point
from onnxdyno.intervals import interval_ranks, quantile, t_interval

_WORST_FIRST = (
    PointState.DISTURBED,
    PointState.NOT_STEADY,
    PointState.UNCONVERGED,
    PointState.NOISY,
    PointState.OK,
)
ONE_LAUNCH = "one launch: what differs between launches is unknown; ask for two or more"


def point_finding(
    point: Point,
    *,
    measured: Sequence[Measured],
    skipped: Sequence[Skipped],
    memory: MemoryReading | None,
    plan: BenchmarkPlan,
    reference: tuple[str, ...],
) -> PointFinding:
    """What is published of one point. `reference`: outputs of the base point, to see whether batch scales them."""
    if not measured:
        return _unmeasured(point, skipped, memory)
    items, no_items = items_of(point, measured[0].outputs, plan, reference)
    flags = {flag for each in measured for flag in each.flags} | ({Flag.BATCH_NOT_SCALED} if items is None else set())
    pooled = sorted(sample for each in measured for sample in kept_samples(each))
    state, reason = _state(measured, skipped, plan)
    middle = quantile(pooled, 0.5)
    return PointFinding(
        point=point,
        state=state,
        flags=tuple(sorted(flags)),
        reason=reason,
        remedy=skipped[0].remedy if skipped else "",
        n=len(pooled),
        launches=len(measured),
        excluded=sum(end - first for each in measured for first, end, _ in each.excluded),
        p50_ns=over_launches([median(kept_samples(each)) for each in measured]),
        p90_ns=tail(measured, pooled, 0.90),
        p95_ns=tail(measured, pooled, 0.95),
        p99_ns=tail(measured, pooled, 0.99),
        mad_ns=_spread(pooled, lambda: quantile(sorted(abs(sample - middle) for sample in pooled), 0.5)),
        iqr_ns=_spread(pooled, lambda: quantile(pooled, 0.75) - quantile(pooled, 0.25)),
        throughput_items_per_s=_throughput(measured, items, no_items),
        first_run_ns=over_launches([each.first_run_ns for each in measured]),
        peak_memory_bytes=memory.peak_bytes if memory else None,
        peak_memory_reason=_memory_reason(memory),
        items=items,
    )


def kept_samples(measured: Measured) -> list[int]:
    """Steady samples without those excluded for a recorded cause."""
    kept = list(measured.samples_ns)
    for first, end, _ in reversed(measured.excluded):
        del kept[first:end]
    return kept


def over_launches(values: Sequence[float]) -> Estimate:
    """Median of one value per launch, with the t interval over launches (not below 0, and never beside the median)."""
    middle = float(median(values))
    interval = t_interval(values)
    if interval is None:
        return Estimate(value=middle, reason=ONE_LAUNCH)
    return Estimate(value=middle, low=max(0.0, min(interval[0], middle)), high=max(interval[1], middle))


def tail(measured: Sequence[Measured], pooled: Sequence[int], q: float) -> Estimate:
    """A tail percentile of all samples; null where n is too small for any interval of it.

    The interval is the wider on each side of the order-statistic interval of all samples (which takes them for
    independent) and the t interval over the launches' own percentiles, where each launch has samples enough.
    """
    ranks = interval_ranks(len(pooled), q)
    if ranks is None:
        return Estimate(value=None, reason=f"{len(pooled)} samples are too few for a 95 % interval of p{q * 100:g}")
    low, high = float(pooled[ranks[0]]), float(pooled[ranks[1]])
    launches = [sorted(kept_samples(each)) for each in measured]
    if all(interval_ranks(len(launch), q) for launch in launches):
        between = t_interval([quantile(launch, q) for launch in launches])
        if between is not None:
            low, high = min(low, max(0.0, between[0])), max(high, between[1])
    return Estimate(value=quantile(pooled, q), low=low, high=high)


def items_of(
    point: Point, outputs: tuple[str, ...], plan: BenchmarkPlan, reference: tuple[str, ...]
) -> tuple[int | None, str | None]:
    """Items that one call processes, or None with the reason when no output changes with the batch.

    A model without a batch axis processes one item a call.
    """
    if not plan.batch_axes:
        return plan.fixed_batch or 1, None
    batch, base = batch_of(point, plan), batch_of(plan.base, plan)
    same_elsewhere = all(
        size == dict(plan.base.sizes).get(name) for name, size in point.sizes if name not in plan.batch_axes
    )
    if batch != base and same_elsewhere and reference and outputs == reference:
        return None, f"no output changes its shape between batch {base} and batch {batch}: items cannot be counted"
    return batch, None


def batch_of(point: Point, plan: BenchmarkPlan) -> int:
    """The size of the batch axes at a point: they are swept together, so any of them tells."""
    sizes = dict(point.sizes)
    return next((sizes[name] for name in plan.batch_axes if name in sizes), 1)


def _state(
    measured: Sequence[Measured], skipped: Sequence[Skipped], plan: BenchmarkPlan
) -> tuple[PointState, str | None]:
    """The worst state of the launches; a launch that is missing makes a point at most `unconverged`."""
    states = {each.state for each in measured}
    worst = next(state for state in _WORST_FIRST if state in states)
    reasons = _why(worst, measured)
    if len(measured) < plan.spec.launches:
        lost = [f"launch {each.launch}: {each.state.value}: {each.reason}" for each in skipped]
        if worst is PointState.OK:
            worst = PointState.UNCONVERGED
        reasons = [f"{len(measured)} of {plan.spec.launches} launches.", *lost, *reasons]
    return worst, " ".join(reasons) or None


def _why(worst: PointState, measured: Sequence[Measured]) -> list[str]:
    """The reasons of the worst launches; where budgets ran out, in one sentence with the runs of each launch."""
    worst_launches = [each for each in measured if each.state is worst and each.reason]
    if worst is not PointState.UNCONVERGED:
        return [f"launch {each.launch}: {each.reason}" for each in worst_launches]
    runs = ", ".join(str(each.runs) for each in measured)
    short = f"in {len(worst_launches)} of {len(measured)} launches" if len(measured) > 1 else "in its one launch"
    return [f"the time budget ended before the protocol's precision {short} (steady runs: {runs}). Raise --budget."]


def _unmeasured(point: Point, skipped: Sequence[Skipped], memory: MemoryReading | None) -> PointFinding:
    first = skipped[0]
    nothing = Estimate(value=None, reason=f"{first.state.value}: {first.reason}")
    return PointFinding(
        point=point,
        state=first.state,
        flags=(),
        reason=first.reason,
        remedy=first.remedy,
        n=0,
        launches=0,
        excluded=0,
        p50_ns=nothing,
        p90_ns=nothing,
        p95_ns=nothing,
        p99_ns=nothing,
        mad_ns=nothing,
        iqr_ns=nothing,
        throughput_items_per_s=nothing,
        first_run_ns=nothing,
        peak_memory_bytes=memory.peak_bytes if memory else None,
        peak_memory_reason=_memory_reason(memory),
        items=None,
    )


def _throughput(measured: Sequence[Measured], items: int | None, no_items: str | None) -> Estimate:
    """Items per second from back-to-back wall time, per launch, then over launches."""
    if items is None:
        return Estimate(value=None, reason=no_items)
    return over_launches([items * each.runs / each.busy_ns * 1e9 for each in measured])


def _spread(pooled: Sequence[int], value: Callable[[], float]) -> Estimate:
    if len(pooled) < 2:
        return Estimate(value=None, reason="one sample has no spread")
    return Estimate(value=value(), reason="an interval of a spread is not published")


def _memory_reason(memory: MemoryReading | None) -> str | None:
    if memory is None:
        return "memory was not measured at this point"
    return memory.reason
