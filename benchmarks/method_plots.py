"""The plots of docs/method.md: `PYTHONPATH=tests python -m benchmarks.method_plots`, about two minutes.

All from simulated machines whose truth is known (tests/simulated.py), through the code that measures and publishes.
What benchmarks/coverage.py measures for real is drawn by it (spread).
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks import drawing
from benchmarks.coverage_simulated import SPREADS, Interval, interval, stopped, within
from benchmarks.drawing import across
from onnxdyno.analysis.latency import over_launches
from onnxdyno.domain.plan import Protocol
from onnxdyno.measuring.timing import Conditions, Timed, time_point
from onnxdyno.ports import Sighting
from onnxdyno.reporting import svg
from simulated import CORRELATED, MOST_CALLS, QUIET, WIDE, coverage, published

RUNS = 1_000
COOLING = 40.0
"""Calls in which the warm-up of the drawn launch falls to 1/e."""
NEIGHBOUR = range(420, 475)
STOLEN_NS = 3_000_000
SHOWN = 900
NARROW = 0.0008
"""So that the drawn launch is long enough for a neighbour to come by."""


def main() -> None:
    coverage_plot(RUNS)
    repeats_plot()
    stopping_plot(4 * RUNS)
    warm_up_plot()


def coverage_plot(runs: int) -> None:
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
    drawing.write(
        "coverage", 640, 296, "How often intervals of the median hold the truth, by the number of calls", parts
    )


def repeats_plot(repeats: int = 40) -> None:
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
    drawing.write("repeats", 650, 284, "Intervals of the median in 40 repeats of one benchmark", parts)


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


def stopping_plot(runs: int) -> None:
    """Share of intervals that hold the truth by what launches differ, if they are made until it is narrow."""
    found = [stopped(spread, runs) for spread in SPREADS]
    x = svg.Scale(low=SPREADS[0], high=SPREADS[-1], start=50, end=420, is_log=True)
    y = svg.Scale(low=88, high=100, start=230, end=30, is_log=False)
    band = f'<rect class="band" x="50" width="370" y="{y.place(97)}" height="{y.place(93) - y.place(97):.1f}"/>'
    parts = [svg.text(0, 14, "intervals of p50 that hold the truth, %", "axis-title"), band]
    parts += [line for tick in (88, 91, 94, 97, 100) for line in across(y.place(tick), f"{tick}", 50, 420)]
    parts += [svg.text(x.place(each), 247, f"{each:.0%}", "tick", "middle") for each in SPREADS]
    parts.append(svg.text(235, 267, "what launches differ by (standard deviation)", "axis-title", "middle"))
    curves = {"ours": [each.ours for each in found], "naive": [each.plain for each in found]}
    for name, values in curves.items():
        places = [(x.place(spread), y.place(100 * got.share)) for spread, got in zip(SPREADS, values, strict=True)]
        parts.append(svg.polyline(places, f"curve {name}"))
    named = {"ours": "published", "naive": "as plain 95 % intervals"}
    heights = svg.spread([y.place(100 * curves[name][-1].share) for name in named], 15)
    parts += [svg.text(428, height + 4, name, "named") for name, height in zip(named.values(), heights, strict=True)]
    drawing.write(
        "stopping", 600, 276, "Further launches until the interval is narrow: how often it holds the truth", parts
    )


def warm_up_plot() -> None:
    """One launch through the real loop, call by call: warm-up, steady, and what is left out for its cause."""
    calls_ns, stolen_ns = _a_launch()
    timed = _timed(calls_ns, stolen_ns)
    warm = len(timed.warm_up_ns)
    out = {warm + at for first, end, _ in timed.excluded for at in range(first, end)}
    values = [value / 1e6 for value in (*timed.warm_up_ns, *timed.samples_ns)]
    x = svg.Scale(low=0, high=len(values), start=50, end=610, is_log=False)
    y = svg.Scale(low=4, high=9, start=230, end=30, is_log=False)
    parts = [svg.text(0, 14, "one call, ms", "axis-title")]
    parts += [line for tick in (4, 5, 6, 7, 8, 9) for line in across(y.place(tick), f"{tick}", 50, 610)]
    for at, value in enumerate(values):
        css = "cold" if at in out else "other" if at < warm else "sample"
        parts.append(drawing.spot(x.place(at), y.place(value), css, 1.5))
    for tick in svg.linear_ticks(len(values))[:-1]:
        parts.append(svg.text(x.place(tick), 247, f"{tick:.0f}", "tick", "middle"))
    parts.append(svg.text(330, 265, "number of the call", "axis-title", "middle"))
    steady = len(timed.samples_ns) - len(out)
    told = f"grey: {warm} of warm-up; green: {steady} counted; red: {len(out)} left out, a neighbour had the core"
    parts.append(svg.text(50, 286, told, "named"))
    drawing.write("warm_up", 620, 296, "One launch, call by call", parts)


def _a_launch() -> tuple[list[int], list[int]]:
    """Calls of a launch that starts 60 % slow, and what a neighbour takes of some of them; both in nanoseconds."""
    rng = np.random.default_rng(3)
    (((*steady_ns,),),) = replace(WIDE, excess=0.02).samples_ns(rng, runs=1, launches=1, n=MOST_CALLS).tolist()
    calls_ns = [round(value * (1 + 0.6 * math.exp(-at / COOLING))) for at, value in enumerate(steady_ns)]
    stolen_ns = [STOLEN_NS if at in NEIGHBOUR and at % 2 else 0 for at in range(len(calls_ns))]
    return calls_ns, stolen_ns


def _timed(calls_ns: Sequence[int], stolen_ns: Sequence[int]) -> Timed:
    """The real loop on a clock that only these calls advance, with a witness of what the neighbour took."""
    costs = iter(zip(calls_ns, stolen_ns, strict=True))
    now_ns, cpu_ns = [0], [0]

    def call() -> None:
        own_ns, lost_ns = next(costs)
        now_ns[0] += own_ns + lost_ns
        cpu_ns[0] += own_ns

    how = Conditions(
        clock=lambda: now_ns[0],
        witness=lambda: Sighting(cpu_ns=cpu_ns[0]),
        protocol=replace(Protocol(), half_width_target=NARROW),
        launches=3,
        threads=1,
        budget_ns=sum(calls_ns[:SHOWN]),
    )
    return time_point([call], how)


if __name__ == "__main__":
    main()
