"""Requirement tiers as JSON and as a table."""

from collections.abc import Sequence
from math import isfinite
from typing import Any

from onnxdyno.domain.axes import describe
from onnxdyno.domain.findings import Tier
from onnxdyno.reporting import units
from onnxdyno.reporting.grid import Cell, Column, Grid

_NS_PER_MS = 1e6


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


def tiers_grid(tiers: Sequence[Tier]) -> Grid:
    """Minimum, recommended, optimal; an abstention is a dash with its reason."""
    unit = units.latency_unit([tier.latency_ns.high or tier.latency_ns.value for tier in tiers])
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
    return Grid(title="Requirements", columns=columns, rows=tuple(_row(tier, unit) for tier in tiers))


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


def _ms(value_ns: float | None) -> float | None:
    return None if value_ns is None or not isfinite(value_ns) else float(f"{value_ns / _NS_PER_MS:.8g}")
