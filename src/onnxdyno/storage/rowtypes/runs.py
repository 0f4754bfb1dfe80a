"""The row of `runs`."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from onnxdyno.storage.rowtypes.columns import DeviceClass, ModelSha256, RunId
from onnxdyno.storage.rowtypes.entries import Axes, AxisEntry, FactEntry, LaunchEntry, ProfileEntry, Texts


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One committed run of one model on one device. Written last: a run without this row does not exist."""

    run_id: RunId
    device_class: DeviceClass
    model_sha256: ModelSha256
    started_at: Annotated[datetime, "When the run began, UTC."]
    reason: Annotated[str, "Why it ran: `upload`, `bench`, or the text given to a re-benchmark."]
    attempt: Annotated[int, "Number of the attempt that finished, from 1."]
    source_uri: Annotated[str, "Registry the model came from, without credentials."]
    source_key: Annotated[str, "Key of the model there."]
    source_etag: Annotated[str | None, "ETag of the version that was read; null for a plain file."]
    source_version_id: Annotated[str | None, "Version id of the version that was read; null where none was named."]
    model_name: Annotated[str, "Base name of the model, for people."]
    model_bytes: Annotated[int, "Size of the model, external data included."]
    external_bytes: Annotated[int, "Bytes of external data."]
    opset: Annotated[int, "Opset of the default domain."]
    ir_version: Annotated[int, "IR version of the file."]
    producer: Annotated[str, "What made the file, as it says itself."]
    parameters: Annotated[int, "Elements of all weights, shared ones once."]
    weight_bytes: Annotated[int, "Bytes of all weights, external data included."]
    precision: Annotated[str, "dtype that holds most weight bytes, or `int8/QDQ`."]
    node_count: Annotated[int, "Nodes of the graph, subgraphs included."]
    model_axes: Annotated[tuple[AxisEntry, ...], "Axes of the model with role and size (null = dynamic)."]
    notes: Annotated[tuple[str, ...], "What a reader must know of how the model was read."]
    device_id: Annotated[str, "`cpu` or the UUID of the GPU."]
    device_kind: Annotated[str, "`cpu` or `cuda`."]
    device_name: Annotated[str, "Name of the device."]
    device_memory_bytes: Annotated[int | None, "Memory of the device; null where it cannot be read."]
    compute_capability: Annotated[str | None, "CUDA compute capability; null on a CPU."]
    cores: Annotated[int, "Logical CPUs that the run could use."]
    threads: Annotated[int, "`intra_op_num_threads` of the run."]
    fingerprint: Annotated[tuple[FactEntry, ...], "Everything that must be equal for two runs to be compared."]
    runtime: Annotated[Texts, "Engine, build, execution provider and its options, as the first launch reported them."]
    launches: Annotated[tuple[LaunchEntry, ...], "Cold numbers of each measuring process, as read."]
    launches_span_s: Annotated[
        float | None, "Wall seconds of all launches, rests included; null: some are of an earlier attempt, or none."
    ]
    session_ms: Annotated[float | None, "Creation of a session with optimisation, in a fresh process, milliseconds."]
    session_ms_low: Annotated[float | None, "Lower end of the 95 % interval of `session_ms`."]
    session_ms_high: Annotated[float | None, "Upper end of the 95 % interval of `session_ms`."]
    session_reason: Annotated[str | None, "Why `session_ms` or its interval is null."]
    best_batch: Annotated[int | None, "Best batch under the latency target, if one was asked."]
    best_batch_axes: Annotated[Axes | None, "The point of that answer, every dynamic axis."]
    best_batch_reason: Annotated[str, "How `best_batch` was chosen, or why it is null."]
    largest_batch: Annotated[int | None, "Largest batch that ran, under the latency target if one was asked."]
    largest_batch_axes: Annotated[Axes | None, "The point of that answer, every dynamic axis."]
    largest_batch_reason: Annotated[str, "How that was chosen and what the next larger did, or why it is null."]
    knee_batch: Annotated[int | None, "Batch of the point where more throughput begins to cost much latency."]
    knee_axes: Annotated[Axes | None, "The point of that answer, every dynamic axis."]
    knee_reason: Annotated[str, "How that was chosen, threads and calls in flight included, or why it is null."]
    largest_height_px: Annotated[int | None, "Height of the largest resolution under the target."]
    largest_width_px: Annotated[int | None, "Width of the largest resolution under the target."]
    largest_resolution_axes: Annotated[Axes | None, "The point of that answer, every dynamic axis."]
    largest_resolution_reason: Annotated[str, "How that was chosen, or why it is null."]
    largest_sequence: Annotated[int | None, "Largest sequence under the target."]
    largest_sequence_axes: Annotated[Axes | None, "The point of that answer, every dynamic axis."]
    largest_sequence_reason: Annotated[str, "How that was chosen, or why it is null."]
    meets_target: Annotated[
        bool | None, "Whether this device, measured, meets the latency target by the whole interval; null = not shown."
    ]
    meets_target_axes: Annotated[Axes | None, "The point of that answer (that of the recommended tier)."]
    meets_target_reason: Annotated[str | None, "What was measured there against the target, or why nothing is shown."]
    warnings: Annotated[tuple[str, ...], "What a reader must know of the results."]
    points_measured: Annotated[int, "Rows of `points` that carry numbers."]
    points_skipped: Annotated[int, "Rows of `points` that carry only a state and a reason."]
    profiles: Annotated[tuple[ProfileEntry, ...], "Profile passes; a null number has a reason."]
    protocol_version: Annotated[str, "Version of the measurement protocol."]
    protocol_json: Annotated[str, "Every constant of the protocol, as JSON."]
    spec_json: Annotated[str, "What was asked, as JSON."]
    plan_json: Annotated[str, "What was to run, as JSON: points, excluded points, input recipes, threads."]
    probe_json: Annotated[str, "The base point that ran first and those that did not, as JSON."]
