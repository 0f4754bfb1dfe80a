"""How often published intervals hold a known truth: `PYTHONPATH=tests python -m benchmarks.coverage_simulated [RUNS]`.

Simulated machines (tests/simulated.py: launches that differ by 1 %; noise that is independent, correlated, drifting or
in bursts) go through the real analysis, and through the real timing loop with its stop rules. A line for each machine,
number of launches and number of calls: how many of RUNS (1,000) published intervals held the truth, each percentile.
Beside them the textbook's interval of one process. Then what it does to launch again while the interval is wide: 3
launches, further ones up to 10 until it is narrow, on machines whose launches differ by more. About 5 minutes.
"""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from statistics import fmean, median

import numpy as np

from onnxdyno.domain.findings import Estimate, PointFinding
from onnxdyno.intervals import interval_ranks
from simulated import (
    ASKED,
    MACHINES,
    QUIET,
    Coverage,
    Machine,
    Runs,
    coverage,
    published,
    stopped_runs,
    timed_runs,
)

SHAPES = ((3, 34), (3, 150), (3, 600), (5, 34), (5, 150), (5, 600))
SPREADS = (0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.15)
PERCENTILES: tuple[tuple[float, Callable[[PointFinding], Estimate]], ...] = (
    (0.50, lambda found: found.p50_ns),
    (0.90, lambda found: found.p90_ns),
    (0.95, lambda found: found.p95_ns),
    (0.99, lambda found: found.p99_ns),
)
Interval = tuple[float, float] | None


def main(runs: int) -> None:
    standard_error = 100 * (0.95 * 0.05 / runs) ** 0.5
    print(f"{runs:,} runs a line; binomial standard error of a share near 95 %: {standard_error:.1f} points.")
    print("percentile: intervals that held the truth, % (published, % of runs; median half-width, % of the truth)\n")
    for machine in MACHINES:
        print(
            f"{machine.name}: one call in a typical launch takes {machine.truth_ns(0.5) / 1e6:.3f} ms at p50, ", end=""
        )
        print(f"{machine.truth_ns(0.9) / 1e6:.3f} at p90, {machine.truth_ns(0.99) / 1e6:.3f} at p99")
        for launches, n in SHAPES:
            samples_ns = machine.samples_ns(np.random.default_rng(n + launches), runs=runs, launches=launches, n=n)
            show(machine, f"{launches} × {n:>3} calls", samples_ns.tolist())
        for launches in (3, 5):
            loop = timed_runs(machine, np.random.default_rng(launches), runs=runs, launches=launches)
            show(machine, f"{launches} × real loop", loop)
        print()
    show_stopped(runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """Runs that launched until their interval was narrow: as published, and as plain 95 % t intervals would have it."""

    spread: float
    ours: Coverage
    plain: Coverage
    launches: float
    """Mean of the runs."""


def stopped(spread: float, runs: int, calls: int = 12) -> Stopped:
    """One machine whose launches differ by `spread`."""
    machine = replace(QUIET, spread=spread)
    made = stopped_runs(machine, np.random.default_rng(round(1e4 * spread)), runs=runs, n=calls)
    truth = machine.truth_ns(0.5)
    return Stopped(
        spread=spread,
        ours=coverage([interval(each.p50_ns) for each in published(made, ASKED)], truth),
        plain=coverage([interval(each.p50_ns) for each in published(made)], truth),
        launches=fmean(map(len, made)),
    )


def show_stopped(runs: int) -> None:
    """What launching until the interval is narrow does to it."""
    print("3 launches, further ones up to 10 while the interval of p50 is wider than 5 %: held the truth, %")
    for spread in SPREADS:
        got = stopped(spread, runs)
        print(
            f"  launches differ by {spread:4.0%}: published {100 * got.ours.share:5.1f}, as 95 % t intervals "
            f"{100 * got.plain.share:5.1f}; {got.launches:4.1f} launches; median half-width "
            f"{100 * median(got.ours.half_widths):4.1f} %",
            flush=True,
        )


def show(machine: Machine, what: str, runs: Runs) -> None:
    """One line: published intervals of each percentile, then the textbook's interval of the first launch's median."""
    found = published(runs)
    cells = []
    for q, of in PERCENTILES:
        got = coverage([interval(of(each)) for each in found], machine.truth_ns(q))
        cells.append(f"p{q * 100:g} {cell(got)}")
    naive = coverage([within(run[0]) for run in runs], machine.truth_ns(0.5))
    worth = median(each.n_eff.value / each.n for each in found if each.n_eff.value is not None)
    print(f"  {what}  {'  '.join(cells)}  one process p50 {100 * naive.share:4.1f}  n_eff/n {worth:.2f}", flush=True)


def cell(got: Coverage) -> str:
    """`95.1 (100; 1.2)`."""
    if not got.published:
        return " none (  0;  —)"
    return f"{100 * got.share:5.1f} ({100 * got.published / got.runs:3.0f}; {100 * median(got.half_widths):4.1f})"


def interval(estimate: Estimate) -> Interval:
    """The published interval, if there is one."""
    return None if estimate.low is None or estimate.high is None else (estimate.low, estimate.high)


def within(samples_ns: Iterable[int]) -> Interval:
    """The textbook's interval of the median, which takes all samples for independent."""
    ordered = sorted(samples_ns)
    ranks = interval_ranks(len(ordered), 0.5)
    return None if ranks is None else (ordered[ranks[0]], ordered[ranks[1]])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
