"""`onnxdyno bench` as a process, for the benchmarks that put it beside others: what it printed, how long, and where."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import phases
from benchmarks.others import ROOT, run

Point = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One run of the command line: its JSON, its wall time from start to end, and the phases of that."""

    document: Mapping[str, Any]
    wall_s: float
    phases: phases.Phases


def bench(
    model: Path, options: Sequence[str], *, scratch: Path, limit_s: float, spec: Mapping[str, Any] | None = None
) -> Bench:
    """Run `onnxdyno bench MODEL … --json`. `scratch`: its own folder, for the lock too. Raises `Failed`."""
    out, asked = scratch / "phases.json", []
    if spec is not None:
        written = scratch / "spec.yaml"
        written.write_text(json.dumps(spec), encoding="utf-8")  # JSON is YAML
        asked = ["--spec", str(written)]
    command = [sys.executable, "-m", "benchmarks.phases", str(out), "bench", str(model), *options, *asked, "--json"]
    ended = run(command, limit_s=limit_s, variables={"ONNXDYNO_LOCK_DIR": str(scratch / "locks")}, folder=ROOT)
    found = phases.read(out)
    found["outside"] = {"interpreter and imports": ended.wall_s - found["all"]["total"], **found["outside"]}
    found["all"] = {"total": ended.wall_s}
    return Bench(document=json.loads(ended.text), wall_s=ended.wall_s, phases=found)


def interval(point: Point) -> tuple[float, float] | None:
    """The published interval of p50, in milliseconds."""
    found = point["p50_ci_ms"]
    return None if found is None else (float(found[0]), float(found[1]))


def half_width(point: Point) -> float | None:
    """Of the published interval of p50, relative to p50."""
    found = interval(point)
    return None if found is None else (found[1] - found[0]) / 2 / float(point["p50_ms"])
