"""What a person types wrong, and what they read."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import CASES, Ran

MODEL = CASES / "static_batch1.onnx"
SCHEMAS = Path(__file__).parents[2] / "docs" / "schema"

WRONG: tuple[tuple[tuple[str, ...], int, str], ...] = (
    (("bench", "absent.onnx"), 2, "absent.onnx"),
    (("bench", str(CASES)), 2, "cases"),
    (("bench", str(MODEL), "--batch", "1,x"), 2, "batch"),
    (("bench", str(MODEL), "--batch", "0"), 2, "batch"),
    (("bench", str(MODEL), "--resolution", "32by32"), 2, "resolution"),
    (("bench", str(MODEL), "--launches", "0"), 2, "launches"),
    (("bench", str(MODEL), "--budget", "-1"), 2, "budget"),
    (("bench", str(MODEL), "--device", "cuda:7"), 5, "cuda:7"),
    (("bench", str(MODEL), "--device", "GPU-\x1b[31m"), 5, "\\x1b[31m"),
    (("bench", str(MODEL), "--spec", "absent.yaml"), 2, "absent.yaml"),
    (("bench", str(MODEL), "--out", "nowhere"), 2, "file:"),
    (("bench", str(MODEL), "--out", "s3://user:secret@bucket/x"), 2, "credentials"),
    (("query", "SELEKT 1", "--results", "file:results"), 2, "SELEKT"),
    (("query", "SELECT * FROM absent", "--results", "file:results"), 2, "absent"),
    (("inspect", str(CASES / "zero_bytes.onnx")), 3, "empty object"),
)


@pytest.mark.parametrize(("arguments", "code", "word"), WRONG, ids=[" ".join(each[0][-2:])[-30:] for each in WRONG])
def test_a_mistake_gets_one_clear_line(
    onnxdyno: Callable[..., Ran], arguments: tuple[str, ...], code: int, word: str
) -> None:
    ran = onnxdyno(*arguments)
    lines = ran.err.strip().splitlines()
    assert ran.code == code
    assert len(lines) == 1, ran.err
    assert word in lines[0]
    assert "secret" not in ran.err
    assert ran.out == ""


def test_inspect_prints_schema_checked_json(onnxdyno: Callable[..., Ran]) -> None:
    ran = onnxdyno("inspect", CASES / "lstm_state_batch_dim1.onnx", "--json")
    jsonschema.validate(ran.document, json.loads((SCHEMAS / "inspect.schema.json").read_text()))
    assert [(axis["name"], axis["role"]) for axis in ran.document["axes"]] == [("N", "batch"), ("T", "sequence")]


def test_inspect_says_that_it_counts_flops_and_what_a_mac_is(onnxdyno: Callable[..., Ran]) -> None:  # O01
    said = " ".join(onnxdyno("inspect", CASES / "grouped_conv_counts.onnx").out.split())
    assert "304 parameters" in said
    assert "147.5 kFLOPs" in said
    assert "1 multiply-accumulate = 2 FLOPs" in said


def test_the_cpu_is_always_a_device(onnxdyno: Callable[..., Ran]) -> None:
    found = onnxdyno("devices", "--json").document["devices"]
    assert found[0]["id"] == "cpu"
    assert all((fact["value"] is None) == (fact["reason"] is not None) for fact in found[0]["fingerprint"])


def test_an_empty_results_store_can_be_asked(onnxdyno: Callable[..., Ran]) -> None:
    ran = onnxdyno("query", "SELECT count(*) AS runs FROM runs", "--results", "file:results", "--json")
    assert ran.document == {"rows": [{"runs": 0}]}


def test_a_bench_with_out_can_be_asked_with_sql_and_read_as_a_page(
    onnxdyno: Callable[..., Ran], tmp_path: Path
) -> None:
    for _ in range(2):
        ran = onnxdyno(
            "bench", MODEL, "--budget", "10", "--precision", "1", "--out", "file:results", "--html", "page.html"
        )
        assert ran.code == 0
    asked = onnxdyno(
        "query", "SELECT state, count(*) n FROM points GROUP BY 1 ORDER BY 2", "--results", "file:results", "--json"
    )
    assert [row["n"] for row in asked.document["rows"] if row["state"] == "not_applicable"] == [14]
    runs = onnxdyno("query", "SELECT run_id FROM runs", "--results", "file:results", "--csv").out.splitlines()
    assert runs[0] == "run_id"
    assert len(set(runs[1:])) == 2
    samples = onnxdyno(
        "query", "SELECT count(*) n FROM samples WHERE phase = 'steady'", "--results", "file:results", "--json"
    )
    assert samples.document["rows"][0]["n"] > 100
    assert (tmp_path / "page.html").read_text().startswith("<!")
    summary = sorted((tmp_path / "results" / "reports").glob("*/summary.json"))[0]
    jsonschema.validate(json.loads(summary.read_text()), json.loads((SCHEMAS / "bench.schema.json").read_text()))


def test_profile_writes_a_trace_and_schema_checked_json(onnxdyno: Callable[..., Ran], tmp_path: Path) -> None:
    trace = tmp_path / "run.json"
    ran = onnxdyno("profile", str(CASES / "unet_multiple_of_8.onnx"), "--budget", "5", "--trace", str(trace), "--json")
    assert ran.code == 0, ran.err
    jsonschema.validate(ran.document, json.loads((SCHEMAS / "profile.schema.json").read_text()))
    assert ran.document["profile"]["matched_share"] > 0.9
    assert {event["ph"] for event in json.loads(trace.read_text())["traceEvents"]} == {"M", "X"}


def test_a_parquet_file_of_others_among_the_runs_is_one_warning(onnxdyno: Callable[..., Ran], tmp_path: Path) -> None:
    stray = tmp_path / "results" / "tables" / "runs" / "device_class=x" / "stray.parquet"
    stray.parent.mkdir(parents=True)
    write: Any = pq.write_table
    write(pa.table({"color": ["red"]}), stray)
    ran = onnxdyno("query", "SELECT count(*) AS runs FROM runs", "--results", "file:results", "--json")
    assert ran.document == {"rows": [{"runs": 0}]}
    (line,) = ran.err.splitlines()
    assert line.startswith("onnxdyno: warning: ")
    assert "stray.parquet: left out" in line
