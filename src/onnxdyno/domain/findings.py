"""What is derived from samples. Every missing number has its reason beside it."""

from dataclasses import dataclass, field, fields
from enum import StrEnum

from onnxdyno.domain.axes import AxisSizes
from onnxdyno.domain.bounds import Bound
from onnxdyno.domain.cost import Count, NodeWork
from onnxdyno.domain.outcomes import Flag, NodeTiming, PointState
from onnxdyno.domain.plan import Point
from onnxdyno.domain.sessions import Optimisation

NOT_CALIBRATED = "the device has no measured ceilings: run onnxdyno calibrate"
NOT_COUNTED = Count(value=None, reason="the cost of this point was not counted")

NO_WORK = NodeWork(flops=None, read_bytes=None, written_bytes=None, basis=None, reason="the nodes were not matched")


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value with its 95 % interval; `value`, or `low` and `high`, are None together with a `reason`."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None


NO_ENERGY = Estimate(value=None, reason="energy was not read")
NOT_PREDICTED = Estimate(value=None, reason="no latency was measured or predicted for it")
NO_DEVICE = Estimate(value=None, reason="a CPU has no memory and no clock of its own apart from the host's")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFinding:
    """Memory of one point, each number in its own way; what each leaves out is in docs/method.md. None has a reason."""

    baseline_bytes: Count
    peak_bytes: Count
    """Over the baseline, with the arena as users get it; the larger of the next two."""
    load_peak_bytes: Count
    run_peak_bytes: Count
    same_as_requested_peak_bytes: Count
    arena_peak_bytes: Count
    """Most in use of the runtime's own allocator, by its profiler, in another process."""
    arena_held_bytes: Count
    """Most that this allocator took from the system."""
    residual_bytes: Count
    """What is not the arena: on a GPU context and libraries, on a CPU weights, their copies and the runtime itself."""
    context_bytes: Count
    """On a GPU, what the process takes before its session."""
    process_bytes: Count
    """On a GPU, what its driver counts for the process, context included, where process ids can be told."""
    cgroup_peak_bytes: Count
    predicted_bytes: Count
    """Weights, live intermediate tensors and the copies that the variant makes of inputs or outputs."""
    predicted_error: Estimate
    """`predicted_bytes` over `run_peak_bytes`, minus 1."""
    arena_minimum_bytes: Count
    process_minimum_bytes: Count
    processes: int

    @property
    def counts(self) -> dict[str, Count]:
        """Every number of bytes by its name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Count)}

    @property
    def reasons(self) -> dict[str, str]:
        """Why numbers are None, by name."""
        missing = {name: count.reason or "unknown" for name, count in self.counts.items() if count.value is None}
        error = self.predicted_error
        return missing | ({"predicted_error": error.reason or "unknown"} if error.value is None else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class PointFinding:
    """All launches of one point. Latencies in nanoseconds, throughput in items per second."""

    point: Point
    state: PointState
    flags: tuple[Flag, ...]
    reason: str | None
    remedy: str
    n: int
    launches: int
    excluded: int
    n_eff: Estimate
    """What the correlated samples are worth: independent samples that give the median as well; at most `n`."""
    p50_ns: Estimate
    p90_ns: Estimate
    p95_ns: Estimate
    p99_ns: Estimate
    mad_ns: Estimate
    iqr_ns: Estimate
    throughput_items_per_s: Estimate
    first_run_ns: Estimate
    peak_memory_bytes: int | None
    peak_memory_reason: str | None
    items: int | None
    """What one call processes: the batch, 1 without a batch axis; None when no output scales with the batch."""
    flops: Count = field(default_factory=lambda: NOT_COUNTED)
    """Of one call, by the model's own arithmetic."""
    energy_per_item_mj: Estimate = field(default_factory=lambda: NO_ENERGY)
    """Of the whole GPU, or of all CPU packages, over the steady calls; idle power is not subtracted."""
    energy_per_call_mj: Estimate = field(default_factory=lambda: NO_ENERGY)
    event_ns: Estimate = NO_DEVICE
    """Device time of a call, by events on the runtime's own stream; beside `p50_ns`, which is the clock's."""
    h2d_ns: Estimate = NO_DEVICE
    """Copying all inputs to the device, as one block of pinned memory."""
    d2h_ns: Estimate = NO_DEVICE
    activation_peak_bytes: Count = field(default_factory=lambda: NOT_COUNTED)
    """Live intermediate tensors at most, by the order of the graph; what was measured is `peak_memory_bytes`."""
    memory: MemoryFinding | None = None
    """None: no memory pass was made here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """An answer such as the best batch; `point` None has a reason."""

    point: Point | None
    value: float | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFinding:
    """One node, its share of the sum of self times, 0..1, and what it computes and moves in one call."""

    node: NodeTiming
    share: float
    work: NodeWork = NO_WORK
    bound: Bound | None = None
    """What its time follows by the device's measured ceilings; None has a reason."""
    bound_reason: str | None = NOT_CALIBRATED


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Nodes that have something in common; `flops` None if those of one are not known."""

    name: str
    nodes: int
    self_ns: int
    share: float
    flops: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileFinding:
    """Nodes of one profile, slowest first. `coverage` = sum of self times / unprofiled median; None has a reason."""

    point: Point
    is_complete: bool
    coverage: float | None
    overhead: float | None
    """Profiled model_run over the unprofiled median, minus 1."""
    nodes: tuple[NodeFinding, ...]
    reason: str | None
    matched_share: float | None = None
    """Share of the time whose nodes have FLOPs; the rest is unmatched."""
    cpu_share: float | None = None
    """On a GPU: share of the host's time on nodes of the CPU provider."""
    copy_nodes: int | None = None
    """On a GPU: nodes that copy between host and device, and their time."""
    copy_ns: int | None = None
    copies_reason: str | None = None
    bound: Bound | None = None
    """What the time of the whole follows, and how far it is from anything else; None has a reason."""
    bound_margin: float | None = None
    bound_reason: str | None = NOT_CALIBRATED


class ColdPhase(StrEnum):
    """What a fresh process does before its second call."""

    FILE_READ = "file_read"
    SESSION = "session"
    FIRST_RUN = "first_run"
    FIRST_RUN_OF_SHAPE = "first_run_of_shape"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdFinding:
    """One cold number over fresh processes, of which `values_ns` are the readings. None has a reason.

    `page_cache` and `read_bytes` are of a file read: `cached`, or `uncached`: from the disk.
    """

    phase: ColdPhase
    time_ns: Estimate
    values_ns: tuple[int, ...]
    optimisation: Optimisation | None = None
    page_cache: str | None = None
    read_bytes: int | None = None
    was_cached: bool | None = None
    """Whether the first process found the files in the page cache."""
    point: Point | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """One requirement tier: a device of the catalogue and what the choice rests on.

    `basis`: `memory` (speed had no part in the choice), or what the latency rests on: `measured`, `interpolated`,
    `extrapolated`. `device_id` None has a reason (abstention). `needed_bytes` is an upper bound.
    """

    tier: str
    device_id: str | None
    device_name: str | None
    memory_bytes: int | None
    needed_bytes: int | None
    sizes: AxisSizes
    basis: str
    reason: str
    evidence: str = ""
    """What memory and latency were taken from: runs, points, profiles, or the file's own arithmetic."""
    latency_ns: Estimate = NOT_PREDICTED
    """Of one call there, with its interval: 90 % where predicted, 95 % where measured."""
    probability: float | None = None
    """At least this probable is what the tier claims of speed; None = it claims nothing of speed."""
    order: str = ""
    """By what the device is the least or the best."""
    price: float | None = None
    price_currency: str | None = None
    price_date: str | None = None
    ties: tuple[str, ...] = ()
    """Devices that are not told apart from this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredHere:
    """What a run measured on its own device at the point of the recommended tier; it says nothing of any other device.

    `meets`: True where the whole 95 % interval of p50 is within the target, False where all of it is beyond; None has
    its `reason`, as there is none or the interval holds the limit. `state` is that of the point.
    """

    run_id: str
    device_name: str
    device_kind: str
    device_memory_bytes: int | None
    threads: int
    sizes: AxisSizes
    meets: bool | None
    reason: str
    state: str | None = None
    latency_ns: Estimate = NOT_PREDICTED
    peak_memory_bytes: int | None = None
    """Of the process over its baseline."""
    peak_memory_reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedOn:
    """What one call is predicted to take and to need on one device of the catalogue, on which the run measured nothing.

    `latency_ns` has its interval at `confidence`, or a reason; so has its value alone where only a range can be said.
    `source_id` is whose profile it is from; None = arithmetic alone. `needed_bytes` is an upper bound,
    `least_needed_bytes` what cannot be avoided. `fits`: True if the upper bound does, False if the lower does not.
    """

    device_id: str
    device_name: str
    device_memory_bytes: int
    device_source: str
    """Where the catalogue has the device from, and how sure that is."""
    device_confidence: str
    latency_ns: Estimate
    confidence: float | None = None
    basis: str | None = None
    source_id: str | None = None
    least_needed_bytes: int | None = None
    needed_bytes: int | None = None
    memory_reason: str = ""
    fits: bool | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherDevices:
    """The base point on devices that the run did not measure; none has a reason."""

    sizes: AxisSizes
    dtype: str | None
    """What contractions run in there: fp32 is without TF32."""
    predictions: tuple[PredictedOn, ...]
    reason: str | None = None
    evidence: str = ""
    """What the predictions were made from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """All findings of one run."""

    points: tuple[PointFinding, ...]
    session_ns: Estimate
    best_batch: Choice
    largest_batch: Choice
    largest_resolution: Choice
    largest_sequence: Choice
    profiles: tuple[ProfileFinding, ...]
    tiers: tuple[Tier, ...]
    warnings: tuple[str, ...]
    front: tuple[Point, ...] = ()
    """Points that no other is shown to beat in both latency and throughput."""
    knee: Choice = field(default_factory=lambda: Choice(point=None, value=None, reason="no front was drawn"))
    cold: tuple[ColdFinding, ...] = ()
    here: MeasuredHere | None = None
    """The run's own device against its target; None: tiers were not asked for."""
    others: OtherDevices = field(
        default_factory=lambda: OtherDevices(sizes=(), dtype=None, predictions=(), reason="nothing was predicted")
    )
