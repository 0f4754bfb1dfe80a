"""One assignment through as many processes as it takes: a death or a hang costs the point it happened in, no other."""

import signal
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import assert_never

from onnxdyno import wire
from onnxdyno.domain.assignments import (
    Assignment,
    Began,
    Copied,
    Done,
    Event,
    NotCopied,
    Ran,
    Refused,
    Searched,
    Settled,
    Tried,
    Turn,
    Unusable,
)
from onnxdyno.domain.ceilings import CeilingReading
from onnxdyno.domain.cold import ColdReading
from onnxdyno.domain.errors import DeviceError, ModelError, RebatchRefused
from onnxdyno.domain.outcomes import (
    ArenaReading,
    Explored,
    LaunchReading,
    Measured,
    MemoryReading,
    PointState,
    Probe,
    Profile,
    Skipped,
)
from onnxdyno.domain.text import printable
from onnxdyno.ports import Exit, Launcher

MOST_DEATHS = 2
"""A point is tried again once after its process died: the cause may have been outside (a kill, a neighbour)."""

_LAST_WORDS = 400

Answer = (
    LaunchReading
    | Measured
    | Skipped
    | MemoryReading
    | Profile
    | ColdReading
    | ArenaReading
    | CeilingReading
    | Ran
    | Tried
    | Searched
    | Explored
    | Settled
    | Copied
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a process may say nothing, in seconds: until its first turn begins, and within a turn."""

    load_s: float
    turn_s: Callable[[Turn], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """Where a process ended: the turn it was in (None = before the first), whether it was done, and how it died.

    `is_answered`: it left of itself after an answer, spent by it; the next turn is no part of its death.
    """

    turn: int | None
    is_done: bool
    is_answered: bool
    exit: Exit


def drive(launcher: Launcher, assignment: Assignment, limits: Limits) -> Generator[Answer, None, None]:
    """Every answer to the assignment, each as it comes; the points of dead processes as `Skipped`.

    Raises `ModelError` if the runtime refuses the model, `DeviceError` if the device cannot be used,
    `InfrastructureError` if no process can be started.
    """
    left = list(assignment.turns)
    deaths: Counter[Turn | None] = Counter()
    while left:
        end = yield from _one_process(launcher, replace(assignment, turns=tuple(left)), limits)
        if end.is_done:
            return
        at = end.turn
        if end.is_answered:
            left = left[at or 0 :]
            continue
        deaths[None if at is None else left[at]] += 1
        if at is None:
            if _is_final(end.exit) or deaths[None] >= MOST_DEATHS:
                yield from (_fallen(turn, assignment, end.exit, "while it loaded the model") for turn in left)
                return
            continue
        if _is_final(end.exit) or deaths[left[at]] >= MOST_DEATHS:
            yield _fallen(left[at], assignment, end.exit, "at this point")
            at += 1
        left = left[at:]


def _one_process(launcher: Launcher, assignment: Assignment, limits: Limits) -> Generator[Answer, None, _End]:
    """Answers of one process; its value is how the process ended. Ends the process on every way out."""
    turn: int | None = None
    answered = 0
    launch = launcher.start(assignment.device, wire.encode_assignment(assignment))
    is_done = False

    def silence_s() -> float:
        return limits.load_s if turn is None else limits.turn_s(assignment.turns[turn])

    try:
        with closing(launch.events(silence_s)) as lines:
            for line in lines:
                event = _expected(wire.decode(line))
                match event:
                    case Began():
                        turn = event.turn
                    case Done():
                        is_done = True
                        break
                    case NotCopied():
                        raise RebatchRefused(event.reason)
                    case Refused():
                        raise ModelError(event.state, event.reason, event.remedy, is_of_runtime=True)
                    case Unusable():
                        raise DeviceError(event.reason)
                    case LaunchReading():
                        yield event
                    case Ran() | Tried() | Searched() | Explored() | Settled() | Copied():
                        is_done = True
                        yield event
                    case (
                        Measured()
                        | Skipped()
                        | MemoryReading()
                        | Profile()
                        | ColdReading()
                        | ArenaReading()
                        | CeilingReading()
                    ):
                        answered = (turn or 0) + 1
                        yield event
                    case _:
                        assert_never(event)
    finally:
        ended = launch.stop()
    at = None if turn is None else max(turn, answered)
    if at is not None and at >= len(assignment.turns):
        is_done = True
    is_answered = turn is not None and answered == turn + 1 and ended.status == 0 and not ended.timed_out
    return _End(turn=at, is_done=is_done, is_answered=is_answered, exit=ended)


def _expected(event: Event | Probe) -> Event:
    assert not isinstance(event, Probe)  # noqa: S101  a probe is made of events, never sent as one
    return event


def _is_final(end: Exit) -> bool:
    """Whether the same would happen again: a hang, or memory."""
    return end.timed_out or _ran_out_of_memory(end)


def _ran_out_of_memory(end: Exit) -> bool:
    """Killed for it by the kernel, or ended by a failed allocation that nothing could catch (in another thread)."""
    last = end.stderr_tail.strip()[-_LAST_WORDS:]
    return end.oom_killed or (end.status != 0 and any(mark in last for mark in ("std::bad_alloc", "MemoryError")))


def _fallen(turn: Turn, assignment: Assignment, end: Exit, where: str) -> Skipped:
    state, reason, remedy = _cause(end, where)
    return Skipped(point=turn.point, launch=assignment.launch, state=state, reason=reason, remedy=remedy)


def _cause(end: Exit, where: str) -> tuple[PointState, str, str]:
    if _ran_out_of_memory(end):
        reason = f"the measuring process ended {where}: out of memory."
        return PointState.OOM, reason, "Try a smaller size or a device with more memory."
    if end.timed_out:
        reason = f"the measuring process did not answer in time {where}."
        return PointState.TIMEOUT, reason, "Raise --budget, or check whether the time depends on an input's value."
    last = end.stderr_tail.strip().splitlines()[-1:] or ["no message"]
    reason = f"the measuring process died {where} ({_how(end.status)}): {printable(last[0])}"
    return PointState.CRASHED, reason, "Try another runtime version, or report the model to ONNX Runtime."


def _how(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
