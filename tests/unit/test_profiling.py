"""Profiles as ONNX Runtime really writes them, and profiles that were cut."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from factories import point
from onnxdyno.domain.outcomes import NodeTiming, Profile
from onnxdyno.measuring.profiling import summarise
from onnxdyno.measuring.profiling.events import SUFFIX, Event, Events

CASES = Path(__file__).parents[1] / "cases"
RUNS = 20


def profiled(model: str | bytes, folder: Path, feeds: dict[str, Any], *, runs: int = RUNS) -> bytes:
    """The file of `runs` runs of a model, with the optimisations that are measured."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    for _ in range(runs):
        session.run(None, feeds)
    return Path(session.end_profiling()).read_bytes()


def case(name: str, folder: Path, **feeds: Any) -> bytes:
    """The profile of a case model."""
    return profiled(str(CASES / f"{name}.onnx"), folder, feeds)


def read(text: bytes, *, keep_runs: int = RUNS - 1) -> Profile:
    """Its summary."""
    with file_of(text) as path:
        return summarise(path, point(batch=1), keep_runs=keep_runs)


@contextmanager
def file_of(text: bytes) -> Iterator[Path]:
    """These bytes as a file."""
    with NamedTemporaryFile(suffix=".json") as file:
        file.write(text)
        file.flush()
        yield Path(file.name)


def read_events(text: bytes) -> tuple[list[Event], bool]:
    """Every event that can be read, and whether the file is whole."""
    with file_of(text) as path:
        events = Events(path)
        return list(events), events.is_whole


def named(profile: Profile, name: str) -> list[NodeTiming]:
    """Rows with this node name."""
    return [node for node in profile.nodes if node.name == name]


def test_a_loops_body_is_counted_once_and_shares_stay_within_the_run(tmp_path: Path) -> None:
    """O13: the plain sum of node times is nearly twice the run."""
    x = np.random.default_rng(0).standard_normal((64, 256), dtype=np.float32)
    text = case("loop20_profile_double_count", tmp_path, x=x)
    profile = read(text)
    assert profile.is_complete
    assert profile.model_run_ns is not None
    events, _ = read_events(text)
    plain_sum = sum(event.dur for event in events if event.cat == "Node" and event.name.endswith(SUFFIX))
    assert plain_sum > 1.3 * sum(event.dur for event in events if event.name == "model_run")
    assert 0.3 * profile.model_run_ns < sum(node.self_ns for node in profile.nodes) <= profile.model_run_ns
    (outer,) = named(profile, "outer_loop")
    body = [node for node in profile.nodes if node.path == "outer_loop"]
    assert outer.path == ""
    assert body
    assert outer.self_ns < sum(node.self_ns for node in body)
    assert {outer.index} & {node.index for node in body}, "indices collide: only the path tells these nodes apart"


def test_unnamed_nodes_are_six_rows_with_names_of_the_runtime(tmp_path: Path) -> None:
    """O27."""
    profile = read(case("empty_node_names", tmp_path, x=np.ones((1, 32), np.float32)))
    assert len(profile.nodes) == 6
    assert len({node.name for node in profile.nodes}) == 6
    assert {node.name.partition("_")[0] for node in profile.nodes} >= {"MatMul", "Relu"}


@pytest.mark.parametrize("flag", [True, False])
def test_the_same_name_at_top_level_and_in_a_branch_is_two_nodes(tmp_path: Path, flag: bool) -> None:
    """O29: and every run of many finds the same nodes on the same paths."""
    feeds = {"flag": np.array(flag), "x": np.ones((1, 32), np.float32)}
    text = profiled(str(CASES / "same_names_in_branches.onnx"), tmp_path, feeds, runs=500)
    profile = read(text, keep_runs=499)
    relus = [node for node in profile.nodes if node.name == "same/Relu"]
    top = [node for node in relus if node.path == ""]
    assert len(top) == 1
    if flag:
        assert len(relus) == 2, sorted((node.path, node.name) for node in profile.nodes)
        outside = {node.index for node in profile.nodes if not node.path}
        assert outside & {node.index for node in profile.nodes if node.path}, "indices collide across subgraphs"
    assert {node.runs for node in profile.nodes} == {499}


def test_a_cut_file_keeps_its_whole_runs_and_is_incomplete() -> None:
    """O42."""
    text = (CASES / "data" / "profile_truncated.json").read_bytes()
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)
    events, is_whole = read_events(text)
    assert not is_whole
    assert len(events) == 35
    assert sum(event.cat == "Node" for event in events) == 29
    profile = read(text, keep_runs=5)
    assert not profile.is_complete
    assert profile.runs == 2
    assert {node.runs for node in profile.nodes} == {2}
    assert profile.reason == "the profile was cut; 2 whole runs of it are used."


def test_the_runtimes_own_cut_mark_leaves_whole_runs_only() -> None:
    """O52."""
    profile = read((CASES / "data" / "profile_cap_with_marker.json").read_bytes(), keep_runs=5)
    assert not profile.is_complete
    assert profile.runs == 2
    assert [(node.name, node.self_ns) for node in profile.nodes] == [("a", 700_000), ("b", 100_000), ("c", 200_000)]
    assert profile.model_run_ns == 1_100_000
    assert "was cut" in (profile.reason or "")


@pytest.mark.parametrize("text", [b"", b"[", b"null", b"[]", b"\xff\x00", b'[{"cat":"Node"'])
def test_a_file_without_a_whole_run_says_so(text: bytes) -> None:
    profile = read(text)
    assert (profile.is_complete, profile.runs, profile.nodes) == (False, 0, ())
    assert profile.reason == "the profile holds no whole run."


HOSTILE = (
    'quo"te', "back\\slash", "new\nline", "\x1b[31mred", "<script>alert(1)</script>", "../../up", "é漢\u202e",
    "model_run", "profile_truncated", "a_kernel_time_in_the_middle", "twice_kernel_time",
)  # fmt: skip


def test_hostile_node_names_survive_exactly_and_only_the_last_suffix_goes(tmp_path: Path) -> None:
    names = ["x", *(f"y{at}" for at in range(len(HOSTILE)))]
    nodes = [
        helper.make_node("Sin" if at % 2 else "Exp", [names[at]], [names[at + 1]], name=name)
        for at, name in enumerate(HOSTILE)
    ]
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in (names[0], names[-1])]
    graph = helper.make_graph(nodes, "hostile", value[:1], value[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    profile = read(profiled(model.SerializeToString(), tmp_path, {"x": np.zeros(4, np.float32)}))
    assert profile.is_complete
    assert tuple(node.name for node in profile.nodes) == HOSTILE


def event(name: str, ts: int, dur: int, op: str = "Relu", index: int = 0) -> dict[str, Any]:
    """A kernel event."""
    args = {"op_name": op, "provider": "CPUExecutionProvider", "node_index": str(index)}
    return {"cat": "Node", "name": f"{name}_kernel_time", "ts": ts, "dur": dur, "args": args}


def run(ts: int, dur: int) -> dict[str, Any]:
    """A model_run."""
    return {"cat": "Session", "name": "model_run", "ts": ts, "dur": dur, "args": {}}


def rows(*events: dict[str, Any], keep_runs: int = 5) -> list[tuple[str, str, int]]:
    """(path, name, self time in µs) of each node."""
    profile = read(json.dumps(events).encode(), keep_runs=keep_runs)
    return [(node.path, node.name, node.self_ns // 1000) for node in profile.nodes]


def test_nodes_that_took_no_time_beside_an_if_are_not_taken_for_its_branch() -> None:
    got = rows(
        event("before", 100, 0), event("inner", 104, 5, index=1), event("if", 100, 10, "If"), event("after", 110, 0),
        run(90, 30),
    )  # fmt: skip
    assert sorted(got) == [("", "after", 0), ("", "before", 0), ("", "if", 5), ("if", "inner", 5)]


def test_an_inner_node_whose_end_was_rounded_past_its_parents_is_still_inside() -> None:
    got = rows(event("inner", 102, 5), event("if", 101, 5, "If"), run(90, 30))
    assert got == [("", "if", 0), ("if", "inner", 5)]


def test_subgraphs_nest() -> None:
    got = rows(
        event("mul", 102, 3),
        event("mul", 106, 3),
        event("loop", 101, 9, "Loop"),
        event("if", 100, 12, "If"),
        run(90, 30),
    )
    assert got == [("", "if", 3), ("if", "loop", 3), ("if/loop", "mul", 6)]


def test_a_node_is_its_median_over_runs_and_never_a_sum() -> None:
    runs = [
        part for at, dur in enumerate((5, 7, 100)) for part in (event("a", at * 1000 + 1, dur), run(at * 1000, 200))
    ]
    assert rows(*runs) == [("", "a", 7)]


def test_the_first_runs_are_warm_up() -> None:
    runs = [
        part for at, dur in enumerate((900, 5, 7)) for part in (event("a", at * 1000 + 1, dur), run(at * 1000, 950))
    ]
    assert rows(*runs, keep_runs=2) == [("", "a", 6)]


def test_a_branch_that_ran_in_a_minority_of_runs_has_a_median_of_nothing() -> None:
    plain = [part for at in range(4) for part in (event("then", at * 100 + 1, 8), run(at * 100, 50))]
    assert rows(*plain, event("else", 501, 9), run(500, 50)) == [("", "then", 8), ("", "else", 0)]
