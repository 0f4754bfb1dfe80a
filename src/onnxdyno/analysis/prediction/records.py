"""What goes into a prediction and what comes out. Unknown is None, never 0."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileNode:
    """One node of a profile: its operator, its arithmetic, its traffic, and the self time measured on the source.

    `kind` is an ONNX operator (`Conv`, `MatMul`) or a general word (`linear`, `elem`). 1 multiply-accumulate = 2 FLOPs.
    `latency_ns` None: this node was not measured.
    """

    kind: str
    flops: float
    bytes: float
    latency_ns: float | None


class Basis(StrEnum):
    """What a prediction rests on."""

    MEASURED = "measured"
    """The target is the source: the sum of the profile itself."""
    INTERPOLATED = "interpolated"
    """fp32 on a checked architecture, with measured ceilings between those of the GPUs that it was checked on."""
    EXTRAPOLATED = "extrapolated"
    """Anything else."""


class Relation(StrEnum):
    """How alike two GPUs are: same compute capability, near (at most one major number apart) or far.

    Libraries choose their kernels by it.
    """

    SAME = "same"
    NEAR = "near"
    FAR = "far"


class Bound(StrEnum):
    """What most of the predicted time is spent on: work on the device, or starting it."""

    GPU = "gpu"
    LAUNCH = "launch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The latency of one whole model on one target; per-node figures are not published.

    `low_ns` and `high_ns` enclose it with probability `confidence`. `latency_ns` is None where only a range can be
    said, all three where nothing can; `reason` says why. Shares are of the predicted time.
    """

    target_id: str
    source_id: str | None
    dtype: str
    latency_ns: float | None
    low_ns: float | None
    high_ns: float | None
    confidence: float
    basis: Basis
    relation: Relation | None
    bound: Bound | None
    compute_share: float | None
    memory_share: float | None
    launch_share: float | None
    reason: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPrediction:
    """Device memory of one process on one target, in bytes: the parts, and an interval of their sum.

    `fits` is whether even `high_bytes` fits into what a driver leaves of the device's memory; None where it is unknown.
    """

    target_id: str
    weights_bytes: int
    activation_bytes: int
    workspace_bytes: int
    context_bytes: int
    arena_slack_bytes: int
    total_bytes: int
    low_bytes: int
    high_bytes: int
    fits: bool | None
    basis: Basis
    notes: tuple[str, ...] = ()
