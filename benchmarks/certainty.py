"""What certainty costs beside a sweep that has none: `python -m benchmarks.certainty [--quick] [--only NAME]`.

Dynamic-batch copies of two light CNNs (SqueezeNet, ResNet-50): the same files and the same number of threads for both
tools, in turn: haoline's `run_batch_sweep_benchmark` (batch 1, 2, 4 … 128; one process, 5 + 20 runs a point, no
interval, no memory of the CPU), and three times ours:

- adaptive: `onnxdyno bench` as it is, memory and profile included, with a latency target of ten times the call at batch
  1. It has to find the best batch and the largest one within the target, both with intervals.
- list, timing: the batches of haoline's list, 3 launches, nothing but the timing.
- list, everything: the same with memory and profile.

Ours is the wall time of the whole command, haoline's that of its function alone, without its imports. Ours gets a
budget (`--budget`) of the aim times what haoline took in the same round. Ratios are medians over the rounds. Three
rounds of SqueezeNet take about 6 minutes on two quiet cores, two of ResNet-50 about 40 (`--rounds N` for fewer). Which
of our processes take the time is the last table.
"""

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import ours, phases
from benchmarks.coverage import said
from benchmarks.others import Failed, haoline_sweep
from benchmarks.real_models import REAL_MODELS, cache_folder, fetch
from onnxdyno import app
from onnxdyno.app.copying import prepare
from onnxdyno.app.steps import Pulled
from onnxdyno.graphs.reading import load

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
QUICK_BATCHES = (1, 2, 4)
LAUNCHES = 3
TARGET_CALLS = 10
"""The latency target, in calls at batch 1."""
START_S = 1.5
"""What the command takes outside its budget: interpreter, imports, the tables at the end."""
LIMIT_S = 3_600.0
LEAST_S = 8.0
"""The least budget: only `--quick` comes to it."""
HEAD = f"{'ours':22s}{'wall s':>8s}{'ratio':>8s}{'aim':>6s}{'points':>8s}{'widest ±':>10s}  best, largest; states"
ALONE = {"memory": False, "profile": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A model and what ours may take, in wall times of haoline's: adaptive, the list's timing, all of the list."""

    name: str
    rounds: int
    adaptive: float
    timing: float
    everything: float


SUBJECTS = (
    Subject(name="light-squeezenet", rounds=3, adaptive=0.5, timing=1.0, everything=1.4),
    Subject(name="light-resnet50", rounds=2, adaptive=0.15, timing=0.7, everything=0.9),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way that ours is asked."""

    name: str
    aim: float
    options: tuple[str, ...]
    spec: Mapping[str, Any] | None = None
    is_adaptive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Theirs:
    """One sweep by haoline."""

    seconds: float
    wall_s: float
    batches: tuple[int, ...]
    latencies_ms: tuple[float, ...]
    best_batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One run of ours and what haoline took in the same round."""

    way: Way
    bench: ours.Bench
    theirs: Theirs

    @property
    def ratio(self) -> float:
        """Of wall times."""
        return self.bench.wall_s / self.theirs.seconds

    @property
    def points(self) -> Sequence[ours.Point]:
        """As published."""
        found: Sequence[ours.Point] = self.bench.document["points"]
        return found

    @property
    def is_certain(self) -> bool:
        """Whether what was asked for has its interval: both choices of the adaptive sweep, every point of a list."""
        if self.way.is_adaptive:
            findings = self.bench.document["findings"]
            return all(findings[name]["value"] is not None for name in ("best_batch", "largest_batch"))
        return all(ours.interval(point) is not None for point in self.points)

    @property
    def widest(self) -> float | None:
        """The widest half-width of a point, relative."""
        return max(_known(ours.half_width(point) for point in self.points), default=None)


def main() -> None:
    """Measure each model in rounds, then print what it came to."""
    parser = argparse.ArgumentParser(prog="benchmarks.certainty", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="batches 1, 2, 4 and one round: shows that it runs")
    parser.add_argument("--only", choices=[subject.name for subject in SUBJECTS])
    parser.add_argument("--rounds", type=int)
    asked = parser.parse_args()
    threads = app.device().threads
    print(f"{app.device().name}, {threads} intra-op thread{'s' if threads > 1 else ''} for both tools\n")
    for subject in SUBJECTS:
        if asked.only in (None, subject.name):
            rounds = asked.rounds or (1 if asked.quick else subject.rounds)
            batches = QUICK_BATCHES if asked.quick else BATCHES
            with tempfile.TemporaryDirectory(prefix="certainty-") as scratch:
                print(report(subject, measure(subject, batches, rounds, Path(scratch))), flush=True)


def measure(subject: Subject, batches: Sequence[int], rounds: int, scratch: Path) -> list[Taken]:
    """`rounds` times haoline, then each way of ours; the ways in turn begin a round."""
    model = dynamic(subject.name, scratch)
    taken: list[Taken] = []
    target_ms: float | None = None
    for number in range(rounds):
        print(f"{subject.name}: round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        theirs = haoline(model, batches)
        target_ms = target_ms or TARGET_CALLS * theirs.latencies_ms[0]
        found = ways(subject, batches, target_ms)
        for way in (*found[number % 3 :], *found[: number % 3]):
            budget_s = max(LEAST_S, way.aim * theirs.seconds - START_S)
            options = [*way.options, "--budget", f"{budget_s:.1f}"]
            bench = ours.bench(model, options, scratch=scratch, limit_s=LIMIT_S, spec=way.spec)
            taken.append(Taken(way=way, bench=bench, theirs=theirs))
    return taken


def ways(subject: Subject, batches: Sequence[int], target_ms: float) -> tuple[Way, ...]:
    """Three ways to ask for what haoline gives."""
    listed = ("--batch", ",".join(map(str, batches)), "--launches", str(LAUNCHES))
    adaptive = Way(
        name="adaptive, everything",
        aim=subject.adaptive,
        options=("--latency-target", f"{target_ms:.3f}"),
        is_adaptive=True,
    )
    timing = Way(name="list, timing", aim=subject.timing, options=listed, spec=ALONE)
    return adaptive, timing, replace(timing, name="list, everything", aim=subject.everything, spec=None)


def dynamic(name: str, scratch: Path) -> Path:
    """The proven copy with a dynamic batch, as `--rebatch` makes it: both tools get this file."""
    (model,) = [each for each in REAL_MODELS if each.name == f"{name}.onnx"]
    given = load(fetch(model, scratch / "fixed", cache_folder()))
    pulled = Pulled(local=given, sidecar=None, sidecar_key=None)
    made = prepare(pulled, on=app.device(), parameters={"rebatch": True}).local.path
    target = scratch / f"{name}.dynamic.onnx"
    target.write_bytes(made.read_bytes())
    return target


def haoline(model: Path, batches: Sequence[int]) -> Theirs:
    """One sweep in a fresh process."""
    ended = haoline_sweep(
        model, None if tuple(batches) == BATCHES else batches, threads=app.device().threads, limit_s=LIMIT_S
    )
    document = ended.document
    if not all(0 < each < float("inf") for each in document["latencies_ms"]):
        raise Failed(command="haoline", status=0, said=f"it could not run every batch: {json.dumps(document)}")
    return Theirs(
        seconds=float(document["seconds"]),
        wall_s=ended.wall_s,
        batches=tuple(document["batches"]),
        latencies_ms=tuple(document["latencies_ms"]),
        best_batch=int(document["best_batch"]),
    )


def report(subject: Subject, taken: Sequence[Taken]) -> str:
    """Ratios and verdicts, then every point beside haoline's, then where the time went."""
    by_way: dict[str, list[Taken]] = {}
    for each in taken:
        by_way.setdefault(each.way.name, []).append(each)
    theirs = [each.theirs for each in taken]
    seconds, wall_s = (median(each.seconds for each in theirs), median(each.wall_s for each in theirs))
    best = _each(each.best_batch for each in theirs)
    lines = [f"{subject.name}: haoline {seconds:.1f} s ({wall_s:.1f} s with its start), best batch {best}", HEAD]
    lines += [_row(each) for each in by_way.values()]
    lines += ["", *(_verdict(subject, each) for each in by_way.values()), ""]
    last = {name: each[-1] for name, each in by_way.items()}
    lines += [*_beside(list(last.values())), ""]
    for name, each in last.items():
        lines += [f"where the time went: {name}", phases.table(each.bench.phases), ""]
    return "\n".join(lines)


def _row(taken: Sequence[Taken]) -> str:
    wall_s, ratio = median(each.bench.wall_s for each in taken), median(each.ratio for each in taken)
    widths = _known(each.widest for each in taken)
    widest = f"{max(widths):.1%}" if widths else "none"
    best, largest = (_each(_choice(each, name) for each in taken) for name in ("best_batch", "largest_batch"))
    numbers = f"{wall_s:8.1f}{ratio:8.2f}{taken[0].way.aim:6.2f}{len(taken[-1].points):8d}{widest:>10s}"
    return f"{taken[0].way.name:22s}{numbers}  {best}, {largest}; {_states(taken)}"


def _verdict(subject: Subject, taken: Sequence[Taken]) -> str:
    way, ratio = taken[0].way, median(each.ratio for each in taken)
    certain = sum(each.is_certain for each in taken)
    what = "both choices have intervals" if way.is_adaptive else "every point has its interval"
    is_met = ratio <= way.aim and certain == len(taken)
    told = f"{what} in {certain} of {len(taken)} rounds"
    return f"{subject.name}, {way.name}: {ratio:.2f} × haoline's time, aim ≤ {way.aim:g}, {told}: {said(is_met=is_met)}"


def _beside(taken: Sequence[Taken]) -> list[str]:
    """Every batch: haoline's p50, and ours with half-widths, of the last round."""
    theirs = dict(zip(taken[0].theirs.batches, taken[0].theirs.latencies_ms, strict=True))
    found = [{int(point["axes"]["batch"]): point for point in each.points} for each in taken]
    lines = [f"{'batch':>6s}{'haoline ms':>12s}" + "".join(f"{each.way.name:>32s}" for each in taken)]
    for batch in sorted({*theirs, *(size for each in found for size in each)}):
        cells = "".join(f"{_cell(each.get(batch)):>32s}" for each in found)
        lines.append(f"{batch:6d}{f'{theirs[batch]:.2f}' if batch in theirs else '':>12s}{cells}")
    return lines


def _cell(point: ours.Point | None) -> str:
    if point is None:
        return ""
    if point["p50_ms"] is None:
        return str(point["state"])
    width = ours.half_width(point)
    return f"{point['p50_ms']:.3f} ± {'—' if width is None else f'{width:.1%}'} ({point['launches']} {point['state']})"


def _choice(each: Taken, name: str) -> int | None:
    value = each.bench.document["findings"][name]["value"]
    return None if value is None else int(value)


def _states(taken: Sequence[Taken]) -> str:
    counted = Counter(str(point["state"]) for each in taken for point in each.points)
    return ", ".join(f"{count} {state}" for state, count in counted.most_common())


def _each(values: Any) -> str:
    """`16` where all rounds agree, else `16/32`."""
    return "/".join(dict.fromkeys(str(value) for value in values))


def _known(values: Any) -> list[float]:
    return [value for value in values if value is not None]


if __name__ == "__main__":
    main()
