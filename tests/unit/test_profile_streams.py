"""Profiles that are long, sorted otherwise, or of a GPU: files in the form that the runtime writes."""

import json
import tracemalloc
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from factories import point
from onnxdyno.domain.outcomes import Profile
from onnxdyno.measuring.profiling import summarise
from onnxdyno.measuring.profiling.events import Events

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


def node(name: str, ts: int, dur: int, op: str = "Relu", index: int = 0, **args: str) -> dict[str, Any]:
    """A node's event."""
    details = {"op_name": op, "provider": CPU, "node_index": str(index), "output_size": "64"} | args
    return {"cat": "Node", "name": f"{name}_kernel_time", "ts": ts, "dur": dur, "args": details}


def fence(name: str, ts: int, when: str) -> dict[str, Any]:
    """What older versions write around a node."""
    return {"cat": "Node", "name": f"{name}_fence_{when}", "ts": ts, "dur": 50, "args": {"op_name": "Relu"}}


def run(ts: int, dur: int) -> dict[str, Any]:
    """A model_run."""
    return {"cat": "Session", "name": "model_run", "ts": ts, "dur": dur, "args": {}}


def kernel(name: str, dur: int, parent: str, op: str = "Conv") -> dict[str, Any]:
    """A kernel on the device, as the CUDA provider adds it behind the event of the node that launched it."""
    grid = {
        "stream": "7",
        "grid_x": "8",
        "grid_y": "1",
        "grid_z": "1",
        "block_x": "128",
        "block_y": "1",
        "block_z": "1",
    }
    return {"cat": "Kernel", "pid": -1, "tid": -1, "name": name, "ts": 0, "dur": dur} | {
        "args": grid | {"op_name": op, "parent_name": f"{parent}_kernel_time"}
    }


def written(events: Iterable[dict[str, Any]], path: Path) -> Path:
    """One event a line, as the runtime writes them."""
    with path.open("w") as file:
        file.write("[\n")
        for at, each in enumerate(events):
            file.write((",\n" if at else "") + json.dumps(each))
        file.write("\n]\n")
    return path


def read(events: Sequence[dict[str, Any]], folder: Path, *, keep_runs: int = 5) -> Profile:
    """The summary of a file of these events."""
    return summarise(written(events, folder / "profile.json"), point(batch=1), keep_runs=keep_runs)


def rows(profile: Profile) -> list[tuple[str, str, int]]:
    """(path, name, self time in µs) of each node."""
    return [(each.path, each.name, each.self_ns // 1000) for each in profile.nodes]


def long_profile(count: int) -> Iterable[dict[str, Any]]:
    """Runs of ten nodes, with the details that take most of a file."""
    details = {"thread_scheduling_stats": "x" * 200, "mem_in_use_peak": "100", "mem_arena_held": "200"}
    for at in range(count // 11):
        for place in range(10):
            yield node(f"n{place}", at * 100 + place * 10, 5, index=place, **details)
        yield run(at * 100, 100)


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    peaks = []
    for count in (10_000, 100_000):
        path = written(long_profile(count), tmp_path / f"{count}.json")
        tracemalloc.start()
        profile = summarise(path, point(batch=1), keep_runs=5)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert profile.is_complete
        assert profile.runs == 5
        assert len(profile.nodes) == 10
    assert peaks[1] < 1.3 * peaks[0] < path.stat().st_size / 5


def test_one_long_run_takes_a_few_bytes_an_event(tmp_path: Path) -> None:
    body = [node("body", 10 + at, 1, index=1, thread_scheduling_stats="x" * 500) for at in range(50_000)]
    path = written([*body, node("loop", 5, 60_000, "Loop"), run(0, 60_010)], tmp_path / "loop.json")
    tracemalloc.start()
    profile = summarise(path, point(batch=1), keep_runs=5)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows(profile) == [("", "loop", 10_000), ("loop", "body", 50_000)]
    assert peak_bytes < path.stat().st_size / 2


def by_start(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """As the runtime sorts them when a provider adds events of its own: an outer one first."""
    return sorted(events, key=lambda event: (event["ts"], -event["dur"]))


def test_events_sorted_by_start_give_the_same_nodes(tmp_path: Path) -> None:
    """Then a run's own event stands before those of its nodes."""
    events = [
        part
        for at in (0, 1000, 2000)
        for part in (
            node("a", at + 11, 5),
            node("inner", at + 22, 3, index=1),
            node("inner", at + 26, 4, index=1),
            node("loop", at + 20, 12, "Loop", index=1),
            node("if", at + 18, 20, "If", index=2),
            node("after", at + 40, 2, index=3),
            run(at + 10, 50 + at // 100),
        )
    ]
    expected = read(events, tmp_path)
    assert rows(expected) == [("", "a", 5), ("", "if", 8), ("if", "loop", 5), ("if/loop", "inner", 7), ("", "after", 2)]
    assert read(by_start(events), tmp_path) == expected
    assert expected.runs == 3


def test_a_cut_file_that_is_sorted_by_start_loses_its_last_run_only(tmp_path: Path) -> None:
    events = [
        part for at in range(3) for part in (run(at * 100, 90), node("a", at * 100 + 5, 5), node("b", at * 100 + 50, 6))
    ]
    text = written(events, tmp_path / "whole.json").read_bytes()
    path = tmp_path / "cut.json"
    path.write_bytes(text[: text.rindex(b'"b_kernel_time"')])
    profile = summarise(path, point(batch=1), keep_runs=5)
    assert (profile.is_complete, profile.runs) == (False, 2)
    assert rows(profile) == [("", "a", 5), ("", "b", 6)]


def test_fences_are_no_time_of_a_node(tmp_path: Path) -> None:
    profile = read([fence("a", 1, "before"), node("a", 5, 7), fence("a", 12, "after"), run(0, 100)], tmp_path)
    assert rows(profile) == [("", "a", 7)]


def test_what_the_arena_held_is_the_most_of_the_kept_runs(tmp_path: Path) -> None:
    events = [
        part
        for at, (peak, held) in enumerate([(900, 950), (300, 400), (310, 390)])
        for part in (
            node("a", at * 100 + 1, 5, mem_in_use_peak=str(peak), mem_arena_held=str(held), mem_bytes_in_use="1"),
            run(at * 100, 50),
        )
    ]
    profile = read(events, tmp_path, keep_runs=2)
    assert (profile.arena_peak_bytes, profile.arena_held_bytes, profile.arena_reason) == (310, 400, None)


def test_an_arena_that_the_events_do_not_tell_is_none_with_a_reason(tmp_path: Path) -> None:
    profile = read([node("a", 1, 5), run(0, 50)], tmp_path)
    assert (profile.arena_peak_bytes, profile.arena_held_bytes) == (None, None)
    assert profile.arena_reason


def gpu_run(at: int) -> list[dict[str, Any]]:
    """One run on a GPU: launches of a few µs, kernels that take long."""
    on = {"provider": CUDA, "mem_in_use_peak": "7000", "mem_arena_held": "9000"}
    return [
        run(at, 2000),
        node("copy_in", at + 1, 9, "MemcpyFromHost", index=0, **on),
        node("conv1", at + 20, 6, "Conv", index=1, **on),
        kernel("implicit_gemm<float>", 400, "conv1"),
        kernel("add_bias", 30, "conv1"),
        node("conv2", at + 40, 5, "Conv", index=2, **on),
        kernel("implicit_gemm<float>", 300, "conv2"),
        node("shape", at + 60, 2, "Shape", index=3, mem_in_use_peak="5", mem_arena_held="6"),
    ]


def test_kernels_are_linked_to_the_node_that_launched_them(tmp_path: Path) -> None:
    profile = read([*gpu_run(0), *gpu_run(5000)], tmp_path)
    assert [(each.name, each.self_ns // 1000, each.kernel_ns) for each in profile.nodes] == [
        ("copy_in", 9, None),
        ("conv1", 6, 430_000),
        ("conv2", 5, 300_000),
        ("shape", 2, None),
    ]
    assert profile.kernels_reason is None
    assert (profile.arena_peak_bytes, profile.arena_held_bytes) == (7000, 9000), "of the device, not of the host"


def test_kernels_that_name_no_node_are_told_and_given_to_none(tmp_path: Path) -> None:
    stray = kernel("graph_launch", 800, "nobody")
    profile = read([*gpu_run(0), stray], tmp_path)
    assert sum(each.kernel_ns or 0 for each in profile.nodes) == 730_000
    assert profile.kernels_reason == "800 µs of kernels name no node."


def test_a_profile_without_kernels_says_so(tmp_path: Path) -> None:
    profile = read([node("a", 1, 5), run(0, 50)], tmp_path)
    assert profile.nodes[0].kernel_ns is None
    assert "writes no kernels" in (profile.kernels_reason or "")


@pytest.mark.parametrize(
    "odd",
    [
        b'{"cat":"Node","name":"a_kernel_time","ts":1e99,"dur":1,"args":{}}',
        b'{"cat":"Node","name":"a_kernel_time","ts":99999999999999999999999,"dur":1,"args":{}}',
        b'{"cat":"Node","name":7}',
        b"null",
        b"{{{{",
        b"\xff\xfe",
        b'[{"cat":"Node"',
    ],
)
def test_a_damaged_line_is_left_out_and_told(tmp_path: Path, odd: bytes) -> None:
    good = json.dumps(node("a", 1, 5)).encode()
    path = tmp_path / "odd.json"
    path.write_bytes(b"[\n%b,\n%b,\n%b\n]\n" % (good, odd, json.dumps(run(0, 50)).encode()))
    profile = summarise(path, point(batch=1), keep_runs=5)
    assert not profile.is_complete
    assert rows(profile) == [("", "a", 5)]


@pytest.mark.parametrize("index", ["x", "", "9" * 40, "-1"])
def test_an_index_that_is_no_number_is_minus_one(tmp_path: Path, index: str) -> None:
    profile = read([node("a", 1, 5) | {"args": {"node_index": index}}, run(0, 50)], tmp_path)
    assert [each.index for each in profile.nodes] == [-1]


def test_several_events_on_one_line_and_a_bracket_beside_one_are_read(tmp_path: Path) -> None:
    one, two, end = (json.dumps(each) for each in (node("a", 1, 5), node("b", 7, 3), run(0, 50)))
    for text in (
        f"[\n{one}, {two},\n{end}]",
        f"[{one},{two},{end}]",
        f"[{one},\n{two},\n{end}\n]",
        f"[\r\n{one},\r\n{two},\r\n{end}\r\n]",
    ):
        path = tmp_path / "odd.json"
        path.write_text(text, newline="")
        events = Events(path)
        assert len(list(events)) == 3
        assert events.is_whole, text
