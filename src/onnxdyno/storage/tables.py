"""The published tables: one row type, one explicit Arrow schema each; Parquet bytes; the data dictionary.

Columns that are all null keep their type, so that files of different runs read together.
"""

import dataclasses
import io
from collections.abc import Mapping, Sequence
from typing import Any, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq

from onnxdyno.domain.text import storable
from onnxdyno.storage.rowtypes import (
    ColdRow,
    MemoryRow,
    NodeRow,
    PointRow,
    RequirementRow,
    Row,
    RunRow,
    SampleRow,
    TelemetryRow,
    WorkRow,
)

PARTITION = "device_class"
"""The hive partition column: in the path of a file, not in the file."""

_TEXT, _INT, _COUNT, _REAL, _FLAG = pa.string(), pa.int64(), pa.int32(), pa.float64(), pa.bool_()
_TIME = pa.timestamp("ms", tz="UTC")

ROW_TYPES: Mapping[str, type[Row]] = {
    "runs": RunRow,
    "points": PointRow,
    "samples": SampleRow,
    "nodes": NodeRow,
    "work": WorkRow,
    "cold": ColdRow,
    "memory": MemoryRow,
    "telemetry": TelemetryRow,
    "requirements": RequirementRow,
}


def _some(name: str, kind: Any) -> Any:
    return pa.field(name, kind, nullable=False)


def _maybe(name: str, kind: Any) -> Any:
    return pa.field(name, kind, nullable=True)


def _many(kind: Any) -> Any:
    return pa.list_(pa.field("element", kind, nullable=False))


AXES = pa.map_(_TEXT, pa.field("value", _INT, nullable=False))


def _estimate(name: str, unit: str = "ms") -> tuple[Any, ...]:
    base = f"{name}_{unit}"
    numbers = (base, f"{base}_low", f"{base}_high")
    return (*(_maybe(number, _REAL) for number in numbers), _maybe(f"{name}_reason", _TEXT))


_KEY = (_some("run_id", _TEXT), _some(PARTITION, _TEXT), _some("model_sha256", _TEXT))
_AT = (
    _some("axes", AXES),
    _maybe("batch", _INT),
    _maybe("height_px", _INT),
    _maybe("width_px", _INT),
    _maybe("sequence", _INT),
)
_OUTCOME = pa.struct(
    [
        _maybe("launch", _COUNT),
        _some("state", _TEXT),
        _maybe("reason", _TEXT),
        _maybe("remedy", _TEXT),
        _maybe("first_run_ns", _INT),
        _maybe("busy_ns", _INT),
        _maybe("runs", _INT),
        _some("outputs", _many(_TEXT)),
        _maybe("input_sha256", _TEXT),
    ]
)
_PROFILE = pa.struct(
    [
        _some("variant", _TEXT),
        _some("axes", AXES),
        _some("is_complete", _FLAG),
        _maybe("runs", _COUNT),
        _maybe("model_run_ns", _INT),
        _maybe("coverage", _REAL),
        _maybe("overhead", _REAL),
        _maybe("reason", _TEXT),
        _maybe("matched_share", _REAL),
        _maybe("cpu_share", _REAL),
        _maybe("copy_nodes", _COUNT),
        _maybe("copy_ms", _REAL),
        _maybe("copies_reason", _TEXT),
        _maybe("kernels_reason", _TEXT),
        _maybe("arena_peak_bytes", _INT),
        _maybe("arena_held_bytes", _INT),
        _maybe("arena_reason", _TEXT),
        _maybe("bound", _TEXT),
        _maybe("bound_margin", _REAL),
        _maybe("bound_reason", _TEXT),
    ]
)
_FIELDS: Mapping[str, Sequence[Any]] = {
    "runs": (
        *_KEY,
        _some("started_at", _TIME),
        _some("reason", _TEXT),
        _some("attempt", _COUNT),
        _some("source_uri", _TEXT),
        _some("source_key", _TEXT),
        _maybe("source_etag", _TEXT),
        _maybe("source_version_id", _TEXT),
        _some("model_name", _TEXT),
        _some("model_bytes", _INT),
        _some("external_bytes", _INT),
        _some("opset", _COUNT),
        _some("ir_version", _COUNT),
        _some("producer", _TEXT),
        _some("parameters", _INT),
        _some("weight_bytes", _INT),
        _some("precision", _TEXT),
        _some("node_count", _INT),
        _some("model_axes", _many(pa.struct([_some("name", _TEXT), _some("role", _TEXT), _maybe("size", _INT)]))),
        _some("notes", _many(_TEXT)),
        _some("device_id", _TEXT),
        _some("device_kind", _TEXT),
        _some("device_name", _TEXT),
        _maybe("device_memory_bytes", _INT),
        _maybe("compute_capability", _TEXT),
        _some("cores", _COUNT),
        _some("threads", _COUNT),
        _some("fingerprint", _many(pa.struct([_some("name", _TEXT), _maybe("value", _TEXT), _maybe("reason", _TEXT)]))),
        _some("runtime", pa.map_(_TEXT, pa.field("value", _TEXT, nullable=False))),
        _some(
            "launches",
            _many(pa.struct([_some("launch", _COUNT), _some("session_ns", _INT), _some("providers", _many(_TEXT))])),
        ),
        _maybe("launches_span_s", _REAL),
        *_estimate("session"),
        _maybe("best_batch", _INT),
        _maybe("best_batch_axes", AXES),
        _some("best_batch_reason", _TEXT),
        _maybe("largest_batch", _INT),
        _maybe("largest_batch_axes", AXES),
        _some("largest_batch_reason", _TEXT),
        _maybe("knee_batch", _INT),
        _maybe("knee_axes", AXES),
        _some("knee_reason", _TEXT),
        _maybe("largest_height_px", _INT),
        _maybe("largest_width_px", _INT),
        _maybe("largest_resolution_axes", AXES),
        _some("largest_resolution_reason", _TEXT),
        _maybe("largest_sequence", _INT),
        _maybe("largest_sequence_axes", AXES),
        _some("largest_sequence_reason", _TEXT),
        _maybe("meets_target", _FLAG),
        _maybe("meets_target_axes", AXES),
        _maybe("meets_target_reason", _TEXT),
        _some("warnings", _many(_TEXT)),
        _some("points_measured", _COUNT),
        _some("points_skipped", _COUNT),
        _some("profiles", _many(_PROFILE)),
        _some("protocol_version", _TEXT),
        _some("protocol_json", _TEXT),
        _some("spec_json", _TEXT),
        _some("plan_json", _TEXT),
        _some("probe_json", _TEXT),
    ),
    "points": (
        *_KEY,
        _some("variant", _TEXT),
        *_AT,
        _some("threads", _COUNT),
        _some("concurrency", _COUNT),
        _maybe("is_on_front", _FLAG),
        _some("state", _TEXT),
        _some("flags", _many(_TEXT)),
        _maybe("reason", _TEXT),
        _maybe("remedy", _TEXT),
        _some("n", _INT),
        _some("launches", _COUNT),
        _some("excluded", _INT),
        _maybe("n_eff", _REAL),
        _maybe("n_eff_reason", _TEXT),
        _maybe("items", _INT),
        *_estimate("p50"),
        *_estimate("p90"),
        *_estimate("p95"),
        *_estimate("p99"),
        *_estimate("mad"),
        *_estimate("iqr"),
        *_estimate("throughput", "items_per_s"),
        *_estimate("first_run"),
        *_estimate("energy_per_item", "mj"),
        *_estimate("energy_per_call", "mj"),
        *_estimate("event"),
        *_estimate("h2d"),
        *_estimate("d2h"),
        _maybe("peak_memory_bytes", _INT),
        _maybe("peak_memory_reason", _TEXT),
        _maybe("baseline_memory_bytes", _INT),
        _maybe("flops", _INT),
        _maybe("activation_peak_bytes", _INT),
        _maybe("cost_reason", _TEXT),
        _some("outcomes", _many(_OUTCOME)),
    ),
    "samples": (
        *_KEY,
        _some("variant", _TEXT),
        *_AT,
        _some("threads", _COUNT),
        _some("concurrency", _COUNT),
        _some("launch", _COUNT),
        _some("phase", _TEXT),
        _some("ordinal", _COUNT),
        _some("duration_ns", _INT),
        _maybe("excluded_cause", _TEXT),
    ),
    "nodes": (
        *_KEY,
        _some("variant", _TEXT),
        *_AT,
        _some("rank", _COUNT),
        _some("path", _TEXT),
        _some("node_index", _INT),
        _some("name", _TEXT),
        _some("op_type", _TEXT),
        _some("provider", _TEXT),
        _some("self_ms", _REAL),
        _maybe("kernel_ms", _REAL),
        _maybe("kernel_reason", _TEXT),
        _maybe("share", _REAL),
        _some("runs", _COUNT),
        _maybe("output_bytes", _INT),
        _maybe("flops", _INT),
        _maybe("read_bytes", _INT),
        _maybe("written_bytes", _INT),
        _maybe("work_basis", _TEXT),
        _maybe("work_reason", _TEXT),
        _maybe("bound", _TEXT),
        _maybe("bound_reason", _TEXT),
        _some("input_shapes", _TEXT),
        _some("output_shapes", _TEXT),
        _some("is_complete", _FLAG),
    ),
    "work": (
        *_KEY,
        *_AT,
        _maybe("op_type", _TEXT),
        _maybe("executions", _INT),
        _maybe("flops", _REAL),
        _maybe("moved_bytes", _REAL),
        _maybe("reason", _TEXT),
    ),
    "cold": (
        *_KEY,
        _some("phase", _TEXT),
        _maybe("optimisation", _TEXT),
        _maybe("page_cache", _TEXT),
        _maybe("variant", _TEXT),
        _maybe("axes", AXES),
        _some("launches", _COUNT),
        *_estimate("time"),
        _maybe("read_bytes", _INT),
        _maybe("was_cached", _FLAG),
        _some("values_ns", _many(_INT)),
    ),
    "memory": (
        *_KEY,
        _some("variant", _TEXT),
        *_AT,
        _maybe("baseline_bytes", _INT),
        _maybe("peak_bytes", _INT),
        _maybe("load_peak_bytes", _INT),
        _maybe("run_peak_bytes", _INT),
        _maybe("same_as_requested_peak_bytes", _INT),
        _maybe("arena_peak_bytes", _INT),
        _maybe("arena_held_bytes", _INT),
        _maybe("residual_bytes", _INT),
        _maybe("context_bytes", _INT),
        _maybe("process_bytes", _INT),
        _maybe("cgroup_peak_bytes", _INT),
        _maybe("predicted_bytes", _INT),
        _maybe("predicted_error", _REAL),
        _maybe("arena_minimum_bytes", _INT),
        _maybe("process_minimum_bytes", _INT),
        _some("processes", _COUNT),
        _some("reasons", pa.map_(_TEXT, pa.field("value", _TEXT, nullable=False))),
    ),
    "telemetry": (
        *_KEY,
        _some("variant", _TEXT),
        *_AT,
        _maybe("launch", _COUNT),
        _some("t_ns", _INT),
        _some("is_steady", _FLAG),
        _maybe("sm_clock_mhz", _COUNT),
        _maybe("memory_clock_mhz", _COUNT),
        _maybe("power_mw", _INT),
        _maybe("temperature_c", _COUNT),
        _maybe("utilisation", _REAL),
        _maybe("memory_used_bytes", _INT),
        _maybe("clock_event_bits", _INT),
        _maybe("clock_events", _many(_TEXT)),
        _maybe("energy_mj", _INT),
        _maybe("own_processes", _COUNT),
        _maybe("other_processes", _COUNT),
        _some("reasons", pa.map_(_TEXT, pa.field("value", _TEXT, nullable=False))),
    ),
    "requirements": (
        *_KEY,
        _some("tier", _TEXT),
        _maybe("catalogue_id", _TEXT),
        _maybe("catalogue_name", _TEXT),
        _maybe("memory_bytes", _INT),
        _maybe("needed_bytes", _INT),
        *_AT,
        _some("basis", _TEXT),
        _some("reason", _TEXT),
        _some("evidence", _TEXT),
        *_estimate("latency"),
        _maybe("probability", _REAL),
        _some("ordered_by", _TEXT),
        _maybe("price", _REAL),
        _maybe("price_currency", _TEXT),
        _maybe("price_date", _TEXT),
        _some("ties", _many(_TEXT)),
    ),
}


def _documentation(row_type: type[Row]) -> dict[str, str]:
    hints = get_type_hints(row_type, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


def _schema(table: str) -> Any:
    texts = _documentation(ROW_TYPES[table])
    return pa.schema(field.with_metadata({"description": texts[field.name]}) for field in _FIELDS[table])


SCHEMAS: Mapping[str, Any] = {table: _schema(table) for table in ROW_TYPES}
"""Table name to schema, the partition column included."""


def file_schema(table: str) -> Any:
    """The schema of a table's files: without the partition column."""
    return pa.schema(field for field in SCHEMAS[table] if field.name != PARTITION)


def from_rows(table: str, rows: Sequence[Row]) -> Any:
    """A pyarrow table from rows of the table's type."""
    schema = file_schema(table)
    columns = [pa.array([_plain(getattr(row, field.name)) for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def to_parquet(content: Any) -> bytes:
    """The bytes of a table's file, zstd; the same table gives the same bytes."""
    sink = io.BytesIO()
    write: Any = pq.write_table  # not typed
    write(content, sink, compression="zstd", row_group_size=1 << 20)
    return sink.getvalue()


def _plain(value: Any) -> Any:
    """What pyarrow takes: records as dicts, text as valid Unicode."""
    match value:
        case str():
            return storable(str(value))
        case tuple():
            return tuple(_plain(each) for each in value)
        case _ if dataclasses.is_dataclass(value):
            return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        case _:
            return value
