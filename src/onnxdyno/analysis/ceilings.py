"""Calls of micro-models -> ceilings: what a call costs beside its nodes, and a node beside its work, taken off."""

from collections.abc import Sequence
from math import exp, log
from statistics import fmean

from onnxdyno.domain.ceilings import Ceiling, CeilingKind, CeilingReading, MicroOutcome
from onnxdyno.domain.devices import DeviceKind
from onnxdyno.domain.micros import Micro
from onnxdyno.domain.outcomes import Skipped
from onnxdyno.intervals import t_interval

LEAST_OF_DISPATCH = 2.0
"""How many dispatches a node must last for its rate to be told from them."""
_NO_LINK = "a CPU computes in the host's memory: nothing is copied"
_NO_COPIES = "copies are timed with each model (variant device), not here"


def ceilings_from(known: Sequence[Micro], launches: Sequence[Sequence[MicroOutcome]]) -> tuple[Ceiling, ...]:
    """One ceiling for each label (and working set), over launches; the interval is of its logarithm."""
    groups: dict[tuple[CeilingKind, str, int | None], list[Micro]] = {}
    for micro in known:
        groups.setdefault((micro.kind, micro.label, micro.working_bytes), []).append(micro)
    seen = [{each.micro: each.call_ns for each in one if isinstance(each, CeilingReading)} for one in launches]
    said = {
        known[place].name: each.reason
        for one in launches
        for each in one
        if isinstance(each, Skipped)
        for _, place in each.point.sizes
    }
    tiny = groups.get((CeilingKind.DISPATCH, "node", None), [])
    return tuple(_ceiling(group, tiny, seen, said) for group in groups.values())


def links(kind: DeviceKind) -> tuple[Ceiling, ...]:
    """Host to device and back."""
    reason = _NO_LINK if kind is DeviceKind.CPU else _NO_COPIES
    return tuple(
        Ceiling(kind=each, label="pinned", value=None, reason=reason) for each in (CeilingKind.H2D, CeilingKind.D2H)
    )


def _ceiling(
    group: Sequence[Micro], tiny: Sequence[Micro], seen: Sequence[dict[str, float]], said: dict[str, str]
) -> Ceiling:
    first = group[0]
    values, reason = [], None
    for calls_ns in seen:
        value, why = _value(group, tiny, calls_ns)
        reason = reason or why
        if value is not None:
            values.append(value)
    interval = t_interval([log(value) for value in values])
    unheard = next((said[micro.name] for micro in group if micro.name in said), None)
    if len(values) < len(seen) or not values:
        reason = unheard or reason or "it was not measured in every launch"
        values = []
    low, high = map(exp, interval) if interval is not None and values else (None, None)
    return Ceiling(
        kind=first.kind,
        label=first.label,
        value=exp(fmean(map(log, values))) if values else None,
        low=low,
        high=high,
        working_bytes=first.working_bytes,
        reason=None if values and interval is not None else reason or "one launch has no interval",
    )


def _value(
    group: Sequence[Micro], tiny: Sequence[Micro], calls_ns: dict[str, float]
) -> tuple[float | None, str | None]:
    """The ceiling of one launch in the unit of its kind, or why there is none."""
    if any(micro.name not in calls_ns for micro in (*group, *tiny)):
        return None, None
    dispatch_ns = _slope_ns(tiny, calls_ns)
    if group[0].kind is CeilingKind.DISPATCH:
        return (dispatch_ns, None) if dispatch_ns > 0 else (None, "longer chains took no longer")
    if len(group) == 2:
        node_ns, work = _slope_ns(group, calls_ns), group[1].work / group[1].nodes
    else:
        call_ns = calls_ns[tiny[0].name] - tiny[0].nodes * dispatch_ns
        node_ns, work = (calls_ns[group[0].name] - call_ns) / group[0].nodes, group[0].work / group[0].nodes
    if node_ns < LEAST_OF_DISPATCH * dispatch_ns:
        return None, f"a node takes {node_ns:,.0f} ns, of which its dispatch is {dispatch_ns:,.0f} ns"
    return work / ((node_ns - dispatch_ns) / 1e9), None


def _slope_ns(pair: Sequence[Micro], calls_ns: dict[str, float]) -> float:
    short, long = pair
    return (calls_ns[long.name] - calls_ns[short.name]) / (long.nodes - short.nodes)
