"""Samples of all launches of a point -> one finding. Estimates are over launches: one process looks too quiet."""

from collections.abc import Callable, Sequence
from statistics import median

from onnxdyno.analysis.autocorrelation import n_eff, tail_n_eff
from onnxdyno.domain.findings import Estimate, PointFinding
from onnxdyno.domain.outcomes import WORST_FIRST, Flag, Measured, MemoryReading, PointState, Skipped
from onnxdyno.domain.plan import BenchmarkPlan, Point, Protocol
from onnxdyno.intervals import interval_ranks, interval_shares, quantile, t_interval

ONE_LAUNCH = "one launch: what differs between launches is unknown; ask for two or more"
UNSEEN_CLUMPS = 2
"""By what a thin tail's samples are taken to be worth less than they seem: it is too thin to show its clumps; where
it has some (bursts of 5 calls), intervals without this held p90 of 170 calls 91 times in 100, p95 83 times."""
LEAST_IN_TAIL = 50
"""Samples above a percentile, below which their own autocorrelation is a guess: see benchmarks/coverage_simulated."""


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
    launches = [kept_samples(each) for each in measured]
    confidence = plan.confidence_of(len(measured))
    pooled = sorted(sample for launch in launches for sample in launch)
    worth = n_eff(launches)
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
        n_eff=worth,
        p50_ns=over_launches([median(launch) for launch in launches], confidence),
        p90_ns=tail(launches, 0.90, worth, confidence),
        p95_ns=tail(launches, 0.95, worth, confidence),
        p99_ns=tail(launches, 0.99, worth, confidence),
        mad_ns=_spread(pooled, lambda: quantile(sorted(abs(sample - middle) for sample in pooled), 0.5)),
        iqr_ns=_spread(pooled, lambda: quantile(pooled, 0.75) - quantile(pooled, 0.25)),
        throughput_items_per_s=_throughput(measured, items, no_items, confidence),
        first_run_ns=over_launches([each.first_run_ns for each in measured], confidence),
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


def over_launches(values: Sequence[float], confidence: float = 0.95) -> Estimate:
    """Median of one value per launch, with the t interval over launches (not below 0, and never beside the median).

    `confidence` is that of the t interval; what is published holds the truth 95 times in 100 if it comes from
    `BenchmarkPlan.confidence_of`.
    """
    middle = float(median(values))
    interval = t_interval(values, confidence)
    if interval is None:
        return Estimate(value=middle, reason=ONE_LAUNCH)
    return Estimate(value=middle, low=max(0.0, min(interval[0], middle)), high=max(interval[1], middle))


def tail(launches: Sequence[Sequence[int]], q: float, worth: Estimate, confidence: float = 0.95) -> Estimate:
    """A tail percentile of a typical launch: the q-quantile of all samples, each launch brought to the common median.

    So a slow launch is no tail, and launches too short for a percentile of their own still give one together. None
    where all samples are too few for any interval of it. The interval is the wider, on each side, of two: Student's t
    over the launches' own percentiles (launches differ in level and in shape), and order statistics of all samples for
    the number that they are worth (a launch has few samples in its tail). `worth` is `n_eff` of these launches.
    """
    n = sum(map(len, launches))
    name = f"p{q * 100:g}"
    if interval_ranks(n, q) is None:
        return Estimate(value=None, reason=f"{n} samples are too few for a 95 % interval of {name}")
    levelled = _levelled(launches)
    pooled = sorted(sample for launch in levelled for sample in launch)
    value = quantile(pooled, q)
    between = t_interval([quantile(sorted(launch), q) for launch in launches], confidence)
    if between is None:
        return Estimate(value=value, reason=ONE_LAUNCH)
    independent = _tail_worth(levelled, value, q, worth)
    shares = _tail_shares(n, independent, q)
    if shares is None:
        told = f"{n} samples that follow one another are worth {independent:.0f} independent ones"
        return Estimate(value=value, reason=f"{told}, too few for a 95 % interval of {name}")
    low, high = quantile(pooled, shares[0]), quantile(pooled, shares[1])
    return Estimate(value=value, low=max(0.0, min(between[0], low, value)), high=max(between[1], high, value))


def _levelled(launches: Sequence[Sequence[int]]) -> list[list[float]]:
    """Samples times common median over launch median; as they are where a clock read 0 for half a launch."""
    medians = [median(launch) for launch in launches]
    if min(medians) <= 0:
        return [list(map(float, launch)) for launch in launches]
    common = median(medians)
    return [[sample * (common / own) for sample in launch] for launch, own in zip(launches, medians, strict=True)]


def _tail_worth(levelled: Sequence[Sequence[float]], value: float, q: float, worth: Estimate) -> float:
    """The effective number of samples for this tail; a thin one cannot show its clumps, the median can."""
    n = sum(map(len, levelled))
    own = tail_n_eff(levelled, value)
    is_thin = n * (1 - q) < LEAST_IN_TAIL
    return min(own, worth.value) if is_thin and worth.value is not None else own


def _tail_shares(n: int, independent: float, q: float) -> tuple[float, float] | None:
    """Which quantiles enclose this one. A thin tail reaches to the largest sample rather than be too narrow."""
    shares = interval_shares(independent, q)
    if n * (1 - q) >= LEAST_IN_TAIL or shares is None:
        return shares
    return interval_shares(independent / UNSEEN_CLUMPS, q) or (shares[0], 1.0)


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
    """The worst state of the launches; a launch that is missing makes a point at most `unconverged`.

    A launch that is only short is as good as `ok` where all together have the runs and the time that the protocol
    asks for: it asks for them in total.
    """
    short_ones = [each for each in measured if each.is_short]
    is_enough = bool(short_ones) and has_enough([kept_samples(each) for each in measured], plan.protocol)
    states = {PointState.OK if each.is_short and is_enough else each.state for each in measured}
    worst = next(state for state in WORST_FIRST if state in states)
    reasons = _why(worst, [each for each in measured if not (each.is_short and is_enough)], measured)
    if len(measured) < plan.spec.launches:
        lost = [f"launch {each.launch}: {each.state.value}: {each.reason}" for each in skipped]
        if worst is PointState.OK:
            worst = PointState.UNCONVERGED
        reasons = [f"{len(measured)} of {plan.spec.launches} launches.", *lost, *reasons]
    return worst, " ".join(reasons) or None


def has_enough(launches: Sequence[Sequence[int]], protocol: Protocol) -> bool:
    """Whether the steady samples of all launches together, in nanoseconds, are as many and as long as is asked."""
    n, time_ns = sum(map(len, launches)), sum(map(sum, launches))
    return n >= protocol.least_samples and time_ns >= protocol.least_time_ns


def _why(worst: PointState, judged: Sequence[Measured], measured: Sequence[Measured]) -> list[str]:
    """The reasons of the worst launches; where budgets ran out, in one sentence with the runs of each launch."""
    worst_launches = [each for each in judged if each.state is worst and each.reason]
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
        n_eff=nothing,
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


def _throughput(measured: Sequence[Measured], items: int | None, no_items: str | None, confidence: float) -> Estimate:
    """Items per second from back-to-back wall time, per launch, then over launches."""
    if items is None:
        return Estimate(value=None, reason=no_items)
    return over_launches([items * each.runs / each.busy_ns * 1e9 for each in measured], confidence)


def _spread(pooled: Sequence[int], value: Callable[[], float]) -> Estimate:
    if len(pooled) < 2:
        return Estimate(value=None, reason="one sample has no spread")
    return Estimate(value=value(), reason="an interval of a spread is not published")


def _memory_reason(memory: MemoryReading | None) -> str | None:
    if memory is None:
        return "memory was not measured at this point"
    return memory.reason
