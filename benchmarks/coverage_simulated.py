"""How often published intervals hold a known truth: `PYTHONPATH=tests python benchmarks/coverage_simulated.py [RUNS]`.

Simulated machines (tests/simulated.py: launches that differ by 1 %; noise that is independent, correlated, drifting or
in bursts) go through the real analysis, and through the real timing loop with its stop rules. A line for each machine,
number of launches and number of calls: how many of RUNS (1,000) published intervals held the truth, each percentile.
Beside them the textbook's interval of one process. Two plots are written to docs/images. About 5 minutes.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median

import numpy as np

from onnxdyno.analysis.latency import over_launches
from onnxdyno.domain.findings import Estimate, PointFinding
from onnxdyno.intervals import interval_ranks
from onnxdyno.reporting import svg
from simulated import (
    CORRELATED,
    MACHINES,
    QUIET,
    Coverage,
    Machine,
    Runs,
    coverage,
    published,
    timed_runs,
)

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SHAPES = ((3, 34), (3, 150), (3, 600), (5, 34), (5, 150), (5, 600))
PERCENTILES: tuple[tuple[float, Callable[[PointFinding], Estimate]], ...] = (
    (0.50, lambda found: found.p50_ns),
    (0.90, lambda found: found.p90_ns),
    (0.95, lambda found: found.p95_ns),
    (0.99, lambda found: found.p99_ns),
)
Interval = tuple[float, float] | None
STYLE = """
svg { font: 12px system-ui, sans-serif; background: #fff }
.axis-title, .named { fill: #333 } .tick { fill: #666; font-size: 11px }
.grid { stroke: #ddd } .truth { stroke: #333 } .band { fill: #e7f3ea }
.curve { fill: none; stroke-width: 2 } .ours, .ours-five { stroke: #1a7f4b } .naive, .pooled { stroke: #c4472b }
.ours-five, .pooled { stroke-dasharray: 5 3 }
.hit, .miss { stroke: #888; stroke-width: 2 } .miss { stroke: #c4472b }
"""


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
    IMAGES.mkdir(parents=True, exist_ok=True)
    (IMAGES / "coverage.svg").write_text(coverage_plot(runs), encoding="utf-8")
    (IMAGES / "repeats.svg").write_text(repeats_plot(), encoding="utf-8")


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


def coverage_plot(runs: int) -> str:
    """Share of intervals of the median that hold the truth, over the number of calls in a launch."""
    sizes = (10, 20, 50, 100, 200, 500, 1_000, 2_000)
    shares: dict[str, list[float]] = {"naive": [], "pooled": [], "ours": [], "ours-five": []}
    truth = QUIET.truth_ns(0.5)
    for n in sizes:
        samples_ns = QUIET.samples_ns(np.random.default_rng(n), runs=runs, launches=5, n=n)
        medians = np.median(samples_ns, axis=2)
        ways: dict[str, list[Interval]] = {
            "naive": [within(run) for run in samples_ns[:, 0].tolist()],
            "pooled": [within(run) for run in samples_ns[:, :3].reshape(runs, -1).tolist()],
            "ours": [interval(over_launches(run)) for run in medians[:, :3].tolist()],
            "ours-five": [interval(over_launches(run)) for run in medians.tolist()],
        }
        for name, intervals in ways.items():
            shares[name].append(100 * coverage(intervals, truth).share)
    x = svg.Scale(low=sizes[0], high=sizes[-1], start=50, end=420, is_log=True)
    y = svg.Scale(low=0, high=100, start=250, end=30, is_log=False)
    band = f'<rect class="band" x="50" width="370" y="{y.place(97)}" height="{y.place(93) - y.place(97):.1f}"/>'
    parts = [svg.text(0, 14, "intervals of p50 that hold the truth, %", "axis-title"), band]
    parts += [line for tick in (0, 20, 40, 60, 80, 100) for line in across(y.place(tick), f"{tick}", 50, 420)]
    parts += [svg.text(x.place(n), 267, f"{n:,}", "tick", "middle") for n in sizes]
    parts.append(svg.text(235, 287, "calls in each launch", "axis-title", "middle"))
    for name, values in shares.items():
        parts.append(
            svg.polyline([(x.place(n), y.place(v)) for n, v in zip(sizes, values, strict=True)], f"curve {name}")
        )
    names = ("published: 3 launches (dashed: 5)", "3 launches as one heap", "one process")
    heights = svg.spread([y.place(shares[name][-1]) for name in ("ours", "pooled", "naive")], 15)
    parts += [svg.text(428, height + 4, name, "named") for name, height in zip(names, heights, strict=True)]
    return drawing(640, 296, "How often intervals of the median hold the truth, by the number of calls", parts)


def repeats_plot(repeats: int = 40) -> str:
    """The same benchmark 40 times over: what one process claims, and what is published."""
    samples_ns = CORRELATED.samples_ns(np.random.default_rng(8), runs=repeats, launches=5, n=300)
    truth = CORRELATED.truth_ns(0.5)
    ours = [interval(each.p50_ns) for each in published(samples_ns)]
    naive = [within(run[0]) for run in samples_ns.tolist()]
    y = svg.Scale(low=-4.0, high=4.0, start=250, end=30, is_log=False)
    parts = [svg.text(0, 14, "distance from the true median, %", "axis-title")]
    parts += [line for tick in (-4, -2, 2, 4) for line in across(y.place(tick), f"{tick:+d}", 40, 640)]
    for left, title, intervals in ((50, "one process", naive), (355, "5 launches (published)", ours)):
        parts += panel(left, y, intervals, truth)
        missed = repeats - coverage(intervals, truth).hits
        parts.append(svg.text(left, 272, f"{title}: {missed} of {repeats} miss the truth", "named"))
    parts += [*across(y.place(0), "0", 40, 640), svg.line(40, y.place(0), 640, y.place(0), "truth")]
    return drawing(650, 284, "Intervals of the median in 40 repeats of one benchmark", parts)


def panel(left: float, y: svg.Scale, intervals: Sequence[Interval], truth: float) -> list[str]:
    """One vertical line for each interval, those that miss in red."""
    parts = []
    for at, each in enumerate(intervals):
        if each is None:
            continue
        low, high = (100 * (end / truth - 1) for end in each)
        place = left + 7 * at
        parts.append(svg.line(place, y.place(low), place, y.place(high), "hit" if low <= 0 <= high else "miss"))
    return parts


def across(y: float, label: str, left: float, right: float) -> list[str]:
    """A grid line with its label."""
    return [svg.line(left, y, right, y, "grid"), svg.text(left - 6, y + 4, label, "tick", "end")]


def drawing(width: int, height: int, title: str, parts: Iterable[str]) -> str:
    """A file of its own: `svg.picture` is for a page that has the styles."""
    size = f'viewBox="-8 0 {width + 8} {height}" width="{width + 8}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
    body = "\n".join(parts)
    return f"{head}\n<title>{title}</title>\n<style>{STYLE}</style>\n{body}\n</svg>\n"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
