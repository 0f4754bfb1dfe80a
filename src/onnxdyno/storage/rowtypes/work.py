"""The row of `work`."""

from dataclasses import dataclass
from typing import Annotated

from onnxdyno.storage.rowtypes.columns import Batch, DeviceClass, HeightPx, ModelSha256, RunId, Sequence, WidthPx
from onnxdyno.storage.rowtypes.entries import Axes


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkRow:
    """One class of nodes of the file at one point: executions of one operator that compute and move the same.

    By the model's own arithmetic, unfused, whether the point was measured or not: what is predicted of other devices is
    made from it. A point whose work is not known is one row with a reason.
    """

    run_id: RunId
    device_class: DeviceClass
    model_sha256: ModelSha256
    axes: Annotated[Axes, "Sizes of the dynamic axes."]
    batch: Batch
    height_px: HeightPx
    width_px: WidthPx
    sequence: Sequence
    op_type: Annotated[str | None, "Operator; null: the work of this point is not known, see `reason`."]
    executions: Annotated[int | None, "Executions like this in one call; null as `op_type`."]
    flops: Annotated[float | None, "FLOPs of one execution (of a loop: the mean); null as `op_type`."]
    moved_bytes: Annotated[
        float | None, "Bytes that one execution reads and writes (of a loop: the mean); null as `op_type`."
    ]
    reason: Annotated[str | None, "Why the work of this point is not known."]
