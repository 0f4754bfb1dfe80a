"""A profiled run as a trace, and profiles by operator and layer."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnxruntime
import pytest

import factories as make
from onnxdyno.analysis.nodes import by_layer, by_op_type, profile_finding
from onnxdyno.cli.profile import parse_sizes
from onnxdyno.domain.cost import NodeWork
from onnxdyno.domain.errors import UsageError
from onnxdyno.domain.outcomes import Profile, Slice
from onnxdyno.measuring.profiling import summarise
from onnxdyno.reporting.profiles import groups_grid, profile_document, slowest_grid
from onnxdyno.reporting.trace import placed, trace

ROOT = Path(__file__).parents[2]
ONE = make.point(batch=1)
CPU = make.cpu_device()


def loop_profile(folder: Path) -> Profile:
    """A real profile with a loop of twenty rounds."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    model = ROOT / "tests" / "cases" / "loop20_profile_double_count.onnx"
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    for _ in range(6):
        session.run(None, {"x": np.zeros((64, 256), np.float32)})
    return summarise(Path(session.end_profiling()), ONE, keep_runs=5)


def complete_events(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The slices of a trace."""
    return [event for event in document["traceEvents"] if event["ph"] == "X"]


def test_a_trace_nests_is_sorted_and_names_its_threads(tmp_path: Path) -> None:
    profile = loop_profile(tmp_path)
    document = json.loads(json.dumps(trace(profile, profile_finding(profile, None, CPU), "loop.onnx")))
    events = complete_events(document)
    assert events[0]["name"] == "model_run"
    assert Counter(event["name"] for event in events)["b_mm"] == 20
    assert [event["ts"] for event in events] == sorted(event["ts"] for event in events)
    stack: list[float] = []
    for event in events:
        assert event["dur"] >= 0
        assert {"pid", "tid", "cat", "args"} <= event.keys()
        start, end = event["ts"], event["ts"] + event["dur"]
        while stack and start >= stack[-1]:
            stack.pop()
        assert all(end <= outer for outer in stack), "a slice ends after the one around it"
        stack.append(end)
    named = {(event["pid"], event["tid"]) for event in document["traceEvents"] if event["ph"] == "M"}
    assert {(event["pid"], event["tid"]) for event in events} == named
    (loop,) = (event for event in events if event["name"] == "outer_loop")
    bodies = [event for event in events if event["args"].get("path") == "outer_loop"]
    assert bodies
    assert all(loop["ts"] <= body["ts"] <= body["ts"] + body["dur"] <= loop["ts"] + loop["dur"] for body in bodies)


def slices(*course: tuple[int, int, int]) -> list[Slice]:
    """A course of (start, length, depth)."""
    return [
        Slice(node=node, start_ns=start_ns, length_ns=length_ns, depth=depth)
        for node, (start_ns, length_ns, depth) in enumerate(course)
    ]


def test_slices_that_were_cut_apart_lie_behind_one_another_and_inside_their_outer_one() -> None:
    course = slices((10_000, 20_000, 0), (9_000, 8_000, 1), (16_000, 16_000, 1), (29_000, 9_000, 0))
    assert placed(course) == [(10_000, 32_000), (10_000, 17_000), (17_000, 32_000), (32_000, 38_000)]


def test_slices_of_no_length_get_one_and_no_two_share_a_place() -> None:
    course = slices((0, 0, 0), (0, 0, 0), (0, 1_000, 0), (1_000, 0, 0), (1_000, 0, 1), (1_000, 0, 1), (2_000, 0, 0))
    spans = placed(course)
    assert spans == [(0, 125), (125, 250), (250, 1_000), (1_000, 1_250), (1_000, 1_125), (1_125, 1_250), (2_000, 2_125)]


def test_a_node_without_a_name_is_called_by_its_operator_and_names_fit_one_line() -> None:
    named = [("", "Conv_0"), ("two\nlines\x1b", "two\\nlines\\x1b"), ("long" * 500, "long" * 74 + "lon…")]
    for given, shown in named:
        profile = make.profile(ONE, (make.node(given),), slices=tuple(slices((0, 1_000, 0))))
        assert complete_events(trace(profile, profile_finding(profile, None, CPU), "m"))[1]["name"] == shown


def test_on_a_gpu_the_trace_says_that_it_shows_launches() -> None:
    for provider, said in (("CPUExecutionProvider", "nodes of one run"), ("CUDAExecutionProvider", "launches")):
        profile = make.profile(ONE, (make.node(provider=provider),))
        names = [
            event["args"]["name"]
            for event in trace(profile, profile_finding(profile, None, CPU), "m")["traceEvents"][:2]
        ]
        assert said in names[1]


def test_a_run_too_long_to_keep_its_course_gives_a_trace_of_the_run_alone() -> None:
    profile = make.profile(ONE, (make.node(),), model_run_ns=5_000)
    events = complete_events(trace(profile, profile_finding(profile, None, CPU), "m"))
    assert [(event["name"], event["dur"]) for event in events] == [("model_run", 5.0)]


NODES = (
    make.node("/layer1/conv1/Conv_output_0_nchwc", 500_000),
    make.node("/layer1/conv1/Relu", 100_000, index=1, op_type="Relu"),
    make.node("layer2.conv1.Conv", 300_000, index=2),
    make.node("Reorder", 100_000, index=3, op_type="ReorderOutput"),
)
DONE = NodeWork(flops=10, read_bytes=4, written_bytes=4, basis="name")
NOT = NodeWork(flops=None, read_bytes=None, written_bytes=None, basis=None, reason="unknown")


def test_operators_and_layers_add_up_and_a_missing_count_makes_a_group_unknown() -> None:
    found = profile_finding(make.profile(ONE, NODES), None, CPU, (DONE, NOT, DONE, DONE))
    kinds = by_op_type(found)
    assert [(each.name, each.nodes, each.self_ns, each.flops) for each in kinds] == [
        ("Conv", 2, 800_000, 20),
        ("Relu", 1, 100_000, None),
        ("ReorderOutput", 1, 100_000, 10),
    ]
    layers = by_layer(found)
    assert [(each.name, each.nodes) for each in layers] == [("layer1/conv1", 2), ("layer2/conv1", 1), ("(others)", 1)]
    assert sum(each.share for each in layers) == pytest.approx(1)


def test_the_document_keeps_to_its_schema_and_the_tables_have_their_rows() -> None:
    profile = make.profile(ONE, NODES)
    found = profile_finding(profile, None, CPU, (DONE, NOT, DONE, DONE))
    document = json.loads(json.dumps(profile_document(make.benchmark_run(), profile, found, most=2)))
    jsonschema.validate(document, json.loads((ROOT / "docs" / "schema" / "profile.schema.json").read_text()))
    assert len(document["profile"]["nodes"]) == 2
    assert document["profile"]["nodes_total"] == 4
    grid = slowest_grid(found, 3)
    assert len(grid.rows) == 3
    assert "10 % of the time has no FLOPs" in grid.caption
    assert groups_grid("By layer", by_layer(found), 1).caption == "2 more in --json"


def test_sizes_are_read_and_a_mistake_says_what_is_meant() -> None:
    assert parse_sizes("batch=4, height=320") == {"batch": [4], "height": [320]}
    for text in ("batch", "batch=", "=4", "batch=-1", "batch=4,,", "batch=x"):
        with pytest.raises(UsageError, match="axis=size"):
            parse_sizes(text)
