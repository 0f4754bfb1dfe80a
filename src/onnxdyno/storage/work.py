"""What one call computes and moves at each point, as rows and back."""

from collections.abc import Iterable, Mapping
from typing import Any

from onnxdyno.domain.axes import AxisSizes, axis_sizes
from onnxdyno.domain.cost import PointWork, WorkClass
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.storage.rows import at
from onnxdyno.storage.rowtypes import WorkRow


def work_rows(run: BenchmarkRun) -> tuple[WorkRow, ...]:
    """One row per point and class of nodes; of a point without classes one with the reason."""
    return tuple(_row(run, point, each) for point in run.arithmetic for each in point.classes or (None,))


def _row(run: BenchmarkRun, point: PointWork, found: WorkClass | None) -> WorkRow:
    return WorkRow(
        run_id=run.origin.run_id,
        device_class=run.plan.device.device_class,
        model_sha256=run.plan.model.ref.sha256,
        **at(run.signature, point.sizes),
        op_type=None if found is None else found.op_type,
        executions=None if found is None else found.count,
        flops=None if found is None else found.flops,
        moved_bytes=None if found is None else found.moved_bytes,
        reason=None if found is not None else point.reason,
    )


def works_of(rows: Iterable[Mapping[str, Any]]) -> tuple[PointWork, ...]:
    """The inverse of `work_rows` for one run, in the order of the points; Arrow gives a map as pairs."""
    classes: dict[AxisSizes, list[WorkClass]] = {}
    reasons: dict[AxisSizes, str | None] = {}
    for row in rows:
        sizes = axis_sizes(dict(row["axes"]))
        reasons.setdefault(sizes, row["reason"])
        found = classes.setdefault(sizes, [])
        if row["op_type"] is not None:
            found.append(
                WorkClass(
                    op_type=row["op_type"],
                    flops=row["flops"],
                    moved_bytes=row["moved_bytes"],
                    count=row["executions"],
                )
            )
    return tuple(
        PointWork(sizes=sizes, classes=tuple(found), reason=reasons[sizes]) for sizes, found in classes.items()
    )
