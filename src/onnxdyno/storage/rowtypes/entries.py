"""Records inside a row: what a column of several values holds."""

from dataclasses import dataclass

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
