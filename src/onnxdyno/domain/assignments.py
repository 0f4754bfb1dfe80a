"""What one measuring process is asked to do, and what it says back."""

from dataclasses import dataclass
from enum import StrEnum

from onnxdyno.domain.axes import AxisSizes
from onnxdyno.domain.ceilings import CeilingReading
from onnxdyno.domain.cold import ColdReading
from onnxdyno.domain.cost import Count
from onnxdyno.domain.devices import Device
from onnxdyno.domain.models import InputRecipe, Signature
from onnxdyno.domain.outcomes import (
    ArenaReading,
    Explored,
    LaunchReading,
    Measured,
    MemoryReading,
    ModelState,
    Profile,
    Skipped,
)
from onnxdyno.domain.plan import BenchmarkSpec, Point, Protocol
from onnxdyno.domain.sessions import AS_USERS_GET_IT, SessionRecipe


class Pass(StrEnum):
    """One kind of reading; passes never share a process, so that no reading disturbs another."""

    PROBE = "probe"
    MEMORY = "memory"
    TIMING = "timing"
    PROFILE = "profile"
    COPY = "copy"
    COLD = "cold"
    ARENA = "arena"
    FIT = "fit"
    CEILINGS = "ceilings"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One point and the wall time it may use, warm-up included."""

    point: Point
    budget_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The whole input of a measuring process; a probe visits `turns` up to the first that runs."""

    kind: Pass
    launch: int
    launches: int
    model_path: str
    device: Device
    threads: int
    recipes: tuple[InputRecipe, ...]
    turns: tuple[Turn, ...]
    seed: int
    protocol: Protocol
    memory_limit_bytes: int | None = None
    cpu_limit_s: int | None = None
    signature: Signature | None = None
    """For a probe that goes on, once a size ran, to find what other sizes run; None = it stops there."""
    history: tuple[tuple[AxisSizes, bool], ...] = ()
    """What an earlier process found of sizes: (sizes, whether they ran)."""
    spec: BenchmarkSpec | None = None
    """For a probe that also looks for the sizes worth measuring; what is asked decides which."""
    explored: tuple[Explored, ...] = ()
    """What an earlier process found of those."""
    explore_ns: int = 0
    """Time for that search."""
    recipe: SessionRecipe = AS_USERS_GET_IT
    """How sessions are made, before a pass or a variant changes what it must."""
    files: tuple[str, ...] = ()
    """The model's files, external data included, for a launch that also reads them through; empty = it does not."""
    device_before: Count | None = None
    """What was in use on the GPU before the process of a memory reading; None on a CPU."""
    copy_to: str | None = None
    """Where the pass `copy` writes a copy with a dynamic batch."""
    cache_bytes: tuple[int, ...] = ()
    """Of the device's caches, smallest first, for the pass `ceilings`; each turn of it is a micro-model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Began:
    """The process is about to work on this turn; if it dies now, this point is why."""

    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A probe's point ran; what came out."""

    point: Point
    run_ns: int
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A size beside the base, and whether it ran."""

    sizes: AxisSizes
    is_fine: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """The probe has no more sizes to try, or no more time for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The probe has no more sizes to explore, or no more time for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """A copy with a dynamic batch was written and proven; `how` says in one line what it is and what was shown."""

    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCopied:
    """No copy with a dynamic batch could be made or proven; becomes a `RebatchRefused` in the parent."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The runtime will never run this model; becomes a `ModelError` in the parent."""

    state: ModelState
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusable:
    """The process cannot use its device; becomes a `DeviceError` in the parent: no fault of the model or a point."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The assignment was worked through."""


Event = (
    Began
    | Ran
    | Tried
    | Searched
    | Explored
    | Settled
    | Copied
    | NotCopied
    | Refused
    | Unusable
    | Done
    | LaunchReading
    | Measured
    | Skipped
    | MemoryReading
    | Profile
    | ColdReading
    | ArenaReading
    | CeilingReading
)
