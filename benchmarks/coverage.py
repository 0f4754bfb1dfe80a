"""Whether a full measurement says the same when it is made again: `python -m benchmarks.coverage [--quick]`.

Three models at batch 1, each measured 30 times by `onnxdyno bench` (one point; 5 launches, further ones up to 10 while
the interval of p50 is wider than 2 %; 9 s at most), by haoline's `run_batch_sweep_benchmark` (batch 1: 5 + 20 runs) and
by a loop as one writes it by hand (10 + 100 runs), each in a fresh process, with the same number of threads, in a new
random order each time. For each model: pairs of our intervals that overlap (aim: at least 90 %), our median half-width
(aim: at most 2 %), and how far p50 of each tool is spread over the repeats. The others' figures carry no interval, so
they cannot be held to anything but that spread.

At most 25 minutes on two quiet cores. Every repeat is kept in FOLDER as it ends; run again, it goes on where it stopped
(`--minutes` bounds one run). Draws docs/images/spread.svg when it is complete.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from benchmarks import drawing, ours
from benchmarks.others import FOLDER, haoline_sweep, plain_loop
from benchmarks.real_models import REAL_MODELS, cache_folder, fetch
from onnxdyno import app
from onnxdyno.reporting import svg

REPEATS = 30
BUDGET_S = 9.0
LAUNCHES = 5
PRECISION = 0.02
OVERLAP_AIM = 0.9
HALF_WIDTH_AIM = 0.02
LIMIT_S = 300.0
TOOLS = ("onnxdyno", "haoline", "plain loop")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A model and the one shape that all three tools run."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    options: tuple[str, ...] = ()


SUBJECTS = (
    Subject(name="light-squeezenet", dtype="float32", shape=(1, 3, 224, 224)),
    Subject(name="nudenet-320n", dtype="float32", shape=(1, 3, 224, 224), options=("--resolution", "224x224")),
    Subject(name="magika", dtype="int32", shape=(1, 2048)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """One measurement by one tool. `low_ms` and `high_ms`: the interval, where it gives one."""

    model: str
    tool: str
    repeat: int
    p50_ms: float
    wall_s: float
    low_ms: float | None = None
    high_ms: float | None = None
    state: str = ""
    launches: int = 1

    @property
    def interval(self) -> tuple[float, float] | None:
        """(low, high) in milliseconds."""
        return None if self.low_ms is None or self.high_ms is None else (self.low_ms, self.high_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The repeats so far, a JSON line each."""

    path: Path

    def read(self) -> list[Repeat]:
        """All of them; a line that a crash cut short is left out."""
        found = []
        for line in self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else ():
            try:
                found.append(Repeat(**json.loads(line)))
            except (json.JSONDecodeError, TypeError):
                continue
        return found

    def keep(self, repeat: Repeat) -> None:
        """Append one."""
        fields = {name: getattr(repeat, name) for name in Repeat.__slots__}
        with self.path.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(fields) + "\n")


def main() -> None:
    """Measure what is missing, then say what all of it shows."""
    asked = _arguments()
    folder = Path(asked.folder)
    folder.mkdir(parents=True, exist_ok=True)
    kept = Kept(path=folder / f"repeats-{app.device().device_class}{'-quick' if asked.quick else ''}.jsonl")
    _measure(kept, repeats=asked.repeats, budget_s=asked.budget, until_s=time.monotonic() + 60 * asked.minutes)
    found = kept.read()
    print(table(found, asked.repeats))
    if all(_count(found, subject.name) >= asked.repeats for subject in SUBJECTS) and not asked.quick:
        print(f"Drawn: {plot(found)}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.coverage", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="3 repeats of 4 s: shows that it runs, proves nothing")
    parser.add_argument("--minutes", type=float, default=25.0, help="begin nothing new after so long")
    parser.add_argument("--folder", default=str(FOLDER.parent / ".bench" / "coverage"), help="where repeats are kept")
    asked = parser.parse_args()
    asked.repeats, asked.budget = (3, 4.0) if asked.quick else (REPEATS, BUDGET_S)
    return asked


def _measure(kept: Kept, *, repeats: int, budget_s: float, until_s: float) -> None:
    done = {(each.model, each.tool, each.repeat) for each in kept.read()}
    with tempfile.TemporaryDirectory(prefix="coverage-") as name:
        scratch = Path(name)
        paths = {each.name: fetch(each, scratch, cache_folder()) for each in REAL_MODELS if _is_subject(each.name)}
        for repeat in range(repeats):
            todo = [(subject, tool) for subject in SUBJECTS for tool in TOOLS]
            random.Random(repeat).shuffle(todo)  # noqa: S311  an order, not a secret
            for subject, tool in todo:
                if (subject.name, tool, repeat) in done:
                    continue
                if time.monotonic() > until_s:
                    print("Time is up; run it again to go on.", file=sys.stderr)
                    return
                path = paths[f"{subject.name}.onnx"]
                kept.keep(_measured(subject, path, tool, repeat=repeat, budget_s=budget_s, scratch=scratch))
            print(f"repeat {repeat + 1} of {repeats}", file=sys.stderr, flush=True)


def _is_subject(name: str) -> bool:
    return name.removesuffix(".onnx") in {subject.name for subject in SUBJECTS}


def _measured(subject: Subject, path: Path, tool: str, *, repeat: int, budget_s: float, scratch: Path) -> Repeat:
    """One measurement. Raises `Failed`."""
    threads = app.device().threads
    if tool == "haoline":
        ended = haoline_sweep(path, [1], threads=threads, limit_s=LIMIT_S)
        p50_ms = float(ended.document["latencies_ms"][0])
        return Repeat(model=subject.name, tool=tool, repeat=repeat, p50_ms=p50_ms, wall_s=ended.wall_s)
    if tool == "plain loop":
        ended = plain_loop(path, subject.shape, subject.dtype, threads=threads, limit_s=LIMIT_S)
        p50_ms = float(ended.document["p50_ms"])
        return Repeat(model=subject.name, tool=tool, repeat=repeat, p50_ms=p50_ms, wall_s=ended.wall_s)
    options = ["--batch", "1", *subject.options, "--launches", str(LAUNCHES), "--precision", str(PRECISION)]
    options += ["--budget", str(budget_s)]
    spec: Mapping[str, Any] = {"memory": False, "profile": False}
    bench = ours.bench(path, options, scratch=scratch, limit_s=LIMIT_S, spec=spec)
    point = bench.document["points"][0]
    low_ms, high_ms = ours.interval(point) or (None, None)
    return Repeat(
        model=subject.name,
        tool=tool,
        repeat=repeat,
        p50_ms=float(point["p50_ms"]),
        wall_s=bench.wall_s,
        low_ms=low_ms,
        high_ms=high_ms,
        state=str(point["state"]),
        launches=int(point["launches"]),
    )


def table(found: Sequence[Repeat], wanted: int) -> str:
    """A row for each model and tool, then the verdicts."""
    head = f"{'model':18s}{'tool':12s}{'repeats':>8s}{'p50 ms':>10s}{'max/min - 1':>13s}{'rel. sd':>9s}{'wall s':>8s}"
    lines, verdicts = [head], []
    for subject in SUBJECTS:
        for tool in TOOLS:
            own = _of(found, subject.name, tool)
            if len(own) < 2:
                continue
            values = [each.p50_ms for each in own]
            lines.append(
                f"{subject.name:18s}{tool:12s}{len(own):8d}{median(values):10.3f}{max(values) / min(values) - 1:13.1%}"
                f"{stdev(values) / fmean(values):9.2%}{median(each.wall_s for each in own):8.1f}"
            )
        verdicts += _verdicts(subject.name, _of(found, subject.name, "onnxdyno"), wanted)
    return "\n".join([*lines, "", *verdicts])


def _verdicts(name: str, own: Sequence[Repeat], wanted: int) -> list[str]:
    intervals = [each.interval for each in own if each.interval is not None]
    if len(intervals) < 2:
        return [f"{name}: too few repeats"]
    overlap = overlapping(intervals)
    half_width = median((high - low) / (high + low) for low, high in intervals)
    states = ", ".join(f"{count} {state}" for state, count in Counter(each.state for each in own).most_common())
    launches = median(each.launches for each in own)
    short = "" if len(own) >= wanted else f" ({len(own)} of {wanted} repeats so far)"
    overlaps = f"{name}: pairs of intervals that overlap {overlap:.1%}, aim ≥ {OVERLAP_AIM:.0%}"
    widths = f"{name}: median half-width {half_width:.2%}, aim ≤ {HALF_WIDTH_AIM:.0%}"
    return [
        f"{overlaps}: {said(is_met=overlap >= OVERLAP_AIM)}{short}",
        f"{widths}: {said(is_met=half_width <= HALF_WIDTH_AIM)} ({launches:g} launches; {states})",
    ]


def overlapping(intervals: Sequence[tuple[float, float]]) -> float:
    """Share of the pairs of intervals that have a value in common."""
    pairs = list(combinations(intervals, 2))
    return sum(one[0] <= other[1] and other[0] <= one[1] for one, other in pairs) / len(pairs)


def said(*, is_met: bool) -> str:
    """A verdict in words."""
    return "met" if is_met else "NOT MET"


def _of(found: Sequence[Repeat], model: str, tool: str) -> list[Repeat]:
    return [each for each in found if (each.model, each.tool) == (model, tool)]


def _count(found: Sequence[Repeat], model: str) -> int:
    return min(len(_of(found, model, tool)) for tool in TOOLS)


def plot(found: Sequence[Repeat]) -> Path:
    """p50 of every repeat, relative to the median of our own: our intervals, and the bare numbers of the others."""
    parts = [svg.text(0, 14, "p50 of each repeat, % from the median of ours", "axis-title")]
    reach = max(10.0, *(abs(_off(each, found)) for each in found))
    for row, subject in enumerate(SUBJECTS):
        top = 40 + 170 * row
        y = svg.Scale(low=-reach, high=reach, start=top + 120, end=top, is_log=False)
        for tick in (-reach, 0.0, reach):
            parts += drawing.across(y.place(tick), f"{tick:+.0f}", 40, 640)
        parts.append(svg.text(40, top - 8, subject.name, "named"))
        for column, tool in enumerate(TOOLS):
            own = _of(found, subject.name, tool)
            parts += _panel(own, found, y, 50 + 200 * column)
            spread = max(each.p50_ms for each in own) / min(each.p50_ms for each in own) - 1
            parts.append(svg.text(50 + 200 * column, top + 138, f"{tool}: max/min - 1 = {spread:.1%}", "tick"))
    return drawing.write("spread", 650, 40 + 170 * len(SUBJECTS), "The same measurement, made 30 times", parts)


def _panel(own: Sequence[Repeat], found: Sequence[Repeat], y: svg.Scale, left: float) -> list[str]:
    parts = []
    for each in own:
        x = left + 180 * each.repeat / max(1, REPEATS)
        if each.interval is not None:
            low, high = (y.place(_percent(end, each.model, found)) for end in each.interval)
            parts.append(svg.line(x, low, x, high, "hit"))
        css = "sample" if each.tool == "onnxdyno" else "cold" if each.tool == "haoline" else "other"
        parts.append(drawing.spot(x, y.place(_off(each, found)), css))
    return parts


def _off(each: Repeat, found: Sequence[Repeat]) -> float:
    return _percent(each.p50_ms, each.model, found)


def _percent(value_ms: float, model: str, found: Sequence[Repeat]) -> float:
    return 100 * (value_ms / median(one.p50_ms for one in _of(found, model, "onnxdyno")) - 1)


if __name__ == "__main__":
    main()
