"""What a person asks of the tiers, in the units of the command line, and what it means for one call."""

from dataclasses import dataclass
from math import isfinite

from onnxdyno.analysis.prediction.ceilings import DTYPES
from onnxdyno.analysis.requirements.records import CPU, MARKETS, Aim, Goal, Target
from onnxdyno.domain.axes import Role
from onnxdyno.domain.errors import SpecError
from onnxdyno.domain.models import Signature
from onnxdyno.domain.numbers import plain
from onnxdyno.domain.text import printable
from onnxdyno.hardware.catalogue import MARKETS as KNOWN_MARKETS
from onnxdyno.hardware.lookup import Catalogue

_MARKETS = (*KNOWN_MARKETS, CPU)
_DTYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "int8/QDQ": "int8", "int8": "int8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Sizes of the wanted point, targets there, a bound for the minimum, and among which devices. None = not asked.

    Raises `SpecError` for a number that is not positive, and for markets, aims and types that are not known.
    """

    batch: int | None = None
    resolution: str | None = None
    sequence: int | None = None
    target_fps: float | None = None
    target_latency_ms: float | None = None
    target_throughput: float | None = None
    latency_bound_ms: float | None = None
    best_by: str = Aim.THROUGHPUT.value
    markets: tuple[str, ...] = MARKETS
    dtype: str | None = None
    rebatch: bool = False

    def __post_init__(self) -> None:
        for name in ("batch", "sequence", "target_fps", "target_latency_ms", "target_throughput", "latency_bound_ms"):
            value = getattr(self, name)
            if value is not None and not (isfinite(value) and value > 0):
                raise SpecError(f"{name} is {value}. Give a number above 0.")
        unknown = next((each for each in self.markets if each not in _MARKETS), None)
        if unknown is not None:
            raise SpecError(f"market {printable(unknown)!r} is not known. Give one of {', '.join(_MARKETS)}.")
        if self.best_by not in list(Aim):
            raise SpecError(f"best by {printable(self.best_by)!r} is not known. Give one of {', '.join(Aim)}.")
        if self.dtype is not None and self.dtype not in DTYPES:
            raise SpecError(f"dtype {printable(self.dtype)!r} is not known. Give one of {', '.join(DTYPES)}.")

    @property
    def has_target(self) -> bool:
        """Whether anything is asked of speed."""
        return any(each is not None for each in (self.target_fps, self.target_latency_ms, self.target_throughput))


def goal_of(asked: Asked, items: int, precision: str, catalogue: Catalogue) -> Goal:
    """The goal of tiers for a call that processes `items`. Frames and items a second leave a call items / rate."""
    limits: list[tuple[float, str]] = []
    if asked.target_fps is not None:
        limits.append((items / asked.target_fps * 1e9, f"{plain(asked.target_fps)} FPS"))
    if asked.target_throughput is not None:
        limits.append((items / asked.target_throughput * 1e9, f"{plain(asked.target_throughput)} items/s"))
    if asked.target_latency_ms is not None:
        limits.append((asked.target_latency_ms * 1e6, f"{plain(asked.target_latency_ms)} ms"))
    said = " and ".join(text for _, text in limits)
    target = (
        Target(most_ns=min(limit for limit, _ in limits), asked=f"{said} with {items} in a call") if limits else None
    )
    return Goal(
        catalogue=catalogue,
        target=target,
        bound_ns=None if asked.latency_bound_ms is None else asked.latency_bound_ms * 1e6,
        aim=Aim(asked.best_by),
        markets=asked.markets,
        dtype=asked.dtype or dtype_of(precision),
    )


def dtype_of(precision: str) -> str:
    """What contractions of a model of this precision run in; unknown ones are taken for fp32, which is the slowest."""
    return _DTYPES.get(precision, "fp32")


def refuse_unsized(asked: Asked, signature: Signature) -> None:
    """A speed is asked of a point: its sizes must be known. Raises `SpecError`."""
    if not asked.has_target:
        return
    free = {axis.role for axis in signature.axes if axis.size is None}
    if free & {Role.HEIGHT, Role.WIDTH} and asked.resolution is None:
        raise SpecError("a target needs the size of an image, and this model's is dynamic. Give --resolution 224x224.")
    if Role.SEQUENCE in free and asked.sequence is None:
        raise SpecError("a target needs the length of a sequence, and this model's is dynamic. Give --sequence 128.")
