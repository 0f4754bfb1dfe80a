"""Which device a model needs, as JSON and as lines. Schema: docs/schema/requirements.schema.json."""

from dataclasses import dataclass
from typing import Any

from onnxdyno.analysis.requirements.cloud import CostAnswer, InstanceAnswer
from onnxdyno.analysis.requirements.resolutions import ResolutionAnswer
from onnxdyno.domain.axes import describe
from onnxdyno.domain.findings import Estimate, MeasuredHere, Tier
from onnxdyno.domain.numbers import plain
from onnxdyno.reporting.documents import FORMAT, Document
from onnxdyno.reporting.tiers import here_document, here_line, tier_document

_NS_PER_MS = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Everything that is told of one model."""

    name: str
    sources: tuple[str, ...]
    dtype: str
    tiers: tuple[Tier, ...]
    instance: InstanceAnswer
    cost: CostAnswer
    resolution: ResolutionAnswer | None
    measured_here: tuple[MeasuredHere, ...] = ()


def requirements_document(answers: Answers) -> Document:
    """Tiers, what was measured on runs' own devices, instance, cost, where asked resolution; a null has its reason."""
    reasons = {"resolution": "no device was named for it (--on)"} if answers.resolution is None else {}
    if not answers.measured_here:
        reasons["measured_here"] = "no run was given (--run)"
    return {
        "format": FORMAT,
        "model": answers.name,
        "sources": list(answers.sources),
        "dtype": answers.dtype,
        "requirements": [tier_document(tier) for tier in answers.tiers],
        "measured_here": [here_document(each) for each in answers.measured_here],
        "instance": _instance(answers.instance),
        "cost_per_million_items": _cost(answers.cost),
        "resolution": None if answers.resolution is None else _resolution(answers.resolution),
        "reasons": reasons,
    }


def more_lines(answers: Answers) -> list[tuple[str, str]]:
    """What is beside the tiers, a labelled sentence each."""
    return [
        *((tier.tier, f"{tier.reason}. Evidence: {tier.evidence}") for tier in answers.tiers),
        *(here_line(each) for each in answers.measured_here),
        ("instance", _instance_line(answers.instance)),
        ("cost", _cost_line(answers.cost)),
        *([("resolution", _resolution_line(answers.resolution))] if answers.resolution is not None else []),
    ]


def _instance(answer: InstanceAnswer) -> Document:
    found = answer.instance
    unpriced = None if found is None or found.on_demand_usd_per_hour is not None else "no dated price of it is known"
    values: dict[str, Any] = {
        "cloud": found and found.cloud,
        "name": found and found.name,
        "accelerator_id": found and found.accelerator_id,
        "usd_per_hour": found and found.on_demand_usd_per_hour,
        "price_region_and_date": found and found.price_region_and_date,
        "price_source": found and found.source,
    }
    reasons = {name: unpriced or answer.reason for name, value in values.items() if value is None}
    return {**values, "ordered_by": answer.order, "reason": answer.reason, "reasons": reasons}


def _cost(answer: CostAnswer) -> Document:
    found, usd = answer.instance, answer.usd_per_million
    interval = None if usd.low is None or usd.high is None else [_short(usd.low), _short(usd.high)]
    values: dict[str, Any] = {
        "usd": None if usd.value is None else _short(usd.value),
        "interval_usd": interval,
        "instance": found and found.name,
        "price_region_and_date": found and found.price_region_and_date,
        "price_source": found and found.source,
    }
    told = usd.reason or "not known"
    return {**values, "reasons": {name: told for name, value in values.items() if value is None}}


def _resolution(answer: ResolutionAnswer) -> Document:
    axes = None if answer.load is None else dict(answer.load.sizes)
    latency = answer.latency_ns
    values: dict[str, Any] = {
        "axes": axes,
        "latency_ms": None if latency.value is None else _short(latency.value / _NS_PER_MS),
        "latency_interval_ms": _interval(latency),
    }
    reasons = {name: answer.reason for name, value in values.items() if value is None}
    return {"device_id": answer.device_id, **values, "reason": answer.reason, "reasons": reasons}


def _interval(latency: Estimate) -> list[float] | None:
    if latency.low is None or latency.high is None:
        return None
    return [_short(latency.low / _NS_PER_MS), _short(latency.high / _NS_PER_MS)]


def _instance_line(answer: InstanceAnswer) -> str:
    found = answer.instance
    if found is None:
        return f"none: {answer.reason}"
    price = "" if found.on_demand_usd_per_hour is None else f", {plain(found.on_demand_usd_per_hour)} USD an hour"
    return f"{found.cloud} {found.name} ({found.accelerator_id}){price}; {answer.order}; {answer.reason}"


def _cost_line(answer: CostAnswer) -> str:
    usd, found = answer.usd_per_million, answer.instance
    if usd.value is None or found is None:
        return f"unknown: {usd.reason}"
    ends = "" if usd.low is None or usd.high is None else f", {plain(usd.low, 3)} to {plain(usd.high, 3)}"
    return f"{plain(usd.value, 3)} USD a million items{ends}, on {found.cloud} {found.name}; {usd.reason}"


def _resolution_line(answer: ResolutionAnswer) -> str:
    if answer.load is None:
        return f"none on {answer.device_id}: {answer.reason}"
    return f"{describe(answer.load.sizes)} on {answer.device_id}: {answer.reason}"


def _short(value: float) -> float:
    return float(f"{value:.8g}")
