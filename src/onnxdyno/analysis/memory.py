"""Memory of a point from every process that read it, and the prediction by the model's own arithmetic beside it."""

from collections.abc import Mapping
from dataclasses import dataclass

from onnxdyno.domain.cost import Cost, Count
from onnxdyno.domain.devices import DeviceKind
from onnxdyno.domain.findings import Estimate, MemoryFinding
from onnxdyno.domain.outcomes import MemoryBeside, MemoryReading, MinimumMemory, Profile
from onnxdyno.domain.plan import Point, Variant
from onnxdyno.domain.runs import BenchmarkRun

NOT_SPLIT = "this reading was kept by an older version"
NOT_ASKED = "found on request only, at the first point: --true-minimum"
CPU_CONTEXT = "a CPU has no context"


def memory_findings(run: BenchmarkRun) -> Mapping[Point, MemoryFinding]:
    """One for each point whose memory was read, or was to be."""
    beside = {each.point: each for each in run.beside}
    minima = {each.point: each for each in run.minima}
    profiles = {each.point: each for each in run.profiles}
    costs = {cost.sizes: cost for cost in run.costs}
    return {
        reading.point: _finding(
            _Known(
                reading=reading,
                beside=beside.get(reading.point, MemoryBeside(point=reading.point)),
                minimum=minima.get(reading.point),
                profile=profiles.get(reading.point),
                cost=costs.get(reading.point.sizes),
                is_gpu=run.plan.device.kind is DeviceKind.CUDA,
            )
        )
        for reading in run.memory
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """All that is known of memory at one point."""

    reading: MemoryReading
    beside: MemoryBeside
    minimum: MinimumMemory | None
    profile: Profile | None
    cost: Cost | None
    is_gpu: bool


def _finding(known: _Known) -> MemoryFinding:
    reading, beside, minimum = known.reading, known.beside, known.minimum or _NOT_FOUND
    unread = reading.reason or NOT_SPLIT
    arena_peak, arena_held = _arena(known)
    run_peak = _count(reading.run_peak_bytes, unread)
    context = _context(known)
    predicted = _predicted(known)
    return MemoryFinding(
        baseline_bytes=_count(reading.baseline_bytes, unread),
        peak_bytes=_count(reading.peak_bytes, unread),
        load_peak_bytes=_count(reading.load_peak_bytes, unread),
        run_peak_bytes=run_peak,
        same_as_requested_peak_bytes=_count(
            beside.same_as_requested_peak_bytes, beside.same_as_requested_reason or "not read"
        ),
        arena_peak_bytes=arena_peak,
        arena_held_bytes=arena_held,
        residual_bytes=_residual(run_peak, context, arena_held, is_gpu=known.is_gpu),
        context_bytes=context,
        process_bytes=_count(reading.process_bytes, reading.process_reason or unread),
        cgroup_peak_bytes=_count(reading.cgroup_peak_bytes, reading.cgroup_reason or unread),
        predicted_bytes=predicted,
        predicted_error=_error(predicted, run_peak),
        arena_minimum_bytes=_count(minimum.arena_bytes, minimum.arena_reason or NOT_ASKED),
        process_minimum_bytes=_count(minimum.process_bytes, minimum.process_reason or NOT_ASKED),
        processes=1 + beside.processes + minimum.processes,
    )


_NOT_FOUND = MinimumMemory(
    point=Point(sizes=(), variant=Variant.DEVICE),
    arena_bytes=None,
    arena_reason=NOT_ASKED,
    process_bytes=None,
    process_reason=NOT_ASKED,
    processes=0,
)


def _count(value: int | None, reason: str) -> Count:
    return Count(value=value, reason=reason if value is None else None)


def _arena(known: _Known) -> tuple[Count, Count]:
    """The allocator's own figures, with the arena as users get it: from a process of its own, else from the profile."""
    arena, profile = known.beside.arena, known.profile
    if arena is not None:
        why = arena.reason or "the profile of the runtime does not tell"
        return _count(arena.peak_bytes, why), _count(arena.held_bytes, why)
    if profile is not None:
        why = profile.arena_reason or profile.reason or "the profile of the runtime does not tell"
        return _count(profile.arena_peak_bytes, why), _count(profile.arena_held_bytes, why)
    why = known.beside.arena_reason or "not read"
    return _count(None, why), _count(None, why)


def _context(known: _Known) -> Count:
    """The baseline already holds the context, since asking the runtime for memory makes one."""
    reading = known.reading
    if not known.is_gpu:
        return Count(value=None, reason=CPU_CONTEXT)
    if reading.baseline_bytes is None or reading.device_before_bytes is None:
        return Count(value=None, reason=reading.device_before_reason or reading.reason or "not told by the driver")
    return Count(value=max(0, reading.baseline_bytes - reading.device_before_bytes))


def _residual(run_peak: Count, context: Count, held: Count, *, is_gpu: bool) -> Count:
    if run_peak.value is None or held.value is None:
        return Count(value=None, reason=run_peak.reason or held.reason)
    if is_gpu and context.value is None:
        return Count(value=None, reason=f"the context is not known: {context.reason}")
    residual = run_peak.value + (context.value or 0) - held.value
    if residual < 0:
        return Count(value=None, reason="the arena held more than was ever touched")
    return Count(value=residual)


def _predicted(known: _Known) -> Count:
    """What is alive at once: weights once, intermediate tensors and outputs, and what the variant copies.

    `e2e` copies the outputs to the caller, whose inputs are used in place; the others hold a copy of the inputs.
    """
    cost = known.cost
    if cost is None:
        return Count(value=None, reason="the cost of this point was not counted")
    copies = cost.output_bytes if known.reading.point.variant is Variant.E2E else cost.input_bytes
    peak = cost.activation_peak_bytes
    if peak.value is None or copies.value is None:
        return Count(value=None, reason=peak.reason or copies.reason)
    return Count(value=cost.weight_bytes + peak.value + copies.value)


def _error(predicted: Count, measured: Count) -> Estimate:
    if predicted.value is None or not measured.value:
        return Estimate(
            value=None, reason=predicted.reason or measured.reason or "nothing was measured to compare with"
        )
    return Estimate(value=predicted.value / measured.value - 1, reason="an interval of a prediction is not published")
