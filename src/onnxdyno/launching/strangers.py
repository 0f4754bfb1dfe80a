"""What is left of an answer when somebody else used the device: what depends on that is None, with the reason."""

from dataclasses import replace

from onnxdyno.analysis.nodes import compute_on_cpu
from onnxdyno.domain.assignments import Assignment, Pass, Turn
from onnxdyno.domain.cold import ColdReading
from onnxdyno.domain.devices import Device
from onnxdyno.domain.outcomes import Explored, MemoryReading, PointState, Profile, Skipped
from onnxdyno.domain.plan import Point
from onnxdyno.domain.telemetry import TelemetrySample, event_names
from onnxdyno.launching.driving import Answer
from onnxdyno.measuring.telemetry import ALONE, invalidating

Readings = tuple[TelemetrySample, ...]


def refusal(assignment: Assignment, turn: Turn, who: str, readings: Readings = ()) -> Answer:
    """The answer of a process that was not started. `who` is a clause, `readings` are what it rests on.

    Of memory, cold numbers and profiles only the reading is lost: whether the point is timed, its own launches find.
    """
    reason = _told(f"before anything was started, {who}.")
    match assignment.kind:
        case Pass.MEMORY:
            return MemoryReading(point=turn.point, baseline_bytes=None, peak_bytes=None, run_ns=None, reason=reason)
        case Pass.COLD:
            return ColdReading(
                point=turn.point,
                optimisation=assignment.recipe.optimisation,
                launch=assignment.launch,
                session_ns=None,
                first_run_ns=None,
                reason=reason,
            )
        case Pass.PROFILE:
            return Profile(point=turn.point, is_complete=False, runs=0, model_run_ns=None, nodes=(), reason=reason)
        case _:
            return foreign(turn.point, assignment.launch, who, readings)


def foreign(point: Point, launch: int | None, who: str, readings: Readings = ()) -> Skipped:
    """A point that is not even tried."""
    return Skipped(
        point=point,
        launch=launch,
        state=PointState.FOREIGN_TENANT,
        reason=f"before anything was started, {who}.",
        remedy=ALONE,
        telemetry=readings,
    )


def starved(skipped: Skipped, who: str | None) -> Skipped:
    """Out of memory is no property of a point where somebody else had some of it."""
    if who is None or skipped.state is not PointState.OOM:
        return skipped
    return replace(skipped, state=PointState.FOREIGN_TENANT, reason=_ran_out(who, skipped.reason), remedy=ALONE)


def tried(answer: Answer, who: str | None) -> Answer:
    """As `starved`, of what a probe says of a point or of sizes."""
    if isinstance(answer, Skipped):
        return starved(answer, who)
    if who is None or not isinstance(answer, Explored) or answer.state is not PointState.OOM:
        return answer
    return replace(answer, state=PointState.FOREIGN_TENANT, reason=_ran_out(who, answer.reason))


def _ran_out(who: str, reason: str) -> str:
    return f"while {who}, it ran out of memory: {reason}"


def spoilt(answer: Answer, who: str, device: Device) -> Answer:
    """The answer of a process beside which somebody else used the device. `who` is a clause.

    A profile that shows compute nodes on the CPU keeps its nodes, which prove that no latency here is the GPU's.
    """
    reason = _told(f"while it was read, {who}.")
    match answer:
        case MemoryReading():
            return replace(
                answer,
                baseline_bytes=None,
                peak_bytes=None,
                load_peak_bytes=None,
                run_peak_bytes=None,
                device_before_bytes=None,
                device_before_reason=reason,
                reason=reason,
            )
        case ColdReading():
            return replace(answer, session_ns=None, first_run_ns=None, reason=reason)
        case Profile():
            if compute_on_cpu(answer, device) is not None:
                return replace(answer, is_complete=False, reason=reason)
            return replace(answer, is_complete=False, runs=0, model_run_ns=None, nodes=(), slices=(), reason=reason)
        case Skipped():
            return starved(answer, who)
        case _:
            return answer


def held_back(answer: Answer, samples: Readings) -> Answer:
    """A profile says in its reason that the device was held back meanwhile; its shares stand."""
    bits = invalidating(samples)
    if not bits or not isinstance(answer, Profile):
        return answer
    said = f"the device reported {', '.join(event_names(bits))} while it was profiled"
    return replace(answer, reason=f"{said}; {answer.reason}" if answer.reason else said)


def _told(why: str) -> str:
    return f"{PointState.FOREIGN_TENANT.value}: {why}"
