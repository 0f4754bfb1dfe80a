"""The rows of what is read beside latency: `memory`, `cold`, `telemetry`."""

from dataclasses import dataclass
from typing import Annotated

from onnxdyno.storage.rowtypes.columns import Batch, DeviceClass, HeightPx, ModelSha256, RunId, Sequence, WidthPx
from onnxdyno.storage.rowtypes.entries import Axes, Texts


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRow:
    """Memory of one point by every way it was read, each in processes of its own; see docs/method.md."""

    run_id: RunId
    device_class: DeviceClass
    model_sha256: ModelSha256
    variant: Annotated[str, "Variant of the point."]
    axes: Annotated[Axes, "Sizes of the dynamic axes."]
    batch: Batch
    height_px: HeightPx
    width_px: WidthPx
    sequence: Sequence
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
    process_bytes: Annotated[
        int | None,
        "On a GPU: what its driver counts for the process after its runs, context included; null where process ids are "
        "not told (a container).",
    ]
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

    run_id: RunId
    device_class: DeviceClass
    model_sha256: ModelSha256
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

    run_id: RunId
    device_class: DeviceClass
    model_sha256: ModelSha256
    variant: Annotated[str, "Variant of the point whose answer came next."]
    axes: Annotated[Axes, "Sizes of the dynamic axes of that point."]
    batch: Batch
    height_px: HeightPx
    width_px: WidthPx
    sequence: Sequence
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
