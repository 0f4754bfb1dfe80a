"""A real bench that was stored, and which device its model needs by that run alone and beside its file."""

import html
import os
import re
import shlex
import shutil
from pathlib import Path

from commands import CASES, run_onnxdyno


def test_a_stored_bench_says_which_device_its_model_needs(tmp_path: Path) -> None:
    shutil.copy(CASES / "nhwc_dynamic.onnx", tmp_path / "model.onnx")
    around = {**os.environ, "ONNXDYNO_LOCK_DIR": str(tmp_path / "locks")}
    asked = (
        "bench",
        "model.onnx",
        "--launches",
        "1",
        "--budget",
        "6",
        "--resolution",
        "64x64",
        "--batch",
        "1,2",
        "--out",
        "file:results",
        "--json",
    )
    benched = run_onnxdyno(asked, tmp_path, around)
    assert benched.code == 0, benched.err
    tiers = {each["tier"]: each for each in benched.document["requirements"]}
    assert tiers["recommended"]["basis"] == "memory"
    assert "no target was given" in tiers["recommended"]["reason"]
    assert tiers["optimal"]["device_id"] is not None
    assert "arithmetic of the file's" in tiers["optimal"]["evidence"]
    run_id = benched.document["run"]["id"]
    stored = (
        "--run",
        run_id,
        "--results",
        "file:results",
        "--target-latency-ms",
        "100",
        "--resolution",
        "64x64",
        "--json",
    )
    for arguments, said in ((("model.onnx", *stored), "arithmetic of model.onnx"), (stored, f"run {run_id}")):
        found = run_onnxdyno(("requirements", *arguments), tmp_path, around)
        assert found.code == 0, found.err
        recommended = found.document["requirements"][1]
        assert said in recommended["evidence"]
        assert recommended["needed_bytes"] > 2 * 2**30
    predicted = run_onnxdyno(
        ("predict", "--run", run_id, "--results", "file:results", "--to", "t4", "--json"), tmp_path, around
    )
    assert predicted.code == 0, predicted.err
    assert predicted.document["predictions"][0]["source_id"] is None
    (page,) = (tmp_path / "results").rglob("summary.html")
    told = re.search(r"<b>again</b> (onnxdyno [^<]+)</li>", page.read_text(encoding="utf-8"))
    assert told is not None
    again = run_onnxdyno((*shlex.split(html.unescape(told[1]))[1:], "--json"), tmp_path, around)
    assert again.code == 0, again.err
    shown = benched.document["other_devices"]["predictions"]
    assert [each["device_id"] for each in shown] == [each["target_id"] for each in again.document["predictions"]]
    for one, other in zip(shown, again.document["predictions"], strict=True):
        assert (one["latency_ms"], one["latency_interval_ms"], one["basis"]) == (
            other["latency_ms"],
            [other["low_ms"], other["high_ms"]],
            other["basis"],
        )
