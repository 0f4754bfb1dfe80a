"""What was asked (spec), what will run (plan), and the constants of the protocol that every run records."""

from dataclasses import dataclass, field
from enum import StrEnum

from onnxdyno.domain.axes import AxisSizes, Constraints, describe
from onnxdyno.domain.devices import Device
from onnxdyno.domain.models import InputRecipe, LocalModel
from onnxdyno.domain.sessions import CudnnSearch


class Variant(StrEnum):
    """How a call is timed; never mixed. `device`: IO-bound, preallocated. `e2e`: host arrays in and out.

    On CUDA alone: `enqueue`, the host's time to submit a call, and `graph`, a replayed CUDA graph, IO-bound.
    """

    DEVICE = "device"
    E2E = "e2e"
    ENQUEUE = "enqueue"
    GRAPH = "graph"

    @property
    def is_cuda_only(self) -> bool:
        """Whether it means nothing on a CPU."""
        return self in (Variant.ENQUEUE, Variant.GRAPH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """The constants of the measurement protocol, in one place. Change one only with a measurement that says why."""

    version: str = "1"
    warm_up_runs: int = 10
    warm_up_ns: int = 200_000_000
    window_ns: int = 250_000_000
    window_least_runs: int = 2
    window_least_short_runs: int = 10
    short_run_ns: int = 25_000_000
    steady_tolerance: float = 0.01
    steady_clock_tolerance: float = 0.02
    """What the SM clock of a GPU may differ by from one window to the next that agree."""
    drift_tolerance: float = 0.05
    """Of the accepted samples as a whole: five times what adjacent windows may differ, so that noise is not a drift."""
    warm_up_cap_ns: int = 10_000_000_000
    least_samples: int = 100
    least_time_ns: int = 500_000_000
    half_width_target: float = 0.01
    noise_spread: float = 0.05
    """Of the last estimates of the noise, relative to their mean, below which more samples no longer help."""
    excluded_share_cap: float = 0.2
    preempted_share: float = 0.03
    clock_share: float = 0.75
    """Of a core's (a GPU's) usual clock, below which a window's samples are left out (protocol, section 3)."""
    most_samples: int = 200_000
    least_gain: float = 0.05
    """Of throughput, below which a larger batch or more runs in flight are not worth it."""
    published_half_width: float = 0.05
    """Of the interval of p50 over launches, relative: a point above it gets further launches while the budget lasts."""
    most_launches: int = 10
    further_confidence: float = 0.98
    """Of the t interval over more launches than were asked for: they ended when it looked narrow (docs/method.md)."""
    tenant_memory_bytes: int = 256 * 2**20
    """In use before anything of ours runs, beyond which the device is somebody else's: more than a desktop draws."""
    tenant_utilisation: float = 0.05
    tenant_settle_ns: int = 2_000_000_000
    """For what has just ended to leave the device: utilisation is told over up to a second."""
    profile_runs: int = 5
    input_sets: int = 3
    event_runs: int = 16
    """Calls between a pair of device events, after those on the clock."""
    event_tolerance: float = 0.1
    event_slack_ns: int = 50_000
    """What clock and events may differ by without a flag: this share of the clock's median, and this on top."""
    copy_runs: int = 20
    """Copies to and from the device through pinned memory, each way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One combination of axis sizes, measured in one variant, with so many threads and calls in flight."""

    sizes: AxisSizes
    variant: Variant
    threads: int | None = None
    """`intra_op_num_threads`; None = those of the plan."""
    concurrency: int = 1
    """Calls in flight at once, each from a thread of its own that makes the next as soon as one ends (closed loop)."""

    @property
    def key(self) -> str:
        """Unique within a plan, for people and logs: `device batch=1 height=224`."""
        threads = "" if self.threads is None else f" threads={self.threads}"
        in_flight = "" if self.concurrency == 1 else f" concurrency={self.concurrency}"
        return f"{self.variant.value} {describe(self.sizes)}{threads}{in_flight}"

    @property
    def is_plain(self) -> bool:
        """Whether it is measured with the plan's threads and one call at a time, as every sweep of sizes is."""
        return self.threads is None and self.concurrency == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRule:
    """What a spec says of one input: a constant, a range, or an `.npz` file (entry = input name)."""

    name: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkSpec:
    """What was asked. None = the default of `planning`, which depends on the model's axes.

    `resolutions_px` are (height, width). `axes` fixes or sweeps any axis by name. Budget is per model and device.
    """

    batches: tuple[int, ...] | None = None
    resolutions_px: tuple[tuple[int, int], ...] | None = None
    sequences: tuple[int, ...] | None = None
    axes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    inputs: tuple[InputRule, ...] = ()
    variants: tuple[Variant, ...] = (Variant.DEVICE,)
    launches: int = 3
    budget_s: float = 60.0
    latency_target_ms: float | None = None
    threads: tuple[int, ...] | None = None
    concurrency: tuple[int, ...] = (1,)
    precision: float | None = None
    """Relative half-width that the interval of p50 is to have; None = the protocol's."""
    spacing_s: float = 0.0
    """From the start of one launch to that of the next, at least; meanwhile the device is free. Outside the budget."""
    seed: int = 0
    profile: bool = True
    memory: bool = True
    memory_full: bool = False
    """Every way of reading memory at every point, not only at the base and the largest."""
    true_minimum: bool = False
    """Also the least memory that the base point runs with; outside the budget."""
    cold: bool = False
    """Also cold numbers at every optimisation level, not only at that which users get."""
    spinning: bool = True
    """Whether idle threads of the runtime's pool burn their core, as it has it by default."""
    cudnn_search: CudnnSearch = CudnnSearch.EXHAUSTIVE
    rebatch: bool = False
    """Measure a proven copy with a dynamic batch in place of a model whose batch is fixed."""
    base_only: bool = False
    """Measure the first sizes that run, or those asked: no sweeps of our own. Set by commands, not by people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded:
    """A point that is not tried, with the reason: known before anything runs."""

    point: Point
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkPlan:
    """What will run on one device: points cheap first, the base point first of all.

    `base_candidates` are tried in order by the probe; the first that runs becomes `base` (see `planning.rebase`).
    `batch_axes` are swept together; `fixed_batch` is the batch of a model whose batch is not an axis, else None.
    """

    model: LocalModel
    device: Device
    spec: BenchmarkSpec
    recipes: tuple[InputRecipe, ...]
    base_candidates: tuple[Point, ...]
    base: Point
    points: tuple[Point, ...]
    excluded: tuple[Excluded, ...] = ()
    batch_axes: tuple[str, ...] = ()
    fixed_batch: int | None = None
    threads: int = 1
    protocol: Protocol = field(default_factory=Protocol)
    constraints: Constraints = field(default_factory=Constraints)
    """What tries before the measurement showed of the sizes that the model takes."""

    def confidence_of(self, launches: int) -> float:
        """Of the t interval over so many launches of a point, for what is published to hold the truth 95 times in 100.

        Launches beyond those asked for go on until the interval is narrow, so it is looked at several times.
        """
        return 0.95 if launches <= self.spec.launches else self.protocol.further_confidence
