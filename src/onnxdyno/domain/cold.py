"""What a model costs before its second call: reading its file, creating a session, the first call. Nanoseconds."""

from dataclasses import dataclass

from onnxdyno.domain.plan import Point
from onnxdyno.domain.sessions import Optimisation


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReading:
    """The model's files, external data included, read through once in a fresh process: `read_bytes` from their start.

    `was_cached`: whether the page cache held them when the process came; None = the kernel does not say. `uncached_ns`
    is a read after the kernel was asked to drop them and did; None has a `reason`.
    """

    read_bytes: int
    was_cached: bool | None
    cached_ns: int
    uncached_ns: int | None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdReading:
    """One fresh process at one optimisation level: session creation, then the first call of the point. None: `reason`.

    The first call includes binding its inputs, which makes it.
    """

    point: Point
    optimisation: Optimisation
    launch: int
    session_ns: int | None
    first_run_ns: int | None
    reason: str | None = None
