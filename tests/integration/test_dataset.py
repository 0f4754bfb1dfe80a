"""Results of many runs: committed as one, asked with SQL, on every store."""

import dataclasses
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import dataset as arrow_dataset

import factories
from fakes import MemoryStore
from onnxdyno.domain.errors import InfrastructureError, StoreError, UsageError
from onnxdyno.domain.outcomes import SteadySpan
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.domain.telemetry import TelemetrySample, Tenant
from onnxdyno.ports import ObjectStore
from onnxdyno.storage import dataset, keys
from onnxdyno.storage.tables import SCHEMAS
from stores import Registry, S3Server, s3_registry

CASES = Path(__file__).parent.parent / "cases"
P1 = factories.point(batch=1, height=32, width=32)


def run_of(run_id: str, **device: Any) -> BenchmarkRun:
    plan = factories.plan((P1,), device=factories.cpu_device(**device))
    return factories.benchmark_run((factories.measured(P1),), origin=factories.origin(run_id), plan=plan)


def rows(store: ObjectStore, sql: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = dataset.query(store, sql).to_pylist()
    return found


def test_an_empty_store_has_every_table_with_every_column(registry: Registry) -> None:
    for table in ("runs", "points", "samples", "nodes", "requirements"):
        assert rows(registry.store, f"FROM {table}") == []
    assert dataset.query(registry.store, "SELECT p50_ms, axes FROM points").num_rows == 0


def test_what_was_committed_is_found_again(registry: Registry) -> None:
    run = run_of("r1")
    uri = dataset.commit(registry.store, run, factories.findings((factories.point_finding(P1, 2_000_000.0),)))
    assert uri == f"{registry.store.uri}/tables/runs/device_class={run.plan.device.device_class}/r1.parquet"
    sql = (
        "SELECT r.device_class, model_name, p.batch, p.axes['height'] AS height, p50_ms, n "
        "FROM runs r JOIN points p USING (run_id)"
    )
    assert rows(registry.store, sql) == [
        {
            "device_class": run.plan.device.device_class,
            "model_name": "model.onnx",
            "batch": 1,
            "height": 32,
            "p50_ms": 2.0,
            "n": 500,
        }
    ]
    sql = "SELECT phase, count(*) AS n, sum(duration_ns)::BIGINT AS total_ns FROM samples GROUP BY phase ORDER BY phase"
    assert rows(registry.store, sql) == [
        {"phase": "steady", "n": 10, "total_ns": 10_000_000},
        {"phase": "warm_up", "n": 2, "total_ns": 3_100_000},
    ]


def test_a_second_commit_changes_nothing(registry: Registry) -> None:
    first = dataset.commit(registry.store, run_of("r1"), factories.findings())
    before = list(registry.store.list())
    other = dataclasses.replace(run_of("r1"), outcomes=(factories.measured(P1, (7, 7, 7)),))
    assert dataset.commit(registry.store, other, factories.findings()) == first
    assert list(registry.store.list()) == before


class DyingStore(MemoryStore):
    """The process dies at its n-th write."""

    def __init__(self, writes: int) -> None:
        super().__init__()
        self.writes_left = writes

    def put_if_absent(self, key: str, body: bytes) -> bool:
        if self.writes_left == 0:
            raise KeyboardInterrupt
        self.writes_left -= 1
        return super().put_if_absent(key, body)


@pytest.mark.parametrize("writes", range(6))
def test_half_a_commit_is_invisible_and_the_next_one_completes_it(writes: int) -> None:
    store = DyingStore(writes)
    with pytest.raises(KeyboardInterrupt):
        dataset.commit(store, run_of("r1"), factories.findings())
    for table in SCHEMAS:
        assert rows(store, f"FROM {table}") == []
    store.writes_left = 100
    dataset.commit(store, run_of("r1"), factories.findings())
    assert rows(store, "SELECT count(*) AS n FROM samples JOIN runs USING (run_id)") == [{"n": 12}]


def test_readings_of_the_device_are_rows_with_names_of_their_events_and_reasons_of_their_nulls() -> None:
    samples = (
        TelemetrySample(
            t_ns=5, clock_events=0x804, power_mw=70_000, tenants=(Tenant(pid=9, used_bytes=None, is_ours=True),)
        ),
        TelemetrySample(t_ns=25, reasons=(("power_mw", "NVML: Not Supported"),)),
    )
    spans = (SteadySpan(first=0, end=10, opened_ns=20, wall_ns=10),)
    store = MemoryStore()
    run = run_of("r1")
    measured = factories.measured(P1, launch=2, telemetry=samples, spans=spans)
    dataset.commit(store, dataclasses.replace(run, outcomes=(measured,)), factories.findings())
    first, second = rows(store, "FROM telemetry ORDER BY t_ns")
    assert (first["batch"], first["launch"], first["is_steady"], second["is_steady"]) == (1, 2, False, True)
    assert first["clock_events"] == ["sw_power_cap", "bit 0x800"]
    assert (first["own_processes"], first["other_processes"]) == (1, 0)
    assert (second["power_mw"], second["clock_events"], second["own_processes"]) == (None, None, None)
    assert dict(second["reasons"]) == {"power_mw": "NVML: Not Supported"}


def test_a_run_from_before_there_was_telemetry_is_still_read() -> None:
    store = MemoryStore()
    dataset.commit(store, run_of("r1"), factories.findings())
    dataset.commit(store, run_of("r2"), factories.findings())
    (old,) = (each.key for each in store.list("tables/telemetry") if "r1" in each.key)
    store.delete(old)
    assert rows(store, "SELECT count(*) AS n FROM points") == [{"n": 2}]
    assert rows(store, "FROM telemetry") == []


def test_leftovers_of_a_dead_attempt_are_not_mixed_with_the_next() -> None:
    store = DyingStore(2)
    with pytest.raises(KeyboardInterrupt):
        dataset.commit(store, run_of("r1"), factories.findings())
    store.writes_left = 100
    other = dataclasses.replace(run_of("r1"), outcomes=(factories.measured(P1, (7, 7, 7), warm_up_ns=()),))
    dataset.commit(store, other, factories.findings())
    assert rows(store, "SELECT duration_ns FROM samples") == [{"duration_ns": 7}] * 3


def test_files_of_others_between_ours_are_not_read(registry: Registry) -> None:
    dataset.commit(registry.store, run_of("r1"), factories.findings())
    registry.upload("tables/runs/readme.txt", b"not a table")
    registry.upload("tables/points/device_class=x/stray.parquet", b"not parquet")
    assert rows(registry.store, "SELECT count(*) AS n FROM points") == [{"n": 1}]


def _stray(**columns: list[Any]) -> bytes:
    """A Parquet file of somebody else."""
    body = io.BytesIO()
    write: Any = pq.write_table
    write(pa.table(columns), body)
    return body.getvalue()


def test_a_parquet_file_of_others_among_the_runs_is_left_out_with_one_line(registry: Registry) -> None:
    dataset.commit(registry.store, run_of("r1"), factories.findings())
    dataset.commit(registry.store, run_of("r2"), factories.findings())
    for name in ("mine", "yours"):
        registry.upload(f"tables/runs/device_class=x/{name}.parquet", _stray(color=["red", "blue"]))
    said: list[str] = []
    sql = "SELECT count(*) AS n FROM runs JOIN points USING (run_id)"
    assert dataset.query(registry.store, sql, said.append).to_pylist() == [{"n": 2}]
    assert dataset.query(registry.store, "SELECT count(*) AS n FROM runs", said.append).to_pylist() == [{"n": 2}]
    line = (
        f"{registry.store.uri}/tables/runs/device_class=x/mine.parquet and 1 more: left out, since it has no column "
        "run_id. Keep other files out of tables/."
    )
    assert said == [line, line]


def test_a_copy_of_a_run_under_another_name_does_not_count_twice(registry: Registry) -> None:
    run = run_of("r1")
    key = keys.table_key("runs", run.plan.device.device_class, "r1")
    dataset.commit(registry.store, run, factories.findings())
    registry.upload(key.replace("r1.parquet", "r1-backup.parquet"), registry.store.get(key))
    said: list[str] = []
    assert dataset.query(registry.store, "SELECT run_id FROM runs", said.append).to_pylist() == [{"run_id": "r1"}]
    (line,) = said
    assert "r1-backup.parquet: left out, since its row is that of a run with another name" in line


def test_the_row_of_a_run_that_cannot_be_read_is_no_stray_and_fails_with_its_name(registry: Registry) -> None:
    run = run_of("r1")
    dataset.commit(registry.store, run, factories.findings())
    for table in ("runs", "points"):
        key = keys.table_key(table, run.plan.device.device_class, "r1")
        body = registry.store.get(key)
        registry.store.delete(key)
        if table == "runs":
            registry.upload(key, body[: len(body) // 2])
    with pytest.raises(StoreError, match=r"r1\.parquet"):
        dataset.query(registry.store, "SELECT count(model_name) FROM runs")


def test_runs_of_several_device_classes_read_together_although_a_column_is_all_null() -> None:
    """The kind of O47: one file has a column of nulls, the other values; either may come first."""
    store = MemoryStore()
    gpu = {"device_class": "b-gpu", "compute_capability": "9.0", "memory_bytes": 1 << 30}
    dataset.commit(store, run_of("r1", device_class="a-cpu", memory_bytes=None), factories.findings())
    dataset.commit(store, run_of("r2", **gpu), factories.findings())
    dataset.commit(store, run_of("r3", device_class="c-cpu", memory_bytes=None), factories.findings())
    sql = "SELECT device_class, compute_capability AS cc, device_memory_bytes AS bytes FROM runs ORDER BY run_id"
    assert rows(store, sql) == [
        {"device_class": "a-cpu", "cc": None, "bytes": None},
        {"device_class": "b-gpu", "cc": "9.0", "bytes": 1 << 30},
        {"device_class": "c-cpu", "cc": None, "bytes": None},
    ]
    assert rows(store, "SELECT count(*) AS n FROM runs WHERE device_class = 'b-gpu'") == [{"n": 1}]


def test_the_files_of_the_drift_case_read_together_with_one_schema() -> None:
    paths = [str(CASES / "data" / f"drift_{name}_run.parquet") for name in ("cpu", "gpu")]
    read_schema: Any = pq.read_schema
    make: Any = arrow_dataset.dataset
    schemas = [read_schema(path) for path in paths]
    typed = {field.name: field for schema in schemas for field in schema if not pa.types.is_null(field.type)}
    one = pa.schema(typed.values())
    table = make(paths, schema=one, format="parquet").to_table()
    assert table.num_rows == 3
    assert (table["vram_mb"].null_count, table["note"].null_count) == (2, 2)
    assert sorted(filter(None, table["vram_mb"].to_pylist())) == [812.5]


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("SELEC 1", "syntax error"),
        ("SELECT * FROM nothing", "does not exist"),
        ("SELECT nothing FROM runs", "nothing"),
        ("SELECT * FROM read_csv('/etc/passwd')", "disabled"),
        ("SELECT * FROM '/etc/passwd'", "does not exist"),
        ("SELECT * FROM glob('/*')", "disabled"),
        ("COPY runs TO '/tmp/x.csv'", "disabled"),
        ("ATTACH '/tmp/x.db'", "disabled"),
        ("INSTALL httpfs", "disabled"),
        ("LOAD httpfs", "disabled"),
        ("SET enable_external_access = true", "locked"),
        ("SELECT * FROM sources", "does not exist"),
    ],
)
def test_a_query_that_cannot_run_or_reaches_out_is_one_clear_line(sql: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        dataset.query(MemoryStore(), sql)
    assert hint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_table_that_cannot_be_read_is_the_store_s_fault(registry: Registry) -> None:
    run = run_of("r1")
    dataset.commit(registry.store, run, factories.findings())
    registry.store.delete(keys.table_key("points", run.plan.device.device_class, "r1"))
    with pytest.raises(StoreError) as caught:
        dataset.query(registry.store, "SELECT count(batch) FROM points")
    assert "\n" not in str(caught.value)


def test_a_query_with_wrong_credentials_is_one_clear_line(
    s3_environment: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = s3_registry(s3_environment).store
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(InfrastructureError) as caught:
        dataset.query(store, "SELECT 1")
    assert "\n" not in str(caught.value)
