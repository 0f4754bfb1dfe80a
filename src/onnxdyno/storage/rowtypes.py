"""The row of each published table. The text beside a column is its documentation (docs/tables.md is made from it)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

Axes = tuple[tuple[str, int], ...]
Texts = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisEntry:
    """An axis of the model; `size` is null when it is dynamic."""

    name: str
    role: str
    size: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FactEntry:
    """One fact of the fingerprint; a null value has a reason."""

    name: str
    value: str | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchEntry:
    """Cold numbers of one measuring process, as read."""

    launch: int
    session_ns: int
    providers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileEntry:
    """One profile pass; its nodes are in `nodes`.

    `matched_share`: share of the time whose nodes have FLOPs. `cpu_share`, `copy_nodes`, `copy_ms`: on a GPU, the
    share of the host's time on nodes of the CPU provider, and the nodes that copy between host and device. `arena_...`:
    the most that the runtime's own allocator had in use and held. `bound`: what the whole time follows by the device's
    measured ceilings, `bound_margin` times any other limit.
    """

    variant: str
    axes: Axes
    is_complete: bool
    runs: int | None
    model_run_ns: int | None
    coverage: float | None
    overhead: float | None
    reason: str | None
    matched_share: float | None
    cpu_share: float | None
    copy_nodes: int | None
    copy_ms: float | None
    copies_reason: str | None
    kernels_reason: str | None
    arena_peak_bytes: int | None
    arena_held_bytes: int | None
    arena_reason: str | None
    bound: str | None
    bound_margin: float | None
    bound_reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeEntry:
    """What one launch made of a point, as read; `launch` null = not tried."""

    launch: int | None
    state: str
    reason: str | None
    remedy: str | None
    first_run_ns: int | None
    busy_ns: int | None
    runs: int | None
    outputs: tuple[str, ...]
    input_sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One committed run of one model on one device. Written last: a run without this row does not exist."""

    run_id: Annotated[str, "The run; joins every table."]
    device_class: Annotated[
        str, "Hardware × execution provider × major versions. Hive partition: in the path, not in the file."
    ]
    model_sha256: Annotated[str, "Identity of the model, external data included."]
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
    warnings: Annotated[tuple[str, ...], "What a reader must know of the results."]
    points_measured: Annotated[int, "Rows of `points` that carry numbers."]
    points_skipped: Annotated[int, "Rows of `points` that carry only a state and a reason."]
    profiles: Annotated[tuple[ProfileEntry, ...], "Profile passes; a null number has a reason."]
    protocol_version: Annotated[str, "Version of the measurement protocol."]
    protocol_json: Annotated[str, "Every constant of the protocol, as JSON."]
    spec_json: Annotated[str, "What was asked, as JSON."]
    plan_json: Annotated[str, "What was to run, as JSON: points, excluded points, input recipes, threads."]
    probe_json: Annotated[str, "The base point that ran first and those that did not, as JSON."]


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRow:
    """One point of a run in one variant, all launches together; a point that did not run is a row with a reason."""

    run_id: Annotated[str, "The run; joins every table."]
    device_class: Annotated[
        str, "Hardware × execution provider × major versions. Hive partition: in the path, not in the file."
    ]
    model_sha256: Annotated[str, "Identity of the model, external data included."]
    variant: Annotated[str, "How a call was timed: `device`, `e2e`, `enqueue` or `graph`; never mixed."]
    axes: Annotated[Axes, "Sizes of the dynamic axes."]
    batch: Annotated[int | None, "Size of the batch axis there; null for a model without one."]
    height_px: Annotated[int | None, "Size of the height axis there; null for a model without one."]
    width_px: Annotated[int | None, "Size of the width axis there; null for a model without one."]
    sequence: Annotated[int | None, "Size of the sequence axis there; null for a model without one."]
    threads: Annotated[int, "`intra_op_num_threads` at this point."]
    concurrency: Annotated[int, "Calls in flight at once (closed loop); latency is that of one call among them."]
    is_on_front: Annotated[
        bool | None,
        "Whether no other batch, thread count or concurrency is shown to beat it in latency and throughput.",
    ]
    state: Annotated[str, "State of the point; only ok, noisy, not_steady, unconverged, disturbed carry latencies."]
    flags: Annotated[tuple[str, ...], "What a reader must know beside a number that is otherwise good."]
    reason: Annotated[str | None, "Why the state is not `ok`."]
    remedy: Annotated[str | None, "What to do about it."]
    n: Annotated[int, "Samples behind the latencies, all launches."]
    launches: Annotated[int, "Measuring processes behind the latencies."]
    excluded: Annotated[int, "Samples left out for a recorded cause; they stay in `samples`."]
    n_eff: Annotated[float | None, "Independent samples that give the median as well as those `n` do; at most `n`."]
    n_eff_reason: Annotated[str | None, "Why `n_eff` is null."]
    items: Annotated[int | None, "Items one call computes; null when the output does not scale with the batch."]
    p50_ms: Annotated[float | None, "Median of the launches' median latencies, milliseconds."]
    p50_ms_low: Annotated[float | None, "Lower end of the 95 % interval of `p50_ms`."]
    p50_ms_high: Annotated[float | None, "Upper end of the 95 % interval of `p50_ms`."]
    p50_reason: Annotated[str | None, "Why `p50_ms` or its interval is null."]
    p90_ms: Annotated[float | None, "90th percentile of a typical launch (see docs/method.md), milliseconds."]
    p90_ms_low: Annotated[float | None, "Lower end of the 95 % interval of `p90_ms`."]
    p90_ms_high: Annotated[float | None, "Upper end of the 95 % interval of `p90_ms`."]
    p90_reason: Annotated[str | None, "Why `p90_ms` or its interval is null."]
    p95_ms: Annotated[float | None, "95th percentile of a typical launch (see docs/method.md), milliseconds."]
    p95_ms_low: Annotated[float | None, "Lower end of the 95 % interval of `p95_ms`."]
    p95_ms_high: Annotated[float | None, "Upper end of the 95 % interval of `p95_ms`."]
    p95_reason: Annotated[str | None, "Why `p95_ms` or its interval is null."]
    p99_ms: Annotated[float | None, "99th percentile of a typical launch (see docs/method.md), milliseconds."]
    p99_ms_low: Annotated[float | None, "Lower end of the 95 % interval of `p99_ms`."]
    p99_ms_high: Annotated[float | None, "Upper end of the 95 % interval of `p99_ms`."]
    p99_reason: Annotated[str | None, "Why `p99_ms` or its interval is null."]
    mad_ms: Annotated[float | None, "Median absolute deviation of latency, milliseconds."]
    mad_ms_low: Annotated[float | None, "Lower end of the 95 % interval of `mad_ms`."]
    mad_ms_high: Annotated[float | None, "Upper end of the 95 % interval of `mad_ms`."]
    mad_reason: Annotated[str | None, "Why `mad_ms` or its interval is null."]
    iqr_ms: Annotated[float | None, "Interquartile range of latency, milliseconds."]
    iqr_ms_low: Annotated[float | None, "Lower end of the 95 % interval of `iqr_ms`."]
    iqr_ms_high: Annotated[float | None, "Upper end of the 95 % interval of `iqr_ms`."]
    iqr_reason: Annotated[str | None, "Why `iqr_ms` or its interval is null."]
    throughput_items_per_s: Annotated[float | None, "Items per second from back-to-back wall time."]
    throughput_items_per_s_low: Annotated[float | None, "Lower end of the 95 % interval of `throughput_items_per_s`."]
    throughput_items_per_s_high: Annotated[float | None, "Upper end of the 95 % interval of `throughput_items_per_s`."]
    throughput_reason: Annotated[str | None, "Why `throughput_items_per_s` or its interval is null."]
    first_run_ms: Annotated[
        float | None, "First call of this shape in a fresh process, milliseconds; never in the percentiles."
    ]
    first_run_ms_low: Annotated[float | None, "Lower end of the 95 % interval of `first_run_ms`."]
    first_run_ms_high: Annotated[float | None, "Upper end of the 95 % interval of `first_run_ms`."]
    first_run_reason: Annotated[str | None, "Why `first_run_ms` or its interval is null."]
    energy_per_item_mj: Annotated[
        float | None,
        "Energy of one item over the steady calls, millijoules, idle power not subtracted: of the whole GPU by its own "
        "counter, or of all CPU packages by RAPL, where everything else that ran on them is in it.",
    ]
    energy_per_item_mj_low: Annotated[float | None, "Lower end of the 95 % interval of `energy_per_item_mj`."]
    energy_per_item_mj_high: Annotated[float | None, "Upper end of the 95 % interval of `energy_per_item_mj`."]
    energy_per_item_reason: Annotated[str | None, "Why `energy_per_item_mj` or its interval is null."]
    event_ms: Annotated[
        float | None, "Device time of a call between two CUDA events on the runtime's own stream, milliseconds."
    ]
    event_ms_low: Annotated[float | None, "Lower end of the 95 % interval of `event_ms`."]
    event_ms_high: Annotated[float | None, "Upper end of the 95 % interval of `event_ms`."]
    event_reason: Annotated[str | None, "Why `event_ms` or its interval is null."]
    h2d_ms: Annotated[
        float | None,
        "Copying all inputs to the device as one block of pinned memory, milliseconds; apart from the call.",
    ]
    h2d_ms_low: Annotated[float | None, "Lower end of the 95 % interval of `h2d_ms`."]
    h2d_ms_high: Annotated[float | None, "Upper end of the 95 % interval of `h2d_ms`."]
    h2d_reason: Annotated[str | None, "Why `h2d_ms` or its interval is null."]
    d2h_ms: Annotated[
        float | None,
        "Copying all outputs to the host as one block of pinned memory, milliseconds; apart from the call.",
    ]
    d2h_ms_low: Annotated[float | None, "Lower end of the 95 % interval of `d2h_ms`."]
    d2h_ms_high: Annotated[float | None, "Upper end of the 95 % interval of `d2h_ms`."]
    d2h_reason: Annotated[str | None, "Why `d2h_ms` or its interval is null."]
    peak_memory_bytes: Annotated[int | None, "Peak memory over the baseline, own process."]
    peak_memory_reason: Annotated[str | None, "Why `peak_memory_bytes` is null, or what it rests on."]
    baseline_memory_bytes: Annotated[int | None, "Resident set before the session, inputs made; null if not read."]
    flops: Annotated[int | None, "FLOPs of one call by the model's own arithmetic; 1 multiply-accumulate = 2."]
    activation_peak_bytes: Annotated[int | None, "Intermediate tensors live at once, by the order of the graph."]
    cost_reason: Annotated[str | None, "Why `flops` or `activation_peak_bytes` is null."]
    outcomes: Annotated[tuple[OutcomeEntry, ...], "What each launch made of the point, as read."]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRow:
    """One timed call, raw: every launch, also warm-up and excluded ones, in order."""

    run_id: Annotated[str, "The run; joins every table."]
    device_class: Annotated[
        str, "Hardware × execution provider × major versions. Hive partition: in the path, not in the file."
    ]
    model_sha256: Annotated[str, "Identity of the model, external data included."]
    variant: Annotated[str, "How the call was timed: `device`, `e2e`, `enqueue` or `graph`."]
    axes: Annotated[Axes, "Sizes of the dynamic axes."]
    batch: Annotated[int | None, "Size of the batch axis there; null for a model without one."]
    height_px: Annotated[int | None, "Size of the height axis there; null for a model without one."]
    width_px: Annotated[int | None, "Size of the width axis there; null for a model without one."]
    sequence: Annotated[int | None, "Size of the sequence axis there; null for a model without one."]
    threads: Annotated[int, "`intra_op_num_threads` there."]
    concurrency: Annotated[int, "Calls in flight at once there."]
    launch: Annotated[int, "Number of the measuring process."]
    phase: Annotated[str, "`warm_up` (before the steady state; never in the percentiles) or `steady`."]
    ordinal: Annotated[int, "Position in its phase, from 0."]
    duration_ns: Annotated[int, "Submit to synchronise, nanoseconds."]
    excluded_cause: Annotated[
        str | None, "Recorded cause for which the sample is left out (docs/method.md); null = it counts."
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One node of the optimised graph in one profile, slowest first. Profiled time is never a latency."""

    run_id: Annotated[str, "The run; joins every table."]
    device_class: Annotated[
        str, "Hardware × execution provider × major versions. Hive partition: in the path, not in the file."
    ]
    model_sha256: Annotated[str, "Identity of the model, external data included."]
    variant: Annotated[str, "Variant of the profiled point."]
    axes: Annotated[Axes, "Sizes of the dynamic axes at the profiled point."]
    batch: Annotated[int | None, "Size of the batch axis there; null for a model without one."]
    height_px: Annotated[int | None, "Size of the height axis there; null for a model without one."]
    width_px: Annotated[int | None, "Size of the width axis there; null for a model without one."]
    sequence: Annotated[int | None, "Size of the sequence axis there; null for a model without one."]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRow:
    """Memory of one point by every way it was read, each in processes of its own; see docs/method.md."""

    run_id: Annotated[str, "The run; joins every table."]
    device_class: Annotated[
        str, "Hardware × execution provider × major versions. Hive partition: in the path, not in the file."
    ]
    model_sha256: Annotated[str, "Identity of the model, external data included."]
    variant: Annotated[str, "Variant of the point."]
    axes: Annotated[Axes, "Sizes of the dynamic axes."]
    batch: Annotated[int | None, "Size of the batch axis there; null for a model without one."]
    height_px: Annotated[int | None, "Size of the height axis there; null for a model without one."]
    width_px: Annotated[int | None, "Size of the width axis there; null for a model without one."]
    sequence: Annotated[int | None, "Size of the sequence axis there; null for a model without one."]
    baseline_bytes: Annotated[
        int | None, "Resident set before the session, inputs made; on a GPU, in use on the device with our context."
    ]
    peak_bytes: Annotated[
        int | None, "Peak over the baseline with the arena as users get it, as `points.peak_memory_bytes`."
    ]
    load_peak_bytes: Annotated[int | None, "Of `peak_bytes`, until the session stood."]
    run_peak_bytes: Annotated[int | None, "Of `peak_bytes`, from then on: binding and two runs."]
    same_as_requested_peak_bytes: Annotated[
        int | None, "As `peak_bytes` in another process whose arena grows by no more than asked for."
    ]
    arena_peak_bytes: Annotated[
        int | None, "Most in use of the runtime's own allocator, by its profiler, in another process."
    ]
    arena_held_bytes: Annotated[int | None, "Most that this allocator took from the system."]
    residual_bytes: Annotated[
        int | None, "`run_peak_bytes` (on a GPU with the context) minus `arena_held_bytes`: what is not the arena."
    ]
    context_bytes: Annotated[int | None, "On a GPU: what a process takes before its session; null on a CPU."]
    cgroup_peak_bytes: Annotated[
        int | None, "What the kernel counted for a memory cgroup that held this process alone, from its start."
    ]
    predicted_bytes: Annotated[
        int | None,
        "Weights + live intermediate tensors + the variant's copies of inputs or outputs; nothing was run for it.",
    ]
    predicted_error: Annotated[float | None, "`predicted_bytes` / `run_peak_bytes` - 1."]
    arena_minimum_bytes: Annotated[
        int | None, "Least limit of the arena with which five of five runs succeed, to 2 %; bounds the arena only."
    ]
    process_minimum_bytes: Annotated[
        int | None, "Least memory cgroup in which five of five runs succeed, to 2 %; the whole process."
    ]
    processes: Annotated[int, "Processes that these numbers come from."]
    reasons: Annotated[Texts, "For each column that is null, why."]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdRow:
    """One cold number of a run, over fresh processes: what a model costs before its second call."""

    run_id: Annotated[str, "The run; joins every table."]
    device_class: Annotated[
        str, "Hardware × execution provider × major versions. Hive partition: in the path, not in the file."
    ]
    model_sha256: Annotated[str, "Identity of the model, external data included."]
    phase: Annotated[
        str,
        "`file_read`, `session` (creation), `first_run` (the first call of a process) or `first_run_of_shape` (the "
        "first call of a shape in a launch, others of other shapes before it).",
    ]
    optimisation: Annotated[
        str | None, "`none`, `basic`, `extended`, `layout` or `all` (what users get); null for a file read."
    ]
    page_cache: Annotated[
        str | None, "Of a file read: `cached`, or `uncached` (the kernel was asked to drop the files and did)."
    ]
    variant: Annotated[str | None, "Variant of the call; null where nothing is called."]
    axes: Annotated[Axes | None, "Sizes of the call; null where nothing is called."]
    launches: Annotated[int, "Fresh processes behind it."]
    time_ms: Annotated[float | None, "Median over these processes, milliseconds."]
    time_ms_low: Annotated[float | None, "Lower end of the 95 % interval of `time_ms`."]
    time_ms_high: Annotated[float | None, "Upper end of the 95 % interval of `time_ms`."]
    time_reason: Annotated[str | None, "Why `time_ms` or its interval is null."]
    read_bytes: Annotated[
        int | None, "Of a file read: bytes from the start of the model's files, external data included; at most 64 MiB."
    ]
    was_cached: Annotated[
        bool | None, "Of a file read: whether the first process found the files in the page cache; null = not told."
    ]
    values_ns: Annotated[tuple[int, ...], "What each process read, nanoseconds."]


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryRow:
    """One reading of a GPU by NVML, some 16 a second, taken by the parent while a launch ran. Empty on a CPU.

    What is null could not be read; `reasons` says why. Clocks, power and heat of a MIG instance are its GPU's.
    """

    run_id: Annotated[str, "The run; joins every table."]
    device_class: Annotated[
        str, "Hardware × execution provider × major versions. Hive partition: in the path, not in the file."
    ]
    model_sha256: Annotated[str, "Identity of the model, external data included."]
    variant: Annotated[str, "Variant of the point whose answer came next."]
    axes: Annotated[Axes, "Sizes of the dynamic axes of that point."]
    batch: Annotated[int | None, "Size of the batch axis there; null for a model without one."]
    height_px: Annotated[int | None, "Size of the height axis there; null for a model without one."]
    width_px: Annotated[int | None, "Size of the width axis there; null for a model without one."]
    sequence: Annotated[int | None, "Size of the sequence axis there; null for a model without one."]
    launch: Annotated[int | None, "Number of the measuring process; null = none was started."]
    t_ns: Annotated[int, "When the reading began, on CLOCK_MONOTONIC of the machine: for differences only."]
    is_steady: Annotated[bool, "Taken while a steady window of the point was open."]
    sm_clock_mhz: Annotated[int | None, "SM clock."]
    memory_clock_mhz: Annotated[int | None, "Memory clock."]
    power_mw: Annotated[int | None, "Power draw of the GPU, milliwatts."]
    temperature_c: Annotated[int | None, "Temperature of the GPU, degrees Celsius."]
    utilisation: Annotated[float | None, "Share of the driver's last sampling period in which a kernel ran, 0 to 1."]
    memory_used_bytes: Annotated[int | None, "Device memory in use by everybody, without what the driver keeps."]
    clock_event_bits: Annotated[int | None, "Clocks-event reasons as NVML gives them."]
    clock_events: Annotated[
        tuple[str, ...] | None, "Names of those bits, lowest first (docs/method.md says which invalidate)."
    ]
    energy_mj: Annotated[int | None, "The GPU's energy counter, millijoules since its driver was loaded."]
    own_processes: Annotated[int | None, "Processes of ours that compute on it."]
    other_processes: Annotated[int | None, "Other processes that compute on it; in a container ours may be among them."]
    reasons: Annotated[Texts, "(column of the reading, why it is null)."]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequirementRow:
    """One requirement tier of a run: a device of the catalogue and what the choice rests on."""

    run_id: Annotated[str, "The run; joins every table."]
    device_class: Annotated[
        str, "Hardware × execution provider × major versions. Hive partition: in the path, not in the file."
    ]
    model_sha256: Annotated[str, "Identity of the model, external data included."]
    tier: Annotated[str, "`minimum`, `recommended` or `optimal`."]
    catalogue_id: Annotated[str | None, "Device of the catalogue; null = no answer, see `reason`."]
    catalogue_name: Annotated[str | None, "Its name."]
    memory_bytes: Annotated[int | None, "Its memory."]
    needed_bytes: Annotated[int | None, "Memory the model needs there at most: an upper bound."]
    axes: Annotated[Axes, "The point the tier is for."]
    batch: Annotated[int | None, "Size of the batch axis there; null for a model without one."]
    height_px: Annotated[int | None, "Size of the height axis there; null for a model without one."]
    width_px: Annotated[int | None, "Size of the width axis there; null for a model without one."]
    sequence: Annotated[int | None, "Size of the sequence axis there; null for a model without one."]
    basis: Annotated[
        str, "`memory` (speed had no part), or what the latency rests on: `measured`, `interpolated`, `extrapolated`."
    ]
    reason: Annotated[str, "What the choice rests on, or why there is none."]
    evidence: Annotated[str, "What memory and latency were taken from."]
    latency_ms: Annotated[float | None, "Of one call there, measured or predicted, milliseconds."]
    latency_ms_low: Annotated[float | None, "Lower end of its interval: 90 % if predicted, 95 % if measured."]
    latency_ms_high: Annotated[float | None, "Upper end of that interval."]
    latency_reason: Annotated[str | None, "Why `latency_ms` or its interval is null."]
    probability: Annotated[float | None, "At least this probable is what is claimed of speed; null = nothing is."]
    ordered_by: Annotated[str, "By what the device is the least or the best; empty for none."]
    price: Annotated[float | None, "What it costs by a person's own dated prices; null = none given."]
    price_currency: Annotated[str | None, "Its currency, ISO 4217."]
    price_date: Annotated[str | None, "Its date, ISO 8601."]
    ties: Annotated[tuple[str, ...], "Devices of the catalogue that are not told apart from it."]


Row = RunRow | PointRow | SampleRow | NodeRow | ColdRow | MemoryRow | TelemetryRow | RequirementRow
