"""Requirement tiers, and what was measured here, as JSON and as a table."""

from collections.abc import Sequence
from math import isfinite
from typing import Any

from onnxdyno.domain.axes import describe
from onnxdyno.domain.findings import Findings, MeasuredHere, Tier
from onnxdyno.reporting import units
from onnxdyno.reporting.grid import Cell, Column, Grid

_NS_PER_MS = 1e6
_HERE = "measured here"
_SHOWN = {True: "measured: meets", False: "measured: does not meet", None: "measured"}


def tier_document(tier: Tier) -> dict[str, Any]:
    """One tier; a null has its reason. Schema: `tier` in docs/schema/bench.schema.json."""
    latency = tier.latency_ns
    value_ms, low_ms, high_ms = _ms(latency.value), _ms(latency.low), _ms(latency.high)
    interval = None if low_ms is None or high_ms is None else [low_ms, high_ms]
    unpriced = "no dated price of it was given"
    nulls = {
        "device_id": (tier.device_id, tier.reason),
        "device_name": (tier.device_name, tier.reason),
        "memory_bytes": (tier.memory_bytes, tier.reason),
        "needed_bytes": (tier.needed_bytes, tier.reason),
        "latency_ms": (value_ms, latency.reason or tier.reason),
        "latency_interval_ms": (interval, latency.reason or tier.reason),
        "probability": (tier.probability, "nothing is claimed of speed"),
        "price": (tier.price, unpriced),
        "price_currency": (tier.price_currency, unpriced),
        "price_date": (tier.price_date, unpriced),
    }
    return {
        "tier": tier.tier,
        **{name: value for name, (value, _) in nulls.items()},
        "axes": dict(tier.sizes),
        "basis": tier.basis,
        "reason": tier.reason,
        "evidence": tier.evidence,
        "ordered_by": tier.order,
        "ties": list(tier.ties),
        "reasons": {name: why for name, (value, why) in nulls.items() if value is None},
    }


def here_document(here: MeasuredHere) -> dict[str, Any]:
    """One device that was measured; a null has its reason. Schema: `measured_here` in docs/schema/bench.schema.json."""
    latency = here.latency_ns
    value_ms, low_ms, high_ms = _ms(latency.value), _ms(latency.low), _ms(latency.high)
    unread = "its memory was not read"
    nulls = {
        "device_memory_bytes": (here.device_memory_bytes, unread),
        "state": (here.state, here.reason),
        "latency_ms": (value_ms, latency.reason or here.reason),
        "latency_interval_ms": (
            None if low_ms is None or high_ms is None else [low_ms, high_ms],
            latency.reason or here.reason,
        ),
        "meets": (here.meets, here.reason),
        "peak_memory_bytes": (here.peak_memory_bytes, here.peak_memory_reason or unread),
    }
    return {
        "run_id": here.run_id,
        "device_name": here.device_name,
        "device_kind": here.device_kind,
        "threads": here.threads,
        "axes": dict(here.sizes),
        "reason": here.reason,
        **{name: value for name, (value, _) in nulls.items()},
        "reasons": {name: why for name, (value, why) in nulls.items() if value is None},
    }


def heres(findings: Findings) -> tuple[MeasuredHere, ...]:
    """The device of the run, where it stands beside its tiers."""
    return () if findings.here is None else (findings.here,)


def here_line(here: MeasuredHere) -> tuple[str, str]:
    """A label and a sentence."""
    return _HERE, f"{_device(here)}: {here.reason}. Evidence: run {here.run_id}; nothing is said of any other device"


def tiers_grid(tiers: Sequence[Tier], here: Sequence[MeasuredHere] = ()) -> Grid:
    """Minimum, recommended, optimal, then what was measured here; an abstention is a dash with its reason."""
    latencies = [*(tier.latency_ns for tier in tiers), *(each.latency_ns for each in here)]
    unit = units.latency_unit([each.high or each.value for each in latencies])
    columns = (
        Column(title="tier"),
        Column(title="device"),
        Column(title="has", is_number=True, is_minor=True),
        Column(title="needs", is_number=True),
        Column(title="for", is_minor=True),
        Column(title=f"a call {unit.name}", is_number=True),
        Column(title="up to", is_number=True),
        Column(title="rests on"),
        Column(title="why"),
    )
    rows = (*(_row(tier, unit) for tier in tiers), *(_here_row(each, unit) for each in here))
    return Grid(title="Requirements", columns=columns, rows=rows)


def _row(tier: Tier, unit: units.Unit) -> tuple[Cell, ...]:
    latency = tier.latency_ns
    told = latency.reason or tier.reason
    none = None if tier.device_id else tier.reason
    return (
        Cell(text=tier.tier),
        Cell(text=tier.device_name or units.MISSING, reason=none),
        Cell(text=units.size(tier.memory_bytes), reason=None if tier.memory_bytes else tier.reason),
        Cell(text=units.size(tier.needed_bytes), reason=None if tier.needed_bytes else tier.reason),
        Cell(text=describe(tier.sizes) if tier.needed_bytes else units.MISSING, reason=none),
        Cell(text=units.number(latency.value, unit), reason=None if latency.value is not None else told),
        Cell(text=units.number(latency.high, unit), reason=None if latency.high is not None else told),
        Cell(text=tier.basis if tier.device_id else units.MISSING, reason=none),
        Cell(text=tier.reason),
    )


def _here_row(here: MeasuredHere, unit: units.Unit) -> tuple[Cell, ...]:
    latency = here.latency_ns
    told = latency.reason or here.reason
    unread = None if here.peak_memory_bytes else here.peak_memory_reason or here.reason
    return (
        Cell(text=_HERE),
        Cell(text=_device(here)),
        Cell(text=units.size(here.device_memory_bytes), reason=None if here.device_memory_bytes else here.reason),
        Cell(text=units.size(here.peak_memory_bytes), reason=unread),
        Cell(text=describe(here.sizes)),
        Cell(text=units.number(latency.value, unit), reason=None if latency.value is not None else told),
        Cell(text=units.number(latency.high, unit), reason=None if latency.high is not None else told),
        Cell(text=_SHOWN[here.meets]) if latency.value is not None else Cell(text=units.MISSING, reason=here.reason),
        Cell(text=here.reason),
    )


def _device(here: MeasuredHere) -> str:
    if here.device_kind != "cpu":
        return here.device_name
    return f"{here.device_name}, {here.threads} thread{'s' if here.threads > 1 else ''}"


def _ms(value_ns: float | None) -> float | None:
    return None if value_ns is None or not isfinite(value_ns) else float(f"{value_ns / _NS_PER_MS:.8g}")
