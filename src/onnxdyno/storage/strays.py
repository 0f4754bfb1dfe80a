"""Parquet files of others among the rows that commit runs: told by what is in them, so that no run is ever hidden."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from onnxdyno.ports import ObjectStore
from onnxdyno.storage import keys

_OURS = ("run_id", "model_sha256", "protocol_version")
"""Columns that the row of a run has had from the first version on."""


def find_strays(results: ObjectStore, suspects: Sequence[keys.TableKey]) -> Mapping[keys.TableKey, str]:
    """Those that are no row of the run they are named after, and why.

    A file that cannot be read is not among them: it may be a run, damaged, and that is for its reader to hear.
    """
    if not suspects:
        return {}
    system, base = results.filesystem()
    found = {each: _why(system, base, each) for each in suspects}
    return {each: why for each, why in found.items() if why is not None}


def _why(system: Any, base: str, key: keys.TableKey) -> str | None:
    read: Any = pq.ParquetFile  # not typed
    try:
        with system.open_input_file(f"{base}/{keys.table_key(key.table, key.device_class, key.run_id)}") as opened:
            file = read(opened)
            missing = next((name for name in _OURS if name not in file.schema_arrow.names), None)
            if missing is not None:
                return f"it has no column {missing}"
            if file.metadata.num_rows != 1:
                return f"it has {file.metadata.num_rows} rows, and the row of a run is one"
            (named,) = file.read(columns=["run_id"])["run_id"].to_pylist()
    except (OSError, pa.ArrowException):
        return None
    return None if named == key.run_id else "its row is that of a run with another name"
