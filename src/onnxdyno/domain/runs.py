"""One benchmark run: a plan and everything that was read while it ran."""

from dataclasses import dataclass

from onnxdyno.domain.cold import ColdReading
from onnxdyno.domain.cost import Cost, NodeWork, PointWork
from onnxdyno.domain.models import Signature
from onnxdyno.domain.outcomes import LaunchReading, MemoryBeside, MemoryReading, MinimumMemory, Outcome, Probe, Profile
from onnxdyno.domain.plan import BenchmarkPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a run came from. Times are UTC, ISO 8601 with seconds."""

    run_id: str
    started_at: str
    reason: str
    """Why it ran: `upload`, `bench`, or the text given to a re-benchmark."""
    source_uri: str
    source_key: str
    source_etag: str | None
    source_version_id: str | None
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkRun:
    """Everything read, in order; analysis is a pure function of this value."""

    origin: Origin
    signature: Signature
    plan: BenchmarkPlan
    probe: Probe
    launches: tuple[LaunchReading, ...]
    outcomes: tuple[Outcome, ...]
    memory: tuple[MemoryReading, ...]
    profiles: tuple[Profile, ...]
    cold: tuple[ColdReading, ...] = ()
    """At every optimisation level, if that was asked; sessions as users get them are those of `launches`."""
    beside: tuple[MemoryBeside, ...] = ()
    """Other readings of memory, at some of the points of `memory`."""
    minima: tuple[MinimumMemory, ...] = ()
    """If that was asked."""
    launches_span_s: float | None = None
    """From the start of the first launch to the end of the last, rests included; None if some are of an earlier attempt
    or none was made. What an interval over launches says is said of that time."""
    costs: tuple[Cost, ...] = ()
    """By the model's own arithmetic, at the sizes of its points; without the list of nodes."""
    work: tuple[tuple[NodeWork, ...], ...] = ()
    """For each profile, what each of its nodes computes and moves, in order; empty where it was not counted."""
    arithmetic: tuple[PointWork, ...] = ()
    """What one call computes and moves, by class of node, at the same sizes as `costs`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a person sees while a run goes on: `done` of `total` steps and one short text."""

    done: int
    total: int
    text: str
