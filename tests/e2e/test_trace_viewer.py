"""Traces in the real chrome://tracing: what its own model says after its own importer read the file."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import chromium
import factories as make
from commands import CASES, Ran
from onnxdyno.analysis.nodes import profile_finding
from onnxdyno.domain.outcomes import Slice
from onnxdyno.reporting import documents
from onnxdyno.reporting.trace import trace
from small_models import model_of

_SEEN = """(async () => {
    const view = document.querySelector('tr-ui-timeline-view');
    while (!view.model || view.model.getAllThreads().length === 0) await new Promise(done => setTimeout(done, 20));
    const model = view.model, threads = model.getAllThreads();
    const slices = threads.flatMap(thread => thread.sliceGroup.slices);
    return {
        warnings: model.importWarnings.map(each => each.message),
        processes: model.getAllProcesses().map(each => each.name),
        threads: threads.map(each => each.name),
        unit: model.intrinsicTimeUnit.unit,
        slices: slices.map(each => ({
            name: each.title, category: each.category, start_ms: each.start, length_ms: each.duration, args: each.args,
            is_open: each.didNotFinish, inside: each.parentSlice ? slices.indexOf(each.parentSlice) : null,
        })),
    };
})()"""
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    '"quoted\\" {"ph":"E"}',
    "__proto__",
    "trace_event_overhead",
    "two\nlines\x1b[31m\x7f",
    "\u202eright to left \u2028 🤖 é",
    "long" * 500,
    "",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Browser]:
    """One Chromium for all traces."""
    path = chromium.program()
    if path is None:
        pytest.skip("no Chromium on this machine: its own trace viewer is what reads the traces here")
    with chromium.browser(path, tmp_path_factory.mktemp("chromium")) as running:
        yield running


def seen(browser: chromium.Browser, file: Path) -> dict[str, Any]:
    """What chrome://tracing makes of a file that was loaded with its own button."""
    page = browser.page("chrome://tracing")
    page.choose_file("document.querySelector('#load-button').click()", file)
    model: dict[str, Any] = page.value(_SEEN)
    return model


def complete(file: Path) -> list[dict[str, Any]]:
    """The slices that were written."""
    return [event for event in json.loads(file.read_text())["traceEvents"] if event["ph"] == "X"]


def check_all_is_there(model: dict[str, Any], written: list[dict[str, Any]]) -> None:
    """Every slice came through, with its name, its time and what is known of it, none open or inside a wrong one."""
    assert model["warnings"] == []
    slices = model["slices"]
    assert [each["name"] for each in slices] == [event["name"] for event in written]
    assert [each["category"] for each in slices] == [event["cat"] for event in written]
    assert [each["args"] for each in slices] == [event["args"] for event in written]
    assert [each["length_ms"] for each in slices] == pytest.approx([event["dur"] / 1000 for event in written])
    assert [each["start_ms"] for each in slices] == pytest.approx([event["ts"] / 1000 for event in written])
    assert not any(each["is_open"] for each in slices)
    assert slices[0]["inside"] is None
    paths = [(each["args"].get("path", ""), each["name"]) for each in slices]
    for each in slices[1:]:
        path = each["args"].get("path", "")
        around, outer = paths[each["inside"]]
        assert (f"{around}/{outer}" if around else outer) == (path or "model_run")


@pytest.mark.parametrize(
    "case", ["loop20_profile_double_count", "audio_scalar_sr_if", "same_names_in_branches", "empty_node_names"]
)
def test_chromium_shows_a_profile_node_for_node(
    case: str, onnxdyno: Callable[..., Ran], browser: chromium.Browser, tmp_path: Path
) -> None:
    file = tmp_path / "run.json"
    ran = onnxdyno("profile", str(CASES / f"{case}.onnx"), "--budget", "2", "--trace", str(file), "--json")
    assert ran.code == 0, ran.err
    model, written = seen(browser, file), complete(file)
    assert len(written) > len(ran.document["profile"]["nodes"]) > 0
    check_all_is_there(model, written)
    assert model["processes"] == [f"onnxdyno profile of {case}.onnx"]
    assert model["threads"] == ["nodes of one run"]


def test_hostile_names_are_labels_and_nothing_else(
    onnxdyno: Callable[..., Ran], browser: chromium.Browser, tmp_path: Path
) -> None:
    names = [f"t{place}" for place in range(len(HOSTILE) + 1)]
    nodes = [
        helper.make_node("MatMul", [names[place], "w"], [names[place + 1]], name=name)
        for place, name in enumerate(HOSTILE)
    ]
    built = model_of(nodes, {"t0": (4, 4)}, [names[-1]], stored={"w": np.eye(4, dtype=np.float32)})
    onnx.save(built, tmp_path / "hostile.onnx")
    file = tmp_path / "run.json"
    ran = onnxdyno("profile", "hostile.onnx", "--budget", "2", "--trace", str(file), "--json")
    assert ran.code == 0, ran.err
    model, written = seen(browser, file), complete(file)
    check_all_is_there(model, written)
    assert len(written) == 1 + len(HOSTILE)
    assert all(each["name"].isprintable() and 0 < len(each["name"]) <= 300 for each in model["slices"])


def test_nodes_below_a_microsecond_lie_beside_one_another_not_inside(browser: chromium.Browser, tmp_path: Path) -> None:
    nodes = (make.node("loop", op_type="Loop"), *(make.node(f"n{place}", index=place) for place in range(1, 4)))
    ends = [(0, 0, 10, 0), (1, 0, 0, 1), (2, 0, 0, 1), (3, 10, 0, 1), (1, 10, 0, 0), (2, 10, 0, 0), (3, 11, 5, 0)]
    course = tuple(
        Slice(node=node, start_ns=1000 * start_us, length_ns=1000 * length_us, depth=depth)
        for node, start_us, length_us, depth in ends
    )
    profile = make.profile(make.point(batch=1), nodes, model_run_ns=20_000, slices=course)
    file = tmp_path / "run.json"
    file.write_text(documents.dumps(trace(profile, profile_finding(profile, None, make.cpu_device()), "m.onnx")))
    slices = seen(browser, file)["slices"]
    assert [each["inside"] for each in slices] == [None, 0, 1, 1, 1, 0, 0, 0]
