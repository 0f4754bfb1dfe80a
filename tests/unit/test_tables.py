"""Row types, schemas and the data dictionary say the same; rows say what the run says."""

import dataclasses
import io
import json
import math
from datetime import UTC, datetime
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import factories
from onnxdyno.domain.axes import Axis, Role
from onnxdyno.domain.findings import Estimate
from onnxdyno.domain.outcomes import Flag, PointState
from onnxdyno.storage import dictionary
from onnxdyno.storage.rows import node_rows, point_rows, requirement_rows, run_row
from onnxdyno.storage.rowtypes import Axes, Texts
from onnxdyno.storage.samples import samples_table
from onnxdyno.storage.tables import PARTITION, ROW_TYPES, SCHEMAS, file_schema, from_rows, to_parquet

ROOT = Path(__file__).parent.parent.parent
P1, P2 = factories.point(batch=1, height=32, width=48), factories.point(batch=2, height=32, width=48)


def test_the_data_dictionary_is_the_one_the_code_makes() -> None:
    page = (ROOT / "docs" / "tables.md").read_text("utf-8")
    assert page == dictionary.markdown(), "run: python -m onnxdyno.storage.dictionary > docs/tables.md"


def _is_nullable(hint: Any) -> bool:
    return get_origin(hint) in (Union, UnionType) and NoneType in get_args(hint)


def _bare(hint: Any) -> Any:
    if _is_nullable(hint):
        (hint,) = (each for each in get_args(hint) if each is not NoneType)
    return hint


def _agrees(kind: pa.DataType, hint: Any) -> bool:
    """Whether an Arrow type and a Python type say the same, all the way down."""
    scalars = {int: pa.types.is_integer, float: pa.types.is_float64, str: pa.types.is_string, bool: pa.types.is_boolean}
    hint = _bare(hint)
    if hint in scalars:
        return bool(scalars[hint](kind))
    if hint is datetime:
        return bool(pa.types.is_timestamp(kind)) and kind.tz == "UTC"
    if hint in (Axes, Texts):
        value = int if hint == Axes else str
        return bool(pa.types.is_map(kind)) and _agrees(kind.key_type, str) and _agrees(kind.item_type, value)
    if get_origin(hint) is tuple:
        return (
            bool(pa.types.is_list(kind))
            and not kind.value_field.nullable
            and _agrees(kind.value_type, get_args(hint)[0])
        )
    return _same_fields(list(kind), hint)


def _same_fields(fields: list[pa.Field], record: Any) -> bool:
    hints = get_type_hints(record)
    return [field.name for field in fields] == list(hints) and all(
        field.nullable == _is_nullable(hints[field.name]) and _agrees(field.type, hints[field.name]) for field in fields
    )


@pytest.mark.parametrize("table", SCHEMAS)
def test_a_row_type_and_its_schema_agree_in_names_order_types_and_nulls(table: str) -> None:
    assert _same_fields(list(SCHEMAS[table]), ROW_TYPES[table])


@pytest.mark.parametrize("table", SCHEMAS)
def test_every_column_is_documented(table: str) -> None:
    for field in SCHEMAS[table]:
        text = field.metadata[b"description"].decode()
        assert text.endswith("."), field.name


@pytest.mark.parametrize("table", SCHEMAS)
def test_a_file_carries_the_documentation_and_the_nulls_and_not_the_partition(table: str) -> None:
    read_schema: Any = pq.read_schema
    written = read_schema(io.BytesIO(to_parquet(from_rows(table, ()))))
    assert written.equals(file_schema(table), check_metadata=False)
    assert PARTITION not in written.names
    assert written.field("run_id").metadata[b"description"] == b"The run; joins every table."


def test_a_run_is_a_row() -> None:
    run = factories.benchmark_run((factories.measured(P1),))
    row = run_row(run, factories.findings((factories.point_finding(P1), factories.skipped_finding(P2))))
    assert row.started_at == datetime(2025, 1, 1, tzinfo=UTC)
    assert (row.best_batch, row.best_batch_axes) == (1, P1.sizes)
    assert (row.largest_height_px, row.largest_resolution_reason) == (None, "no such axis")
    assert (row.session_ms, row.session_ms_low) == (20.0, 19.8)
    assert (row.points_measured, row.points_skipped) == (1, 1)
    assert row.runtime == (("onnxruntime", "1.31.1"),)
    assert json.loads(row.protocol_json)["version"] == row.protocol_version
    assert json.loads(row.plan_json)["points"] == [
        {"sizes": [list(size) for size in P1.sizes], "variant": "device", "threads": None, "concurrency": 1}
    ]


def test_no_path_of_the_machine_is_published() -> None:
    plan = factories.plan((P1,))
    recipe = dataclasses.replace(plan.recipes[0], rule="file", path="/home/somebody/secret/inputs.npz")
    plan = dataclasses.replace(plan, recipes=(recipe,))
    row = run_row(factories.benchmark_run(plan=plan), factories.findings())
    assert "/home" not in row.plan_json
    assert "inputs.npz" in row.plan_json


def test_a_point_is_a_row_with_its_intervals_and_what_each_launch_made_of_it() -> None:
    run = factories.benchmark_run(
        (factories.measured(P1), factories.measured(P1, launch=2), factories.skipped(P1, launch=3)),
        memory=(factories.memory_reading(P1),),
    )
    finding = factories.point_finding(P1, 2_000_000.0, flags=(Flag.NON_FINITE,))
    (row,) = point_rows(run, factories.findings((finding,)))
    assert (row.batch, row.height_px, row.width_px, row.sequence) == (1, 32, 48, None)
    assert (row.p50_ms, row.p50_ms_low, row.p50_ms_high, row.p50_reason) == (2.0, 1.98, 2.02, None)
    assert row.throughput_items_per_s == 500.0
    assert row.flags == ("non_finite",)
    assert row.baseline_memory_bytes == 80_000_000
    assert [(entry.launch, entry.state) for entry in row.outcomes] == [(1, "ok"), (2, "ok"), (3, "shape_error")]


def test_a_point_that_did_not_run_has_a_reason_and_no_number() -> None:
    finding = factories.skipped_finding(P2, PointState.OOM, "Failed to allocate memory")
    (row,) = point_rows(factories.benchmark_run(), factories.findings((finding,)))
    assert (row.state, row.reason) == ("oom", "Failed to allocate memory")
    assert (row.p50_ms, row.p50_reason) == (None, "Failed to allocate memory")
    assert (row.peak_memory_bytes, row.baseline_memory_bytes) == (None, None)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_null_in_every_form(value: float) -> None:
    finding = dataclasses.replace(factories.point_finding(P1), p50_ns=Estimate(value=value, low=value, high=value))
    (row,) = point_rows(factories.benchmark_run(), factories.findings((finding,)))
    assert (row.p50_ms, row.p50_ms_low, row.p50_ms_high) == (None, None, None)
    plan = dataclasses.replace(factories.plan((P1,)), spec=dataclasses.replace(factories.plan().spec, budget_s=value))
    assert json.loads(run_row(factories.benchmark_run(plan=plan), factories.findings()).spec_json)["budget_s"] is None


def test_a_fixed_axis_appears_at_its_fixed_size() -> None:
    fixed = factories.image_signature(axes=(Axis(name="batch", role=Role.BATCH, size=4),))
    at = factories.point()
    run = factories.benchmark_run((factories.measured(at),), signature=fixed)
    (row,) = point_rows(run, factories.findings((factories.point_finding(at),)))
    assert (row.axes, row.batch, row.height_px) == ((), 4, None)


def test_every_sample_of_every_launch_is_there_in_order() -> None:
    first = factories.measured(P1, (5, 6, 7), warm_up_ns=(9, 8), excluded=((1, 2, "throttled"),))
    second = factories.measured(P2, (4,), launch=2, warm_up_ns=())
    rows = samples_table(factories.benchmark_run((first, factories.skipped(P2), second))).to_pylist()
    seen = [(r["batch"], r["launch"], r["phase"], r["ordinal"], r["duration_ns"], r["excluded_cause"]) for r in rows]
    assert seen == [
        (1, 1, "warm_up", 0, 9, None),
        (1, 1, "warm_up", 1, 8, None),
        (1, 1, "steady", 0, 5, None),
        (1, 1, "steady", 1, 6, "throttled"),
        (1, 1, "steady", 2, 7, None),
        (2, 2, "steady", 0, 4, None),
    ]
    assert rows[0]["axes"] == list(P1.sizes)


def test_a_run_without_samples_is_an_empty_table_with_all_columns() -> None:
    table = samples_table(factories.benchmark_run((factories.skipped(P1),)))
    assert table.num_rows == 0
    assert table.schema.equals(file_schema("samples"))


def test_the_same_run_gives_the_same_bytes() -> None:
    run, findings = factories.benchmark_run(), factories.findings()
    once = to_parquet(samples_table(run)), to_parquet(from_rows("runs", (run_row(run, findings),)))
    again = to_parquet(samples_table(run)), to_parquet(from_rows("runs", (run_row(run, findings),)))
    assert once == again


def test_a_million_samples_stay_small() -> None:
    durations = tuple(1_000_000 + number % 997 for number in range(1_000_000))
    body = to_parquet(samples_table(factories.benchmark_run((factories.measured(P1, durations),))))
    assert len(body) < 4_000_000


def test_a_null_where_none_may_be_is_refused() -> None:
    (row,) = point_rows(factories.benchmark_run(), factories.findings())
    broken = dataclasses.replace(row, state=None)  # type: ignore[arg-type]
    with pytest.raises(pa.ArrowInvalid):
        to_parquet(from_rows("points", (broken,)))


def test_names_that_are_not_unicode_are_written_with_their_bytes_escaped() -> None:
    run = factories.benchmark_run(origin=factories.origin(source_key="bad\udcff.onnx", reason="\x1b[31m<script>"))
    (row,) = from_rows("runs", (run_row(run, factories.findings()),)).to_pylist()
    assert row["source_key"] == "bad\\udcff.onnx"
    assert row["reason"] == "\x1b[31m<script>"


def test_nodes_are_ranked_and_tiers_keep_their_reasons() -> None:
    run, findings = factories.benchmark_run(), factories.findings()
    assert [(row.rank, row.name, row.self_ms, row.share) for row in node_rows(run, findings)] == [
        (1, "conv0", 0.6, 0.6),
        (2, "relu0", 0.4, 0.4),
    ]
    rows = requirement_rows(run, findings)
    assert [(row.tier, row.catalogue_id) for row in rows] == [
        ("minimum", "t4"),
        ("recommended", "t4"),
        ("optimal", None),
    ]
    assert all(row.reason for row in rows)
