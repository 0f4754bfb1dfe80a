"""Whether a full measurement says the same when it is made again: `python -m benchmarks.coverage [--quick]`.

Three models at batch 1, each measured 30 times by `onnxdyno bench --launches N --spacing 20` (one point), by haoline's
`run_batch_sweep_benchmark` (batch 1: 5 + 20 runs) and by a loop as one writes it by hand (10 + 100 runs), each in fresh
processes, with the same number of threads. N is 16, 24 or 30, by what launches of the model differed by beforehand
(3 to 5 %). Ten repeats of all three models run at a time: their launches take turns on the device by its lock, and the
other tools stand among them, evenly over the same minutes. Three such groups come one after the other, so most pairs of
repeats share no minute. What others had of the machine is said of each group (benchmarks/neighbours.py).

For each model: pairs of our intervals that overlap (aim: at least 90 %), our median half-width (aim: at most 2 %), and
how far p50 of each tool is spread over the repeats. The others' figures carry no interval, so they cannot be held to
anything but that spread.

About 40 minutes on two quiet cores. Every repeat is kept in FOLDER as it ends; run again, it goes on where it stopped
(`--minutes` bounds one run). Draws docs/images/spread.svg when it is complete.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean, median, stdev

from benchmarks import drawing, ours
from benchmarks.neighbours import Spent, others_s, spent
from benchmarks.others import FOLDER, Failed, haoline_sweep, plain_loop
from benchmarks.real_models import REAL_MODELS, cache_folder, fetch
from onnxdyno import app
from onnxdyno.adapters.processes import DeviceLock
from onnxdyno.reporting import svg

REPEATS = 30
TOGETHER = 10
"""Repeats of every model that run in the same minutes."""
OVERLAP_AIM = 0.9
HALF_WIDTH_AIM = 0.02
LIMIT_S = 1_200.0
LOCK_S = 300.0
START_S, LAUNCH_S = 3.0, 0.7
"""Of the budget: until the first launch, and each launch."""
TOOLS = ("onnxdyno", "haoline", "plain loop")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A model and the one shape that all three tools run."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    launches: int
    options: tuple[str, ...] = ()


SUBJECTS = (
    Subject(name="light-squeezenet", dtype="float32", shape=(1, 3, 224, 224), launches=24),
    Subject(
        name="nudenet-320n",
        dtype="float32",
        shape=(1, 3, 224, 224),
        launches=30,
        options=("--resolution", "224x224"),
    ),
    Subject(name="magika", dtype="int32", shape=(1, 2048), launches=16),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How ours measures, and how many repeats. `launches` None: those of the subject."""

    repeats: int
    together: int
    spacing_s: float
    launches: int | None = None

    def options(self, subject: Subject) -> list[str]:
        """Of `onnxdyno bench`. One interval is asked for, however wide: no further launches."""
        launches = self.launches or subject.launches
        budget_s = START_S + launches * LAUNCH_S
        asked = {"--launches": launches, "--spacing": self.spacing_s, "--budget": budget_s, "--precision": 1}
        return ["--batch", "1", *subject.options, *(str(part) for pair in asked.items() for part in pair)]


WHOLE = Asked(repeats=REPEATS, together=TOGETHER, spacing_s=20.0)
QUICK = Asked(repeats=2, together=2, spacing_s=4.0, launches=3)


@dataclass(slots=True, kw_only=True)
class Begun:
    """A bench of ours at work; it writes into files of its folder."""

    subject: Subject
    repeat: int
    folder: Path
    child: "subprocess.Popen[bytes]"
    began_s: float

    @property
    def has_rested(self) -> bool:
        """Whether its first launch is over: until then the next bench is not started."""
        return self.child.poll() is not None or "resting" in (self.folder / "said").read_text(encoding="utf-8")

    def result(self) -> Repeat:
        """What it printed. Raises `Failed`."""
        wall_s = time.monotonic() - self.began_s
        if self.child.returncode:
            said = (self.folder / "said").read_text(encoding="utf-8")[-400:]
            raise Failed(command=f"bench {self.subject.name}", status=self.child.returncode, said=said)
        point = json.loads((self.folder / "printed").read_text(encoding="utf-8"))["points"][0]
        low_ms, high_ms = ours.interval(point) or (None, None)
        return Repeat(
            model=self.subject.name,
            tool="onnxdyno",
            repeat=self.repeat,
            p50_ms=float(point["p50_ms"]),
            wall_s=wall_s,
            low_ms=low_ms,
            high_ms=high_ms,
            state=str(point["state"]),
            launches=int(point["launches"]),
        )


def main() -> None:
    """Measure what is missing, then say what all of it shows."""
    parser = argparse.ArgumentParser(prog="benchmarks.coverage", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="2 repeats of 3 launches: shows that it runs, no more")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no further group after so long")
    parser.add_argument("--folder", default=str(FOLDER.parent / ".bench" / "coverage"), help="where repeats are kept")
    given = parser.parse_args()
    asked = QUICK if given.quick else WHOLE
    folder = Path(given.folder)
    folder.mkdir(parents=True, exist_ok=True)
    kept = Kept(path=folder / f"apart-{app.device().device_class}{'-quick' if given.quick else ''}.jsonl")
    _measure(kept, asked, until_s=time.monotonic() + 60 * given.minutes)
    found = kept.read()
    print(table(found, asked.repeats))
    if all(_count(found, subject.name) >= asked.repeats for subject in SUBJECTS) and not given.quick:
        print(f"Drawn: {plot(found)}")


def _measure(kept: Kept, asked: Asked, *, until_s: float) -> None:
    with tempfile.TemporaryDirectory(prefix="coverage-") as name:
        scratch = Path(name)
        paths = {each.name: fetch(each, scratch, cache_folder()) for each in REAL_MODELS if _is_subject(each.name)}
        for first in range(0, asked.repeats, asked.together):
            before = spent()
            group = range(first, min(first + asked.together, asked.repeats))
            if time.monotonic() > until_s:
                print("Time is up; run it again to go on.", file=sys.stderr)
                return
            _measure_group(kept, asked, group, paths, scratch)
            _tell_host(kept, group, before, spent())


def _tell_host(kept: Kept, group: range, before: Spent, after: Spent) -> None:
    """How quiet the machine was while a group ran, said and kept: it is no part of any verdict."""
    wall_s = after.wall_s - before.wall_s
    share, stolen = others_s(before, after) / wall_s, (after.steal_s - before.steal_s) / wall_s
    line = (
        f"repeats {group.start + 1} to {group.stop}: {wall_s / 60:.1f} minutes; others had {share:.2%} of a core, "
        f"of which the hypervisor's other guests {stolen:.2%}"
    )
    print(line, file=sys.stderr, flush=True)
    with kept.path.with_suffix(".host").open("a", encoding="utf-8") as lines:
        lines.write(line + "\n")


def _measure_group(kept: Kept, asked: Asked, group: range, paths: Mapping[str, Path], scratch: Path) -> None:
    """Ours begin one after the other; while their launches take turns, the other tools get theirs, evenly spread."""
    done = {(each.model, each.tool, each.repeat) for each in kept.read()}
    chance = random.Random(group.start)  # noqa: S311  an order, not a secret
    wanted = [(subject, tool, repeat) for subject in SUBJECTS for tool in TOOLS for repeat in group]
    wanted = [each for each in wanted if (each[0].name, each[1], each[2]) not in done]
    chance.shuffle(wanted)
    mine = [(subject, repeat) for subject, tool, repeat in wanted if tool == "onnxdyno"]
    others = [each for each in wanted if each[1] != "onnxdyno"]
    begun: list[Begun] = []
    try:
        for subject, repeat in mine:
            begun.append(_begin(subject, repeat, asked, paths, scratch))
            _until(begun[-1], lambda each: each.has_rested)
        began_s, apart_s = time.monotonic(), _least_s(asked) / max(1, len(others))
        for number, (subject, tool, repeat) in enumerate(others):
            time.sleep(max(0.0, began_s + number * apart_s - time.monotonic()))
            kept.keep(_of_other(subject, paths, tool, repeat=repeat, locks=scratch / "locks"))
        for each in begun:
            _until(each, lambda one: one.child.poll() is not None)
            kept.keep(each.result())
    finally:
        for each in begun:
            if each.child.poll() is None:
                os.killpg(each.child.pid, signal.SIGKILL)
                each.child.wait()


def _least_s(asked: Asked) -> float:
    """What the shortest bench takes, less a little: when the last of the other tools should begin."""
    launches = min(asked.launches or subject.launches for subject in SUBJECTS)
    return (launches - 1) * asked.spacing_s


def _begin(subject: Subject, repeat: int, asked: Asked, paths: Mapping[str, Path], scratch: Path) -> Begun:
    """`onnxdyno bench` of the model's one point."""
    folder = scratch / f"{subject.name}-{repeat}"
    folder.mkdir()
    spec = folder / "spec.yaml"
    spec.write_text(json.dumps({"memory": False, "profile": False}), encoding="utf-8")  # JSON is YAML
    command = [
        sys.executable,
        "-m",
        "onnxdyno.cli",
        "bench",
        str(paths[f"{subject.name}.onnx"]),
        *asked.options(subject),
    ]
    command += ["--spec", str(spec), "--json"]
    with (folder / "printed").open("wb") as printed, (folder / "said").open("wb") as said:
        child = subprocess.Popen(
            command,
            stdout=printed,
            stderr=said,
            env={**os.environ, "ONNXDYNO_LOCK_DIR": str(scratch / "locks")},
            start_new_session=True,
        )
    return Begun(subject=subject, repeat=repeat, folder=folder, child=child, began_s=time.monotonic())


def _until(begun: Begun, is_so: Callable[[Begun], bool]) -> None:
    """Raises `Failed` after 20 minutes."""
    until_s = time.monotonic() + LIMIT_S
    while not is_so(begun):
        if time.monotonic() > until_s:
            raise Failed(command=f"bench {begun.subject.name}", status=-1, said=f"no end within {LIMIT_S:.0f} s")
        time.sleep(0.1)


def _is_subject(name: str) -> bool:
    return name.removesuffix(".onnx") in {subject.name for subject in SUBJECTS}


def _of_other(subject: Subject, paths: Mapping[str, Path], tool: str, *, repeat: int, locks: Path) -> Repeat:
    """One measurement by another tool, while it has the device. Raises `Failed`."""
    device, path = app.device(), paths[f"{subject.name}.onnx"]
    with DeviceLock(locks, device, LOCK_S, lambda _: None):
        if tool == "haoline":
            ended = haoline_sweep(path, [1], threads=device.threads, limit_s=LOCK_S)
            p50_ms = float(ended.document["latencies_ms"][0])
        else:
            ended = plain_loop(path, subject.shape, subject.dtype, threads=device.threads, limit_s=LOCK_S)
            p50_ms = float(ended.document["p50_ms"])
    return Repeat(model=subject.name, tool=tool, repeat=repeat, p50_ms=p50_ms, wall_s=ended.wall_s)


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
