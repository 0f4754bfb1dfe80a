"""The rows of `points` and `samples`."""

from dataclasses import dataclass
from typing import Annotated

from onnxdyno.storage.rowtypes.columns import Batch, DeviceClass, HeightPx, ModelSha256, RunId, Sequence, WidthPx
from onnxdyno.storage.rowtypes.entries import Axes, OutcomeEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRow:
    """One point of a run in one variant, all launches together; a point that did not run is a row with a reason."""

    run_id: RunId
    device_class: DeviceClass
    model_sha256: ModelSha256
    variant: Annotated[str, "How a call was timed: `device`, `e2e`, `enqueue` or `graph`; never mixed."]
    axes: Annotated[Axes, "Sizes of the dynamic axes."]
    batch: Batch
    height_px: HeightPx
    width_px: WidthPx
    sequence: Sequence
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
    energy_per_call_mj: Annotated[float | None, "The same of a whole call, also where items cannot be counted."]
    energy_per_call_mj_low: Annotated[float | None, "Lower end of the 95 % interval of `energy_per_call_mj`."]
    energy_per_call_mj_high: Annotated[float | None, "Upper end of the 95 % interval of `energy_per_call_mj`."]
    energy_per_call_reason: Annotated[str | None, "Why `energy_per_call_mj` or its interval is null."]
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

    run_id: RunId
    device_class: DeviceClass
    model_sha256: ModelSha256
    variant: Annotated[str, "How the call was timed: `device`, `e2e`, `enqueue` or `graph`."]
    axes: Annotated[Axes, "Sizes of the dynamic axes."]
    batch: Batch
    height_px: HeightPx
    width_px: WidthPx
    sequence: Sequence
    threads: Annotated[int, "`intra_op_num_threads` there."]
    concurrency: Annotated[int, "Calls in flight at once there."]
    launch: Annotated[int, "Number of the measuring process."]
    phase: Annotated[str, "`warm_up` (before the steady state; never in the percentiles) or `steady`."]
    ordinal: Annotated[int, "Position in its phase, from 0."]
    duration_ns: Annotated[int, "Submit to synchronise, nanoseconds."]
    excluded_cause: Annotated[
        str | None, "Recorded cause for which the sample is left out (docs/method.md); null = it counts."
    ]
