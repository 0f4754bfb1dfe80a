"""Calls of micro-models -> ceilings: what a call costs beside its nodes, and a node beside its work, taken off."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean

from onnxdyno.domain.ceilings import Ceiling, CeilingKey, CeilingKind, CeilingReading, MicroOutcome
from onnxdyno.domain.devices import DeviceKind
from onnxdyno.domain.micros import PINNED, Micro
from onnxdyno.domain.outcomes import PointState, Skipped
from onnxdyno.intervals import t_interval

LEAST_OF_DISPATCH = 2.0
"""How many dispatches a node must last for its rate to be told from them."""
_NO_LINK = "a CPU computes in the host's memory: nothing is copied"
_LASTING = frozenset({PointState.UNSUPPORTED, PointState.NOT_APPLICABLE})
"""Answers that the same runtime gives on the same device whenever it is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Heard:
    """Of all launches: calls by micro-model, and what was said of those without one."""

    seen: list[dict[str, float]]
    said: dict[str, Skipped]


def ceilings_from(known: Sequence[Micro], launches: Sequence[Sequence[MicroOutcome]]) -> tuple[Ceiling, ...]:
    """One ceiling for each label (and working set), over launches; the interval is of its logarithm."""
    groups: dict[CeilingKey, list[Micro]] = {}
    for micro in known:
        groups.setdefault(micro.key, []).append(micro)
    seen = [{each.micro: each.call_ns for each in one if isinstance(each, CeilingReading)} for one in launches]
    said = {
        known[place].name: each
        for one in launches
        for each in one
        if isinstance(each, Skipped)
        for _, place in each.point.sizes
    }
    tiny = groups.get((CeilingKind.DISPATCH, "node", None), [])
    heard = _Heard(seen=seen, said=said)
    return tuple(_ceiling(group, () if group[0].label == PINNED else tiny, heard) for group in groups.values())


def links(kind: DeviceKind) -> tuple[Ceiling, ...]:
    """Host to device and back, where there is nothing between them; else nothing, as they are measured."""
    if kind is not DeviceKind.CPU:
        return ()
    return tuple(
        Ceiling(kind=each, label=PINNED, value=None, reason=_NO_LINK, is_lasting=True)
        for each in (CeilingKind.H2D, CeilingKind.D2H)
    )


def lacking(known: Sequence[Micro], entries: Sequence[Ceiling]) -> tuple[CeilingKey, ...]:
    """Of the ceilings that these micro-models tell, those that the entries lack, or have null for a passing cause."""
    stand = {each.key for each in entries if each.value is not None or each.is_lasting}
    return tuple(dict.fromkeys(micro.key for micro in known if micro.key not in stand))


def merged(entries: Sequence[Ceiling], again: Sequence[Ceiling], keys: Sequence[CeilingKey]) -> tuple[Ceiling, ...]:
    """`again`, which has every entry, where it was asked for (`keys`) or nothing stood before; else what stood."""
    kept = {each.key: each for each in entries if each.key not in keys}
    return tuple(kept.get(each.key, each) for each in again)


def _ceiling(group: Sequence[Micro], tiny: Sequence[Micro], heard: _Heard) -> Ceiling:
    first = group[0]
    found = [_value(group, tiny, calls_ns) for calls_ns in heard.seen]
    values = [value for value, _ in found if value is not None]
    whys = [why for _, why in found if why is not None]
    reason = whys[0] if whys else None
    interval = t_interval([log(value) for value in values])
    unheard = next((heard.said[micro.name] for micro in group if micro.name in heard.said), None)
    is_lasting = unheard.state in _LASTING if unheard else len(whys) == len(found) > 0
    if len(values) < len(heard.seen) or not values:
        reason = unheard.reason if unheard else reason or "it was not measured in every launch"
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
        is_lasting=not values and is_lasting and first.kind is not CeilingKind.DISPATCH,
    )


def _value(
    group: Sequence[Micro], tiny: Sequence[Micro], calls_ns: dict[str, float]
) -> tuple[float | None, str | None]:
    """The ceiling of one launch in the unit of its kind, or why there is none."""
    if any(micro.name not in calls_ns for micro in (*group, *tiny)):
        return None, None
    if not tiny:
        return group[0].work / (calls_ns[group[0].name] / 1e9), None
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
