"""The results of all runs: commit one, ask them all with SQL. The runs row is written last and is the commit."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from onnxdyno.domain.errors import InfrastructureError, StoreError, UsageError
from onnxdyno.domain.findings import Findings
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.domain.text import printable
from onnxdyno.ports import ObjectStore
from onnxdyno.storage import keys
from onnxdyno.storage.rows import (
    cold_rows,
    memory_rows,
    node_rows,
    point_rows,
    requirement_rows,
    run_row,
    telemetry_rows,
)
from onnxdyno.storage.samples import samples_table
from onnxdyno.storage.strays import find_strays
from onnxdyno.storage.tables import PARTITION, SCHEMAS, from_rows, to_parquet
from onnxdyno.storage.work import work_rows

_YOUNGER = ("work", "cold", "memory", "telemetry")
"""Tables that runs of older versions do not have."""
_UNREADABLE = ("IOError", "AWS Error", "OSError", "Could not open Parquet input source")
_CONFINED = (
    "SET TimeZone = 'UTC'",
    "SET enable_progress_bar = false",
    "SET python_enable_replacements = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)


def commit(results: ObjectStore, run: BenchmarkRun, findings: Findings) -> str:
    """Write the run's tables, the `runs` row last; returns the URI of that row. A second commit changes nothing.

    Raises `StoreError`; whatever was written until then is invisible to `query` and replaced by the next commit.
    """
    device_class, run_id = run.plan.device.device_class, run.origin.run_id
    row_key = keys.table_key("runs", device_class, run_id)
    uri = f"{results.uri}/{row_key}"
    if results.head(row_key) is not None:
        return uri
    _write(results, "points", run, to_parquet(from_rows("points", point_rows(run, findings))))
    _write(results, "samples", run, to_parquet(samples_table(run)))
    _write(results, "nodes", run, to_parquet(from_rows("nodes", node_rows(run, findings))))
    _write(results, "work", run, to_parquet(from_rows("work", work_rows(run))))
    _write(results, "cold", run, to_parquet(from_rows("cold", cold_rows(run, findings))))
    _write(results, "memory", run, to_parquet(from_rows("memory", memory_rows(run, findings))))
    _write(results, "telemetry", run, to_parquet(from_rows("telemetry", telemetry_rows(run))))
    _write(results, "requirements", run, to_parquet(from_rows("requirements", requirement_rows(run, findings))))
    results.put_if_absent(row_key, to_parquet(from_rows("runs", (run_row(run, findings),))))
    return uri


def _write(results: ObjectStore, table: str, run: BenchmarkRun, body: bytes) -> None:
    key = keys.table_key(table, run.plan.device.device_class, run.origin.run_id)
    if results.put_if_absent(key, body) or results.get(key) == body:
        return
    # an attempt that died before its commit left this; mixing its rows with ours would make a run that never was
    results.delete(key)
    if not results.put_if_absent(key, body):
        raise StoreError(f"{results.uri}/{key}: another process is writing this run. Try again.")


def committed(results: ObjectStore, warn: Callable[[str], object] = warnings.warn) -> tuple[keys.TableKey, ...]:
    """Every committed run, in key order; `warn` is told in one line what else lies there. Raises `StoreError`."""
    runs = _there(results, "runs")
    with_points = set(_there(results, "points"))
    strays = find_strays(results, [run for run in runs if replace(run, table="points") not in with_points])
    if strays:
        first, why = next(iter(strays.items()))
        more = f" and {len(strays) - 1} more" if len(strays) > 1 else ""
        warn(
            f"{results.uri}/{keys.table_key('runs', first.device_class, first.run_id)}{more}: left out, since {why}. "
            "Keep other files out of tables/."
        )
    return tuple(each for each in runs if each not in strays)


def _there(results: ObjectStore, table: str) -> tuple[keys.TableKey, ...]:
    found = (keys.parse_table_key(version.key) for version in results.list(keys.table_prefix(table)))
    return tuple(key for key in found if key is not None)


def query(results: ObjectStore, sql: str, warn: Callable[[str], object] = warnings.warn) -> Any:
    """Run one SQL statement (DuckDB) over a view per table, made of the files of committed runs only.

    Returns a pyarrow table. The statement reaches nothing but these views; `warn` is told of files that are no run.
    Raises `UsageError` (the SQL), `StoreError`.
    """
    import duckdb

    try:
        sources = _datasets(results, committed(results, warn))
    except OSError as error:
        raise _refused(results, error) from None
    with duckdb.connect(
        ":memory:", config={"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    ) as connection:
        for table, source in sources.items():
            connection.register(table, source)
        for setting in _CONFINED:
            connection.execute(setting)
        try:
            relation = connection.sql(sql)
            return relation.to_arrow_table() if relation is not None else from_rows("runs", ()).select([])
        except (duckdb.Error, OSError) as error:
            raise _refused(results, error) from None


def _datasets(results: ObjectStore, runs: tuple[keys.TableKey, ...]) -> dict[str, Any]:
    import pyarrow as pa
    from pyarrow import dataset

    system, base = results.filesystem()
    younger = {key for table in _YOUNGER for key in _there(results, table)}
    make: Any = dataset.dataset  # not typed
    partitioning = dataset.HivePartitioning(pa.schema([(PARTITION, pa.string())]), segment_encoding="none")
    return {
        table: make(
            [
                f"{base}/{keys.table_key(each.table, each.device_class, each.run_id)}"
                for each in (replace(run, table=table) for run in runs)
                if table not in _YOUNGER or each in younger
            ],
            schema=schema,
            format="parquet",
            filesystem=system,
            partitioning=partitioning,
        )
        for table, schema in SCHEMAS.items()
    }


def _refused(results: ObjectStore, error: Exception) -> UsageError | InfrastructureError:
    """DuckDB reports a file that cannot be read like an error of the statement; tell them apart by Arrow's words."""
    text = str(error)
    if isinstance(error, OSError) or any(word in text for word in _UNREADABLE):
        why = "a file is not there: " if isinstance(error, FileNotFoundError) else ""
        return StoreError(
            f"{results.uri}: a table of a committed run cannot be read: {why}{printable(' '.join(text.split()))} "
            "Restore it, or delete that run's row under tables/runs/ to leave the run out."
        )
    line = " ".join(text.partition("\n\nLINE")[0].split())
    return UsageError(f"the query cannot run: {printable(line)}")
