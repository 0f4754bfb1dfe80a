"""`onnxdyno bench` and what comes before the second call, and memory: on small models, in real processes."""

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

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


def test_memory_is_read_in_every_way_when_asked_and_the_least_is_found(onnxdyno: Callable[..., Ran]) -> None:
    asked = ("--memory", "full", "--true-minimum", "--batch", "1,2", "--budget", "30")
    ran = onnxdyno("bench", CASES / "batch_oom_64MiB_per_item.onnx", "--json", "--launches", "1", *asked)
    jsonschema.validate(ran.document, SCHEMA)
    one, two = (point["memory"] for point in ran.document["points"])
    for memory, batch in ((one, 1), (two, 2)):
        assert memory["arena_peak_bytes"] == pytest.approx(batch * 2 * 64 * 2**20, rel=0.02)
        assert memory["peak_bytes"] >= memory["arena_peak_bytes"]
        assert memory["same_as_requested_peak_bytes"] > 0
        assert abs(memory["predicted_error"]) < 0.6
    assert two["run_peak_bytes"] / one["run_peak_bytes"] == pytest.approx(2, rel=0.15)
    assert one["arena_peak_bytes"] * 0.98 <= one["arena_minimum_bytes"] <= 1.1 * one["arena_held_bytes"]
    assert (one["process_minimum_bytes"] is None) == ("process_minimum_bytes" in one["reasons"])
    assert "--true-minimum" in two["reasons"]["arena_minimum_bytes"]


def test_memory_can_be_left_out(onnxdyno: Callable[..., Ran]) -> None:
    ran = onnxdyno("bench", CASES / "nhwc_dynamic.onnx", *SMALL, "--memory", "off", "--budget", "4")
    (point,) = ran.document["points"]
    assert (point["memory"], point["peak_memory_bytes"]) == (None, None)
    assert point["reasons"]["memory"]
