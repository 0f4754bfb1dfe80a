"""`onnxdyno bench` and what comes before the second call, and memory: on small models, in real processes."""

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema

from commands import CASES, Ran

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "schema" / "bench.schema.json").read_text())
SMALL = ("--json", "--launches", "2", "--batch", "1", "--resolution", "64x64")
LEVELS = ["none", "basic", "extended", "layout", "all"]


def test_cold_numbers_are_there_at_every_level_when_asked(onnxdyno: Callable[..., Ran]) -> None:
    ran = onnxdyno("bench", CASES / "nhwc_dynamic.onnx", *SMALL, "--cold", "--budget", "30")
    jsonschema.validate(ran.document, SCHEMA)
    cold = ran.document["cold"]
    assert [each["optimisation"] for each in cold if each["phase"] == "session"] == LEVELS
    assert [each["optimisation"] for each in cold if each["phase"] == "first_run"] == LEVELS
    assert all(each["time_ms"] > 0 for each in cold if each["phase"] in ("session", "first_run"))
    cached, uncached = (each for each in cold if each["phase"] == "file_read")
    assert cached["time_ms"] > 0
    assert cached["read_bytes"] == ran.document["model"]["size_bytes"]
    assert (uncached["time_ms"] is None) == ("time_ms" in uncached["reasons"])


def test_without_asking_only_what_users_get_is_cold(onnxdyno: Callable[..., Ran]) -> None:
    ran = onnxdyno("bench", CASES / "external_ok" / "model.onnx", *SMALL[:3], "--budget", "4")
    cold = ran.document["cold"]
    assert {each["optimisation"] for each in cold if each["time_ms"] is not None} == {None, "all"}
    assert all(
        "--cold" in each["reasons"]["time_ms"] for each in cold if each["time_ms"] is None and not each["page_cache"]
    )
    assert cold[0]["read_bytes"] == ran.document["model"]["size_bytes"]  # external data included
