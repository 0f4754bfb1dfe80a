"""Every sample of a run as one table, column by column: a run may hold a million."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from onnxdyno.domain.outcomes import Measured
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.storage.rows import at
from onnxdyno.storage.rowtypes import SampleRow
from onnxdyno.storage.tables import file_schema, from_rows


def samples_table(run: BenchmarkRun) -> Any:
    """A pyarrow table with the columns of `SampleRow`, outcomes in their order, warm-up before steady samples."""
    parts = [from_rows("samples", ())]
    for outcome in run.outcomes:
        if isinstance(outcome, Measured):
            parts.append(_part(run, outcome, "warm_up", outcome.warm_up_ns, ()))
            parts.append(_part(run, outcome, "steady", outcome.samples_ns, outcome.excluded))
    return pa.concat_tables(parts).combine_chunks()


def _part(
    run: BenchmarkRun,
    outcome: Measured,
    phase: str,
    durations_ns: tuple[int, ...],
    excluded: tuple[tuple[int, int, str], ...],
) -> Any:
    """One phase of one launch of one point: all columns but three are constant."""
    count = len(durations_ns)
    first = SampleRow(
        run_id=run.origin.run_id,
        device_class=run.plan.device.device_class,
        model_sha256=run.plan.model.ref.sha256,
        variant=outcome.point.variant.value,
        **at(run.signature, outcome.point.sizes),
        threads=outcome.point.threads or run.plan.threads,
        concurrency=outcome.point.concurrency,
        launch=outcome.launch,
        phase=phase,
        ordinal=0,
        duration_ns=0,
        excluded_cause=None,
    )
    same = from_rows("samples", (first,)).take(np.zeros(count, dtype=np.int64))
    causes: npt.NDArray[np.object_] = np.full(count, None, dtype=object)
    for begin, end, cause in excluded:
        causes[begin:end] = cause
    varying = {
        "ordinal": pa.array(np.arange(count, dtype=np.int32)),
        "duration_ns": pa.array(np.fromiter(durations_ns, dtype=np.int64, count=count)),
        "excluded_cause": pa.array(causes, pa.string()),
    }
    schema = file_schema("samples")
    return pa.Table.from_arrays([varying.get(field.name, same[field.name]) for field in schema], schema=schema)
