"""The published JSON: the keys that were promised, valid whatever the values are, and equal to its schema."""

import json
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

import factories as make
from onnxdyno.analysis import analyse
from onnxdyno.analysis.prediction import ProfileNode, predict
from onnxdyno.domain.axes import Role, axis_sizes
from onnxdyno.domain.findings import Estimate, Findings
from onnxdyno.domain.models import Dim, TensorSpec
from onnxdyno.domain.outcomes import PointState
from onnxdyno.domain.plan import BenchmarkSpec
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.hardware.lookup import shipped
from onnxdyno.reporting import documents, predictions

DOCS = Path(__file__).parents[2] / "docs"
NAN, INFINITY = float("nan"), float("inf")
HOSTILE = "\x1b[31m<script>\x9b\u202e\udc80\n\x7f\"'"


def schema(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((DOCS / "schema" / f"{name}.schema.json").read_text(encoding="utf-8"))
    return loaded


def closed(node: Any) -> Any:
    """The schema without room for keys that it does not name."""
    if isinstance(node, dict):
        shut = {key: closed(value) for key, value in node.items()}
        if "properties" in shut:
            shut.setdefault("additionalProperties", False)
        return shut
    return [closed(each) for each in node] if isinstance(node, list) else node


def validate(name: str, document: documents.Document) -> dict[str, Any]:
    """Round-trip through text, then hold it to the closed schema; returns what a reader gets."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    text = documents.dumps(document)
    read: dict[str, Any] = json.loads(text.encode("utf-8"), parse_constant=refuse)
    registry: Registry[Any] = Registry().with_resource(
        "bench.schema.json", Resource.from_contents(closed(schema("bench")))
    )
    Draft202012Validator(closed(schema(name)), registry=registry).validate(read)
    return read


def run_and_findings() -> tuple[BenchmarkRun, Findings]:
    base = make.point(batch=1, height=32, width=32)
    large = make.point(batch=64, height=32, width=32)
    run = make.benchmark_run((make.measured(base), make.skipped(large, PointState.OOM)))
    points = (make.point_finding(base, 1_234_567.0), make.skipped_finding(large, PointState.OOM))
    return run, make.findings(points, here=make.measured_here(base))


@pytest.mark.parametrize("name", ["bench", "inspect", "summary", "error", "predict", "hardware", "requirements"])
def test_the_schemas_are_schemas(name: str) -> None:
    Draft202012Validator.check_schema(schema(name))


def test_a_run_is_what_the_schema_says() -> None:
    read = validate("bench", documents.bench_document(*run_and_findings()))
    assert validate("summary", documents.bench_document(*run_and_findings())) == read


def test_the_promised_keys_are_there() -> None:
    read = validate("bench", documents.bench_document(*run_and_findings()))
    assert set(read) >= {"model", "device", "axes", "points", "findings", "requirements"}
    assert set(read["model"]) >= {"name", "sha256", "opset", "parameters"}
    assert set(read["device"]) >= {"id", "name", "device_class"}
    assert set(read["axes"][0]) >= {"name", "role", "size"}
    assert set(read["points"][0]) >= {
        "axes", "variant", "state", "flags", "reason", "n", "launches", "p50_ms", "p50_ci_ms", "p90_ms", "p90_ci_ms",
        "p99_ms", "p99_ci_ms", "throughput_items_per_s", "throughput_ci", "peak_memory_bytes",
    }  # fmt: skip


def test_a_latency_is_in_milliseconds_with_its_digits() -> None:
    point = validate("bench", documents.bench_document(*run_and_findings()))["points"][0]
    assert point["p50_ms"] == 1.234567
    assert point["p50_ci_ms"] == [pytest.approx(1.2222213), pytest.approx(1.2469127)]
    on_device = {f"{name}_{unit}" for name in ("event", "h2d", "d2h") for unit in ("ms", "ci_ms")}
    energy = {f"energy_per_{of}_{unit}" for of in ("item", "call") for unit in ("mj", "ci_mj")}
    unread = {"flops", "activation_peak_bytes", "memory", *energy}
    assert set(point["reasons"]) == unread | on_device  # not in the factories


def test_a_skipped_point_is_null_with_reasons_and_never_zero() -> None:
    point = validate("bench", documents.bench_document(*run_and_findings()))["points"][1]
    absent = (
        "n_eff",
        "p50_ms",
        "p50_ci_ms",
        "p90_ms",
        "p99_ms",
        "p99_ci_ms",
        "throughput_items_per_s",
        "throughput_ci",
        "peak_memory_bytes",
    )
    assert {key: point[key] for key in absent} == dict.fromkeys(absent)
    assert {point["reasons"][key] for key in absent} == {"refused"}
    assert point["state"] == "oom"


def test_a_value_without_an_interval_keeps_the_value() -> None:
    run, found = run_and_findings()
    bare = replace(found.points[0], p50_ns=Estimate(value=2e6, reason="one launch"))
    point = validate("bench", documents.bench_document(run, replace(found, points=(bare,))))["points"][0]
    assert (point["p50_ms"], point["p50_ci_ms"], point["reasons"]["p50_ci_ms"]) == (2.0, None, "one launch")


def test_nan_and_infinity_become_null_with_a_reason() -> None:
    run, found = run_and_findings()
    odd = replace(
        found.points[0],
        p50_ns=Estimate(value=NAN, low=NAN, high=INFINITY),
        throughput_items_per_s=Estimate(value=INFINITY, low=1.0, high=2.0),
    )
    choice = replace(found.best_batch, value=NAN)
    read = validate("bench", documents.bench_document(run, replace(found, points=(odd,), best_batch=choice)))
    point = read["points"][0]
    assert read["findings"]["best_batch"]["value"] is None
    assert point["p50_ms"] is None
    assert point["p50_ci_ms"] is None
    assert "nan" in point["reasons"]["p50_ms"]
    assert point["throughput_items_per_s"] is None
    assert point["throughput_ci"] is None


def test_dumps_never_writes_a_bare_nan() -> None:
    assert json.loads(documents.dumps({"a": NAN, "b": [INFINITY, 1.0]})) == {
        "a": None,
        "b": [None, 1.0],
        "reasons": {"a": "the value was not finite (nan)"},
    }


def test_hostile_names_give_plain_ascii_json_that_keeps_them() -> None:
    run, found = run_and_findings()
    plan = replace(run.plan, model=make.local_model(HOSTILE))
    document = documents.bench_document(replace(run, plan=plan), found)
    text = documents.dumps(document)
    assert all(" " <= character <= "~" or character == "\n" for character in text)
    assert validate("bench", document)["model"]["name"] == HOSTILE.replace("\udc80", "\\udc80")


def test_the_same_document_gives_the_same_text_whatever_its_order() -> None:
    document = documents.bench_document(*run_and_findings())
    assert documents.dumps(document) == documents.dumps(dict(reversed(deepcopy(document).items())))


def test_a_model_is_inspected_as_the_schema_says() -> None:
    sizes = axis_sizes({"batch": 2, "height": 64, "width": 32})
    read = validate("inspect", documents.inspect_document(make.model_ref(), make.image_signature(), make.cost(sizes)))
    image = read["inputs"][0]
    assert image["shape"] == ["batch", 3, "height", "width"]
    assert image["roles"] == ["batch", "channels", "height", "width"]
    assert image["shape_at"] == [2, 3, 64, 32]
    assert read["cost"]["flops"] == 1_000_000_000
    assert read["cost"]["activation_peak_bytes"] is None
    assert read["cost"]["reasons"] == {"activation_peak_bytes": "an output's size depends on data"}


@pytest.mark.parametrize(
    ("dim", "shown", "at_point"),
    [
        (Dim(role=Role.OTHER, constant=0), 0, 0),
        (Dim(role=Role.BATCH, constant=4, symbol="N"), 4, 4),
        (Dim(role=Role.OTHER, symbol="?"), None, None),
        (Dim(role=Role.OTHER, symbol="num_boxes"), "num_boxes", None),
        (Dim(role=Role.SEQUENCE, axes=("past", "sequence")), "past + sequence", 24),
        (Dim(role=Role.SEQUENCE, axes=("sequence",), constant=1), "sequence + 1", 17),
        (Dim(role=Role.SEQUENCE, axes=("sequence",), negative=("past",)), "sequence - past", 8),
        (Dim(role=Role.SEQUENCE, axes=("sequence",), constant=-1), "sequence - 1", 15),
        (Dim(role=Role.SEQUENCE, axes=("unsized",)), "unsized", None),
    ],
)
def test_a_dimension_is_a_size_an_expression_or_null(dim: Dim, shown: int | str | None, at_point: int | None) -> None:
    tensor = TensorSpec(name="x", kind="tensor", dtype="float32", dims=(dim,))
    signature = make.text_signature(inputs=(tensor,))
    sizes = axis_sizes({"past": 8, "sequence": 16})
    read = validate("inspect", documents.inspect_document(make.model_ref(), signature, make.cost(sizes)))["inputs"][0]
    assert (read["shape"], read["shape_at"]) == ([shown], [at_point])


def test_an_unknown_rank_is_null() -> None:
    signature = make.text_signature(inputs=(TensorSpec(name="x", kind="sequence", dtype="float32", dims=None),))
    read = validate("inspect", documents.inspect_document(make.model_ref(), signature, make.cost()))["inputs"][0]
    assert (read["shape"], read["roles"], read["shape_at"]) == (None, None, None)


def test_a_device_that_was_not_measured_has_a_reason_for_every_null() -> None:
    run, found = run_and_findings()
    nothing = Estimate(value=None, reason="timeout")
    base = make.point(batch=1, height=32, width=32)
    lost = make.measured_here(
        base, meets=None, state=None, latency_ns=nothing, peak_memory_bytes=None, device_memory_bytes=None
    )
    (told,) = validate("bench", documents.bench_document(run, replace(found, here=lost)))["measured_here"]
    assert {name for name, value in told.items() if value is None} == set(told["reasons"])
    assert told["reasons"]["latency_ms"] == "timeout"


def test_a_refusal_is_one_object() -> None:
    read = validate("error", documents.error_document("invalid_file", "empty object", "Upload it again."))
    assert read == {"error": {"state": "invalid_file", "reason": "empty object", "remedy": "Upload it again."}}


def test_what_was_asked_is_in_the_document() -> None:
    run, found = run_and_findings()
    asked = replace(run, plan=replace(run.plan, spec=BenchmarkSpec(launches=7, latency_target_ms=12.5)))
    protocol = validate("bench", documents.bench_document(asked, found))["protocol"]
    assert (protocol["launches"], protocol["latency_target_ms"], protocol["threads"]) == (7, 12.5, 3)


def test_predictions_for_other_devices_fit_the_schema_with_and_without_numbers() -> None:
    run, found = run_and_findings()
    predicted = analyse(run).others
    for others in (predicted, replace(predicted, predictions=(), reason=HOSTILE)):
        read = validate("bench", documents.bench_document(run, replace(found, others=others)))["other_devices"]
        assert (read["reason"] is None) == bool(read["predictions"])
        for each in read["predictions"]:
            assert {name for name, value in each.items() if value is None} == set(each["reasons"])


def test_a_prediction_is_what_the_schema_says() -> None:
    nodes = (ProfileNode(kind="Gemm", flops=1e11, bytes=1e8, latency_ns=2e7),)
    found = predict(nodes, "t4", ["t4", "l4", "xeon-8375c"])
    read = validate("predict", predictions.predict_document(found, HOSTILE, len(nodes)))
    for each in read["predictions"]:
        assert {name for name, value in each.items() if value is None} == set(each["reasons"])


def test_every_device_of_the_catalogue_is_what_the_schema_says() -> None:
    read = validate("hardware", predictions.hardware_document(shipped(), shipped().devices))
    assert len(read["devices"]) == len(shipped().devices)


def test_every_key_of_the_schema_is_explained() -> None:
    page = (DOCS / "json.md").read_text(encoding="utf-8")

    def keys(node: Any) -> set[str]:
        if isinstance(node, list):
            return {key for each in node for key in keys(each)}
        if not isinstance(node, dict):
            return set()
        named = set(node.get("properties", {}))
        return named | {key for value in node.values() for key in keys(value)}

    constants = set(schema("bench")["properties"]["protocol"]["properties"])
    tails = {f"{name}_ci_ms" for name in ("p90", "p95", "p99")}
    unexplained = {
        key
        for name in ("bench", "inspect", "error", "predict", "hardware", "requirements")
        for key in keys(schema(name)) - constants - tails
        if not any(spelt in page for spelt in (f"`{key}`", f"`{key}[]`", f'"{key}"'))
    }
    assert unexplained == set()
