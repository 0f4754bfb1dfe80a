"""Cloud instances with one GPU: the smallest that suffices, and what a million items cost by dated prices."""

from collections.abc import Sequence
from dataclasses import dataclass

from onnxdyno.analysis.requirements.records import Goal, Load, Standing
from onnxdyno.analysis.requirements.standings import standings
from onnxdyno.domain.findings import Estimate
from onnxdyno.hardware.catalogue import is_supported
from onnxdyno.hardware.records import Instance

_MILLION, _S_PER_HOUR, _NS = 1e6, 3600.0, 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceAnswer:
    """One instance type, by what it was chosen, and how its GPU stands; None has a reason."""

    instance: Instance | None
    order: str
    reason: str
    standing: Standing | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostAnswer:
    """USD for a million items on one instance type, with the interval of its latency; None has a reason."""

    usd_per_million: Estimate
    instance: Instance | None = None


def smallest_instance(load: Load, goal: Goal) -> InstanceAnswer:
    """Least price an hour among types with one whole GPU that holds the load and meets the target; else least vCPUs.

    Shares of a GPU are left aside: what they leave of its rates is not known.
    """
    found = _sufficing(load, goal)
    if not found:
        what = "holds the load" if goal.target is None else "is shown to hold the load and meet the target"
        return InstanceAnswer(instance=None, order="", reason=f"no instance type with one GPU {what}")
    priced = [pair for pair in found if pair[0].on_demand_usd_per_hour is not None]
    if priced:
        instance, standing = min(priced, key=lambda pair: (pair[0].on_demand_usd_per_hour or 0.0, pair[0].name))
        order = f"least on-demand price of {len(priced)} types; {len(found) - len(priced)} without a price left aside"
        return InstanceAnswer(instance=instance, order=order, reason=_dated(instance), standing=standing)
    instance, standing = min(found, key=lambda pair: (pair[0].vcpus or 10**6, pair[0].name))
    return InstanceAnswer(instance=instance, order="fewest vCPUs (no dated prices)", reason="", standing=standing)


def cost_per_million(load: Load, goal: Goal) -> CostAnswer:
    """The least expected cost of a million items among the priced types that suffice, one call after the other."""
    costs = [
        (instance.on_demand_usd_per_hour * standing.latency_ns.value, instance, standing)
        for instance, standing in _sufficing(load, goal)
        if instance.on_demand_usd_per_hour is not None and standing.latency_ns.value is not None
    ]
    if not costs:
        return CostAnswer(
            usd_per_million=Estimate(value=None, reason="no type that suffices has a price and a latency")
        )
    _, instance, standing = min(costs, key=lambda each: (each[0], each[1].name))
    scale = (instance.on_demand_usd_per_hour or 0.0) / _S_PER_HOUR / _NS / load.items * _MILLION
    latency = standing.latency_ns
    low, high = (None if end is None else end * scale for end in (latency.low, latency.high))
    value = (latency.value or 0.0) * scale
    return CostAnswer(
        usd_per_million=Estimate(value=value, low=low, high=high, reason=_dated(instance)), instance=instance
    )


def _sufficing(load: Load, goal: Goal) -> list[tuple[Instance, Standing]]:
    used = {each.accelerator_id for each in goal.catalogue.instances}
    devices = [each for each in goal.catalogue.accelerators if each.id in used and is_supported(each)]
    by_id = {each.device.id: each for each in _meeting(standings(load, devices, goal), goal)}
    return [
        (each, by_id[each.accelerator_id])
        for each in goal.catalogue.instances
        if 1.0 in each.accelerator_counts and each.accelerator_id in by_id
    ]


def _meeting(found: Sequence[Standing], goal: Goal) -> list[Standing]:
    target = goal.target
    return [each for each in found if each.holds and (target is None or each.meets(target.most_ns))]


def _dated(instance: Instance) -> str:
    return f"price: {instance.price_region_and_date}; source: {instance.source}"
