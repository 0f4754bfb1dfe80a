"""What bounds a node and a model, judged by measured ceilings, and what that says can be gained."""

from dataclasses import dataclass
from enum import StrEnum

from onnxdyno.domain.bounds import Bound
from onnxdyno.domain.findings import NodeFinding
from onnxdyno.domain.plan import Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A time in nanoseconds with the interval that the ceiling behind it gives."""

    value_ns: float
    low_ns: float
    high_ns: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeVerdict:
    """One node against the ceilings. `margin`: its longest limit over the second; None where nothing was compared.

    `took_ns`: how long it ran, on a GPU its kernels; None where a GPU's profile only tells what starting it took.
    `efficiency`: what the ceilings allow over what it took. `bound` None has a reason.
    """

    found: NodeFinding
    bound: Bound | None
    took_ns: int | None = None
    margin: float | None = None
    reason: str | None = None
    compute: Span | None = None
    memory: Span | None = None
    launch: Span | None = None
    intensity_flop_per_byte: float | None = None
    achieved_flop_per_s: float | None = None
    achieved_bytes_per_s: float | None = None
    efficiency: float | None = None
    datasheet_compute_share: float | None = None
    datasheet_memory_share: float | None = None

    @property
    def self_ns(self) -> int:
        """How long it ran; where only its start was timed, the least that the ceilings allow, or 0."""
        if self.took_ns is not None:
            return self.took_ns
        if self.compute is None or self.memory is None or self.launch is None:
            return 0
        return round(max(self.compute.value_ns, self.memory.value_ns) + self.launch.value_ns)


class Move(StrEnum):
    """What could be tried."""

    RAISE_BATCH = "raise_batch"
    INT8 = "int8"
    FUSE = "fuse"
    MORE_THREADS = "more_threads"
    KEEP_ON_DEVICE = "keep_on_device"
    BETTER_KERNELS = "better_kernels"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One thing to try, and the most that the roofline lets it gain: a share of the time of an item, 0..1.

    `factor`: by how much to raise the batch, or how many threads. `because`: the numbers that it rests on.
    """

    move: Move
    gain_at_most: float
    because: str
    factor: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """A model at one point: nodes slowest first, shares of its time by bound, the verdict and its margin.

    `unjudged_share`: of nodes without a verdict. `bound` None has a reason. `is_timed` False, with `untimed_reason`:
    the profile does not tell how long nodes ran. Shares are then of the least that the ceilings allow; or, where nodes
    took far longer with the profiler than the call without it (`coverage`), of that call, and leave
    `unexplained_share` of it.
    """

    point: Point
    bound: Bound | None
    margin: float | None
    reason: str | None
    shares: tuple[tuple[Bound, float], ...] = ()
    unjudged_share: float = 0.0
    nodes: tuple[NodeVerdict, ...] = ()
    advice: tuple[Advice, ...] = ()
    is_timed: bool = True
    untimed_reason: str | None = None
    unexplained_share: float = 0.0
    coverage: float | None = None
