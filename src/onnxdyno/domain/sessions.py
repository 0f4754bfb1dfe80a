"""How a session is made: what of the runtime's own settings is chosen rather than left alone."""

from dataclasses import dataclass
from enum import StrEnum


class Optimisation(StrEnum):
    """How far the runtime rewrites a graph before it runs it; each level contains those before it."""

    NONE = "none"
    BASIC = "basic"
    EXTENDED = "extended"
    LAYOUT = "layout"
    ALL = "all"


class ArenaStrategy(StrEnum):
    """How the runtime's memory arena grows: by powers of two, as users get it, or by no more than was asked for."""

    DEFAULT = "default"
    SAME_AS_REQUESTED = "same_as_requested"


class CudnnSearch(StrEnum):
    """How the CUDA provider finds the algorithm of a convolution; the runtime's own default is `EXHAUSTIVE`."""

    EXHAUSTIVE = "EXHAUSTIVE"
    HEURISTIC = "HEURISTIC"
    DEFAULT = "DEFAULT"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecipe:
    """What `Runtime.load` is told of a session beside its file, device and threads. The defaults are what users get."""

    optimisation: Optimisation = Optimisation.ALL
    arena: ArenaStrategy = ArenaStrategy.DEFAULT
    """On CUDA an option of this session; on the CPU of the whole process, so one process keeps to one strategy."""
    arena_limit_bytes: int | None = None
    """The cap of the arena, set likewise. On the CPU onnxruntime 1.31 takes it and does not keep to it (ResNet-50)."""
    profile_prefix: str | None = None
    """Given: profiling is on, and the path of its file begins so."""
    optimised_path: str | None = None
    """Where the runtime writes the graph that it runs, with the node names of the profile."""
    spinning: bool = True
    """Whether idle threads of the pool burn their core, as the runtime has it (`session.intra_op.allow_spinning`)."""
    cudnn_search: CudnnSearch = CudnnSearch.EXHAUSTIVE
    is_graph: bool = False
    """Record a CUDA graph at the first runs and replay it; the runtime refuses models that are not all on the GPU."""
    provider_options: tuple[tuple[str, str], ...] = ()
    """More (name, value) for the device's own provider; they win over what the other fields set."""


AS_USERS_GET_IT = SessionRecipe()
