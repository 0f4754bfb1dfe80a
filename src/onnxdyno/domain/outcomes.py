"""What came of a run: states, samples, readings. Expected failure is a value here, never an exception."""

from dataclasses import dataclass, field
from enum import StrEnum

from onnxdyno.domain.axes import AxisSizes, Constraints
from onnxdyno.domain.cold import FileReading
from onnxdyno.domain.plan import Point
from onnxdyno.domain.telemetry import Energy, TelemetrySample


class PointState(StrEnum):
    """The one state of a point; the first five carry numbers, the others only a reason."""

    OK = "ok"
    NOISY = "noisy"
    NOT_STEADY = "not_steady"
    UNCONVERGED = "unconverged"
    DISTURBED = "disturbed"
    THROTTLED = "throttled"
    EP_FALLBACK = "ep_fallback"
    FOREIGN_TENANT = "foreign_tenant"
    OOM = "oom"
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    SHAPE_ERROR = "shape_error"
    UNSUPPORTED = "unsupported"
    NOT_APPLICABLE = "not_applicable"
    MODEL_ERROR = "model_error"

    @property
    def is_measured(self) -> bool:
        """Whether a latency may stand beside this state."""
        return self in _MEASURED


_MEASURED = frozenset(
    {PointState.OK, PointState.NOISY, PointState.NOT_STEADY, PointState.UNCONVERGED, PointState.DISTURBED}
)


WORST_FIRST = (
    PointState.DISTURBED,
    PointState.NOT_STEADY,
    PointState.UNCONVERGED,
    PointState.NOISY,
    PointState.OK,
)
"""States that carry numbers, as one state stands for several launches."""


class ModelState(StrEnum):
    """Why a model cannot be measured at all."""

    INVALID_FILE = "invalid_file"
    MISSING_EXTERNAL_DATA = "missing_external_data"
    UNSAFE = "unsafe"
    UNSUPPORTED = "unsupported"
    ENVIRONMENT = "environment"
    TOO_LARGE = "too_large"


class Flag(StrEnum):
    """What a reader must know beside a number that is otherwise good."""

    NON_FINITE = "non_finite"
    BATCH_NOT_SCALED = "batch_not_scaled"
    OUTPUT_SHAPE_DIFFERS = "output_shape_differs"
    CPU_NODES = "cpu_nodes"
    CFS_THROTTLED = "cfs_throttled"
    CASTS_INSERTED = "casts_inserted"
    POWER_CAPPED = "power_capped"
    EVENTS_DISAGREE = "events_disagree"


class Cause(StrEnum):
    """Why samples are left out; they stay stored. `preempted`: others had the cores, or the process was stopped.

    `throttled`: the GPU said that heat or power held it back.
    """

    PREEMPTED = "preempted"
    CFS_THROTTLED = "cfs_throttled"
    CLOCK = "clock"
    THROTTLED = "throttled"


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadySpan:
    """When samples `first` to `end` (not in it) were taken: on CLOCK_MONOTONIC, which the parent reads too."""

    first: int
    end: int
    opened_ns: int
    wall_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Copies of a point's inputs to the device and of its outputs back, each as one block of pinned memory.

    Submit to synchronise on the clock, in nanoseconds; none of either has a reason.
    """

    h2d_bytes: int
    d2h_bytes: int
    h2d_ns: tuple[int, ...]
    d2h_ns: tuple[int, ...]
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One point of one launch: every sample, in order, in nanoseconds.

    `warm_up_ns` came before the steady state. `excluded` are spans (first, end, cause) of `samples_ns`, end not in it;
    excluded samples stay stored. `busy_ns` is the wall time of the steady windows that are not excluded, back to back,
    and `runs` the calls in them (throughput). `first_run_ns` is the first call of this shape in this process (cold).
    """

    point: Point
    launch: int
    state: PointState
    reason: str | None
    flags: tuple[Flag, ...]
    first_run_ns: int
    warm_up_ns: tuple[int, ...]
    samples_ns: tuple[int, ...]
    excluded: tuple[tuple[int, int, str], ...]
    busy_ns: int
    runs: int
    outputs: tuple[str, ...] = ()
    other_outputs: tuple[tuple[str, ...], ...] = ()
    """Of further input sets, where their shapes are others than in `outputs`; each once."""
    input_sha256: str = ""
    spans: tuple[SteadySpan, ...] = ()
    """One a steady window, in order; together all of `samples_ns`. Empty in pieces kept by an older version."""
    energy: Energy | None = None
    telemetry: tuple[TelemetrySample, ...] = ()
    """What the device said since the answer before this one; empty on a CPU."""
    device_ns: tuple[int, ...] = ()
    """Calls after those of `samples_ns`, by a pair of events on the runtime's own stream; none on a CPU."""
    transfer: Transfer | None = None
    """None where no device has a memory of its own, or at a variant other than `device`."""
    device_clock_reason: str | None = None
    """Why the end of warm-up did not look at the GPU's clock; None: it did, or there is no GPU."""
    is_short: bool = False
    """`unconverged` for one thing alone: steady and precise, with less than its share of the least runs or time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """One point that has no number: the state, the runtime's own message and what to do. `launch` None = not tried."""

    point: Point
    launch: int | None
    state: PointState
    reason: str
    remedy: str = ""
    telemetry: tuple[TelemetrySample, ...] = ()


Outcome = Measured | Skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchReading:
    """Cold numbers of one measuring process: session creation with optimisation, in nanoseconds."""

    launch: int
    session_ns: int
    providers: tuple[str, ...]
    assignment: tuple[tuple[str, str, int], ...]
    """(provider, op type, count) from ORT's own graph-assignment record."""
    runtime: tuple[tuple[str, str], ...]
    """(name, value): engine, build, and each provider's options after defaults."""
    file: FileReading | None = None
    """How long the model's files took to read before the session; None where nobody asked for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReading:
    """Memory of one point in its own process. Baseline: resident set before the session, inputs already made.

    `peak_bytes` is the peak over that baseline, with the arena as users get it: resident set on the CPU, device memory
    on a GPU. None has a reason.
    """

    point: Point
    baseline_bytes: int | None
    peak_bytes: int | None
    run_ns: int | None
    reason: str | None = None
    load_peak_bytes: int | None = None
    """Of `peak_bytes`, until the session stood. None in pieces kept by an older version."""
    run_peak_bytes: int | None = None
    """Of `peak_bytes`, from then on."""
    process_bytes: int | None = None
    """What the GPU's driver counted for this process after its runs, its context included."""
    process_reason: str | None = None
    cgroup_peak_bytes: int | None = None
    """What the kernel counted for the process's own cgroup, from its start on."""
    cgroup_reason: str | None = None
    device_before_bytes: int | None = None
    """In use on the GPU before this process existed; the baseline holds its context."""
    device_before_reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArenaReading:
    """The most that the runtime's own allocator had in use and held, in a process of its own with the profiler on."""

    point: Point
    peak_bytes: int | None
    held_bytes: int | None
    runs: int
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBeside:
    """What other processes read of memory at a point, beside its `MemoryReading`. None has its reason."""

    point: Point
    same_as_requested_peak_bytes: int | None = None
    """As `MemoryReading.peak_bytes`, with an arena that grows by no more than was asked for."""
    same_as_requested_reason: str | None = None
    arena: ArenaReading | None = None
    arena_reason: str | None = None
    processes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimumMemory:
    """The least memory with which a point was seen to run, found by bisection to ±2 %. None has its reason.

    `arena_bytes` bounds the runtime's own allocator only; `process_bytes` the whole process, by a memory cgroup.
    """

    point: Point
    arena_bytes: int | None
    arena_reason: str | None
    process_bytes: int | None
    process_reason: str | None
    processes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTiming:
    """One node of the optimised graph: median self time per run. Identity = (path, index, name).

    On a GPU `self_ns` is the time to launch on the host. `kernel_ns` is that of its kernels on the device, None where
    the profile has none.
    """

    path: str
    index: int
    name: str
    op_type: str
    provider: str
    self_ns: int
    runs: int
    output_bytes: int | None
    input_shapes: str
    output_shapes: str
    kernel_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One execution of a node in one run: its place in the nodes, when it began after the run did, how long."""

    node: int
    start_ns: int
    length_ns: int
    depth: int
    """0 at the top, 1 inside an If, Loop or Scan there, and so on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The profile pass at one point. `is_complete` False: cut by the runtime; whole runs only.

    Arena: the most that the runtime's own allocator of the device had in use and held, weights included.
    """

    point: Point
    is_complete: bool
    runs: int
    model_run_ns: int | None
    nodes: tuple[NodeTiming, ...]
    reason: str | None = None
    arena_peak_bytes: int | None = None
    arena_held_bytes: int | None = None
    arena_reason: str | None = None
    kernels_reason: str | None = None
    """Why kernels on the device are missing or not all linked to nodes."""
    slices: tuple[Slice, ...] = ()
    """The kept run that took nearest to the median, an outer node before those inside it; empty if it is too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explored:
    """Sizes that were tried to see whether they are worth measuring; the shortest of a few calls, never published.

    `call_ns` None: they did not run, for the state and the reason that stand here.
    """

    sizes: AxisSizes
    call_ns: int | None
    state: PointState | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The first of the plan's base candidates that ran, or why none did; and what other sizes were found to run."""

    point: Point | None
    tried: tuple[Skipped, ...]
    outputs: tuple[str, ...] = ()
    constraints: Constraints = field(default_factory=Constraints)
    explored: tuple[Explored, ...] = ()
