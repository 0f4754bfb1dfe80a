"""The arithmetic of the benchmarks that stand beside other tools: what they count, and when they say `met`."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import factories as make
from benchmarks import certainty, phases
from benchmarks.coverage import Kept, Repeat, overlapping, table
from benchmarks.ours import Bench
from onnxdyno import wire
from onnxdyno.domain.assignments import Assignment, Began, Done, Pass
from onnxdyno.domain.outcomes import LaunchReading, SteadySpan

REQUIREMENTS = Path(__file__).parents[2] / "requirements"
REPEAT = Repeat(model="magika", tool="onnxdyno", repeat=0, p50_ms=10.0, wall_s=1.0, low_ms=9.9, high_ms=10.1)


def version_of(name: str, file: str) -> str | None:
    found = re.search(rf"^{name}==(\S+)", (REQUIREMENTS / file).read_text(encoding="utf-8"), re.MULTILINE)
    return None if found is None else found.group(1)


def test_the_other_tools_run_the_runtime_that_we_run_and_never_in_our_environment() -> None:
    assert version_of("onnxruntime", "bench.txt") == version_of("onnxruntime-gpu", "dev.txt")
    assert version_of("onnxruntime", "dev.txt") is None
    assert version_of("haoline", "dev.txt") is None


def test_intervals_that_touch_overlap_and_others_do_not() -> None:
    assert overlapping([(0.0, 1.0), (1.0, 2.0), (3.0, 4.0)]) == pytest.approx(1 / 3)


def test_repeats_are_kept_and_a_line_that_was_cut_is_measured_again(tmp_path: Path) -> None:
    kept = Kept(path=tmp_path / "repeats.jsonl")
    kept.keep(REPEAT)
    with kept.path.open("a", encoding="utf-8") as lines:
        lines.write('{"model": "magika", "tool": "hao')
    assert kept.read() == [REPEAT]


def test_repeats_that_agree_are_met_and_repeats_that_do_not_are_not() -> None:
    agreeing = [replace(REPEAT, repeat=repeat) for repeat in range(3)]
    assert table(agreeing, 3).count(": met") == 2
    apart = [replace(REPEAT, repeat=repeat, low_ms=10.0 * repeat, high_ms=10.0 * repeat + 1) for repeat in range(1, 4)]
    assert "overlap 0.0%, aim ≥ 90%: NOT MET" in table(apart, 3)


def assignment(kind: Pass) -> bytes:
    point = make.point(batch=1)
    return wire.encode_assignment(
        Assignment(
            kind=kind,
            launch=1,
            launches=3,
            model_path="model.onnx",
            device=make.plan((point,)).device,
            threads=1,
            recipes=(),
            turns=(),
            seed=0,
            protocol=make.plan((point,)).protocol,
        )
    )


def test_phases_add_up_to_the_wall_time_and_tell_sampling_from_the_rest() -> None:
    reading = LaunchReading(launch=1, session_ns=500_000_000, providers=(), assignment=(), runtime=())
    measured = replace(
        make.measured(make.point(batch=1), (10, 10)),
        warm_up_ns=(1_000_000_000,),
        spans=(SteadySpan(first=0, end=2, opened_ns=0, wall_ns=2_000_000_000),),
    )
    events = ((12.0, reading), (12.0, Began(turn=0)), (16.0, measured), (16.0, Done()))
    seen = phases.Seen(
        assignment=assignment(Pass.TIMING), started_s=11.0, lines=[(at_s, wire.encode(event)) for at_s, event in events]
    )
    seen.reaped_s = 16.5
    found = phases.phases([seen], 10.0, 17.0)
    assert found["timing"] == {"processes": 1, "start": 0.5, "session": 0.5, "work": 4.0, "end": 0.5, "total": 5.5}
    assert found["detail"]["timing: steady samples"] == 2.0
    assert found["detail"]["timing: warm-up"] == 1.0
    assert found["detail"]["timing: inputs, binding, first run, outputs"] == 1.0
    assert sum(found["outside"].values()) + found["timing"]["total"] == found["all"]["total"]


def ours(wall_s: float, *intervals: list[float] | None) -> Bench:
    points = [
        {"axes": {"batch": at}, "p50_ms": 1.0, "p50_ci_ms": found, "state": "ok", "launches": 3}
        for at, found in enumerate(intervals, start=1)
    ]
    findings: dict[str, Any] = {"best_batch": {"value": 2.0}, "largest_batch": {"value": 1.0}}
    empty = phases.phases([], 0.0, wall_s)
    return Bench(document={"points": points, "findings": findings}, wall_s=wall_s, phases=empty)


def verdicts(bench: Bench) -> list[str]:
    subject = certainty.SUBJECTS[0]
    way = next(way for way in certainty.ways(subject, (1, 2), 10.0) if way.name == "list, timing")
    theirs = certainty.Theirs(seconds=10.0, wall_s=11.0, batches=(1, 2), latencies_ms=(1.0, 2.0), best_batch=2)
    report = certainty.report(subject, [certainty.Taken(way=way, bench=bench, theirs=theirs)])
    return [line for line in report.splitlines() if "haoline's time" in line]


def test_a_list_is_met_only_in_time_and_with_an_interval_at_every_point() -> None:
    interval = [0.9, 1.1]
    assert all(line.endswith(": met") for line in verdicts(ours(9.0, interval, interval)))
    assert all(line.endswith(": NOT MET") for line in verdicts(ours(11.0, interval, interval)))
    assert all(line.endswith(": NOT MET") for line in verdicts(ours(9.0, interval, None)))


def test_the_options_of_the_three_ways_are_those_of_the_command_line() -> None:
    adaptive, timing, everything = certainty.ways(certainty.SUBJECTS[1], certainty.BATCHES, 12.5)
    assert adaptive.options == ("--latency-target", "12.500")
    assert (adaptive.spec, everything.spec) == (None, None)
    assert timing.spec == {"memory": False, "profile": False}
    assert json.loads(json.dumps(timing.spec)) == timing.spec
    assert timing.options[:2] == ("--batch", "1,2,4,8,16,32,64,128")
