"""The row of `nodes`."""

from dataclasses import dataclass
from typing import Annotated

from onnxdyno.storage.rowtypes.columns import Batch, DeviceClass, HeightPx, ModelSha256, RunId, Sequence, WidthPx
from onnxdyno.storage.rowtypes.entries import Axes


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One node of the optimised graph in one profile, slowest first. Profiled time is never a latency."""

    run_id: RunId
    device_class: DeviceClass
    model_sha256: ModelSha256
    variant: Annotated[str, "Variant of the profiled point."]
    axes: Annotated[Axes, "Sizes of the dynamic axes at the profiled point."]
    batch: Batch
    height_px: HeightPx
    width_px: WidthPx
    sequence: Sequence
    rank: Annotated[int, "1 = the slowest node of this profile."]
    path: Annotated[str, "Path of the graph the node is in; empty for the main graph."]
    node_index: Annotated[int, "Index of the node in its graph."]
    name: Annotated[str, "Name of the node in the optimised graph."]
    op_type: Annotated[str, "Operator."]
    provider: Annotated[str, "Execution provider it ran on."]
    self_ms: Annotated[
        float,
        "Median self time a run on the host (on a GPU: to launch), subgraphs subtracted, milliseconds, profiler on.",
    ]
    kernel_ms: Annotated[float | None, "Median time a run of its kernels on the device, milliseconds; null: none told."]
    kernel_reason: Annotated[str | None, "Why `kernel_ms` is null."]
    share: Annotated[float | None, "Share of the sum of self times, 0 to 1."]
    runs: Annotated[int, "Profiled runs behind it."]
    output_bytes: Annotated[int | None, "Bytes of its outputs; null where the profile does not say."]
    flops: Annotated[int | None, "FLOPs of one call by the model's own arithmetic; 1 multiply-accumulate = 2."]
    read_bytes: Annotated[int | None, "Bytes one call reads, every operand once."]
    written_bytes: Annotated[int | None, "Bytes one call writes."]
    work_basis: Annotated[
        str | None, "How those were found: `name` of the file's node, `fused` (a sum of them), `shapes`; null = not."
    ]
    work_reason: Annotated[str | None, "Why one of them is null."]
    bound: Annotated[
        str | None,
        "What its time follows by the device's own ceilings: `compute`, `memory`, `launch` … (docs/roofline.md).",
    ]
    bound_reason: Annotated[str | None, "Why `bound` is null, or what it rests on."]
    input_shapes: Annotated[str, "dtypes and shapes of its inputs."]
    output_shapes: Annotated[str, "dtypes and shapes of its outputs."]
    is_complete: Annotated[bool, "False: the profile was cut; whole runs only."]
