"""Device time beside the clock: how many calls, and whether the two agree."""

from collections.abc import Sequence
from statistics import median

from onnxdyno.domain.assignments import Turn
from onnxdyno.domain.outcomes import Flag
from onnxdyno.domain.plan import Protocol

_SHARE = 10
"""Of a turn's budget, what the calls between events may take: one part in so many."""


def events_for(protocol: Protocol, turn: Turn, samples_ns: Sequence[int]) -> int:
    """How many calls are timed by events once more: fewer at a slow point, at least two."""
    affordable = turn.budget_ns // _SHARE // max(1, round(median(samples_ns)))
    return max(2, min(protocol.event_runs, affordable))


def flags_of_events(samples_ns: Sequence[int], device_ns: Sequence[int], protocol: Protocol) -> tuple[Flag, ...]:
    """Whether clock and events tell the same. An event before the first kernel of a call lies after its submission.

    Far less on the clock: it did not wait for the device. Far more: the host, not the device, is what is measured.
    """
    if not device_ns:
        return ()
    on_clock, by_events = median(samples_ns), median(device_ns)
    bound = protocol.event_tolerance * on_clock + protocol.event_slack_ns
    return (Flag.EVENTS_DISAGREE,) if abs(on_clock - by_events) > bound else ()
