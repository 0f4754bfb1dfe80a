"""The three tiers out of how devices stand. Pure; every answer says by what, from what, and how sure it is."""

from collections.abc import Sequence

from onnxdyno.analysis.requirements.ordering import Least, least
from onnxdyno.analysis.requirements.records import Aim, Goal, Load, Standing
from onnxdyno.domain.findings import Tier
from onnxdyno.domain.numbers import plain

_MOST_NAMED = 3


def minimum(load: Load, standings: Sequence[Standing], goal: Goal) -> Tier:
    """The least device that holds the load's memory upper bound and keeps the latency bound, if one was given."""
    holding, why_not = _holding(standings)
    if not holding:
        return abstention("minimum", load, standings, why_not)
    if goal.bound_ns is None:
        return _tier(
            "minimum", load, least(holding, goal.catalogue), goal, "holds it; speed had no part", is_fast=False
        )
    quick = [each for each in holding if each.meets(goal.bound_ns)]
    asked = f"a call within {_ms(goal.bound_ns)}"
    if not quick:
        return abstention("minimum", load, standings, f"no device is shown to keep {asked}: {_nearest(holding)}")
    return _tier("minimum", load, least(quick, goal.catalogue), goal, f"holds it and keeps {asked}", is_fast=True)


def recommended(load: Load, standings: Sequence[Standing], goal: Goal) -> Tier:
    """The least device that holds the load and meets the target with the upper end of its interval."""
    holding, why_not = _holding(standings)
    if not holding:
        return abstention("recommended", load, standings, why_not)
    target = goal.target
    if target is None:
        said = "holds this point; no target was given, so it is chosen by memory alone and nothing is claimed of speed"
        return _tier("recommended", load, least(holding, goal.catalogue), goal, said, is_fast=False)
    meeting = [each for each in holding if each.meets(target.most_ns)]
    asked = target.told
    if not meeting:
        return abstention("recommended", load, standings, f"no device is shown to meet {asked}: {_nearest(holding)}")
    return _tier("recommended", load, least(meeting, goal.catalogue), goal, f"meets {asked}", is_fast=True)


def optimal(load: Load, standings: Sequence[Standing], goal: Goal) -> Tier:
    """The single device with the best expected value of the aim; those whose interval reaches it are ties."""
    holding, why_not = _holding(standings)
    if not holding:
        return abstention("optimal", load, standings, why_not)
    timed = [each for each in holding if each.latency_ns.value is not None]
    if not timed:
        return abstention("optimal", load, standings, f"speed is not known: {holding[0].latency_ns.reason}")
    scored = [(score, each) for each in timed if (score := _score(each, load, goal)) is not None]
    if not scored:
        return abstention("optimal", load, standings, _LACKING[goal.aim])
    best_score, best = max(scored, key=lambda pair: (pair[0], pair[1].device.id))
    low = best_score * (best.latency_ns.value or 1) / (best.latency_ns.high or best.latency_ns.value or 1)
    rivals = sorted(
        (pair for pair in scored if pair[1] is not best and _most(pair[0], pair[1]) >= low),
        key=lambda pair: -pair[0],
    )
    found = Least(standing=best, order=_ORDERS[goal.aim], ties=tuple(each.device.id for _, each in rivals))
    aside = len(timed) - len(scored)
    said = f"best expected {_UNITS[goal.aim]} of {len(scored)}: {plain(_shown(best_score, goal.aim))}"
    return _tier("optimal", load, found, goal, said + (f"; {aside} left aside" if aside else ""), is_fast=True)


def abstention(name: str, load: Load, standings: Sequence[Standing], reason: str) -> Tier:
    """No device, and why; what is needed stays where it is known."""
    needed = [each.needed_bytes for each in standings if each.needed_bytes is not None]
    return Tier(
        tier=name,
        device_id=None,
        device_name=None,
        memory_bytes=None,
        needed_bytes=max(needed, default=None),
        sizes=load.sizes,
        basis="memory",
        reason=reason,
        evidence=load.evidence,
    )


_ORDERS = {
    Aim.THROUGHPUT: "most items per second at this point",
    Aim.LATENCY: "least latency at this point",
    Aim.PRICE: "most items per second per price, by dated prices",
    Aim.WATT: "most items per second per watt of board power",
}
_UNITS = {
    Aim.THROUGHPUT: "items/s",
    Aim.LATENCY: "latency in ms",
    Aim.PRICE: "items/s per unit of price",
    Aim.WATT: "items/s per watt",
}
_LACKING = {
    Aim.THROUGHPUT: "no throughput is known",
    Aim.LATENCY: "no latency is known",
    Aim.PRICE: "no device has a dated price in one currency. Give them with --devices",
    Aim.WATT: "no board power is known",
}


def _score(standing: Standing, load: Load, goal: Goal) -> float | None:
    """Larger is better; proportional to calls per second."""
    calls_per_s = 1e9 / (standing.latency_ns.value or 1.0)
    if goal.aim is Aim.LATENCY:
        return calls_per_s
    items_per_s = load.items * calls_per_s
    if goal.aim is Aim.THROUGHPUT:
        return items_per_s
    if goal.aim is Aim.WATT:
        return None if standing.device.tdp_w is None else items_per_s / standing.device.tdp_w
    price = goal.catalogue.price_of(standing.device.id)
    if price is None or len({each.currency for each in goal.catalogue.prices}) > 1:
        return None
    return items_per_s / price.amount


def _most(score: float, standing: Standing) -> float:
    latency = standing.latency_ns
    return score * (latency.value or 1.0) / (latency.low or latency.value or 1.0)


def _shown(score: float, aim: Aim) -> float:
    return 1e3 / score if aim is Aim.LATENCY else score


def _tier(name: str, load: Load, found: Least | None, goal: Goal, said: str, *, is_fast: bool) -> Tier:
    if found is None:
        raise AssertionError("the least of none was asked")
    standing, device = found.standing, found.standing.device
    price = goal.catalogue.price_of(device.id)
    sure = "" if standing.probability is None else f", probability at least {standing.probability:.0%}"
    speed = f"; {_interval(standing)}{sure if name != 'optimal' else ''} ({standing.basis})" if is_fast else ""
    return Tier(
        tier=name,
        device_id=device.id,
        device_name=device.name,
        memory_bytes=device.memory_bytes,
        needed_bytes=standing.needed_bytes,
        sizes=load.sizes,
        basis=standing.basis if is_fast else "memory",
        reason=f"{said}; by {found.order}{_tied(found.ties)}{speed}; {standing.memory_reason}",
        evidence=standing.evidence or load.evidence,
        latency_ns=standing.latency_ns,
        probability=standing.probability if is_fast and name != "optimal" else None,
        order=found.order,
        price=None if price is None else price.amount,
        price_currency=None if price is None else price.currency,
        price_date=None if price is None else price.date,
        ties=found.ties,
    )


def _holding(standings: Sequence[Standing]) -> tuple[list[Standing], str]:
    """Devices whose memory suffices; where there are none, why."""
    holding = [each for each in standings if each.holds]
    if not standings:
        return holding, "no supported device of these markets is in the catalogue"
    known = [each for each in standings if each.needed_bytes is not None]
    if not known:
        return holding, standings[0].memory_reason
    return holding, f"no single supported device of these markets holds it; {known[0].memory_reason}"


def _nearest(holding: Sequence[Standing]) -> str:
    timed = [each for each in holding if each.latency_ns.high is not None]
    if not timed:
        return f"no latency is known ({holding[0].latency_ns.reason})"
    best = min(timed, key=lambda each: each.latency_ns.high or 0.0)
    return f"the nearest, {best.device.id}, has {_interval(best)}"


def _interval(standing: Standing) -> str:
    latency = standing.latency_ns
    if latency.value is None:
        return f"latency unknown ({latency.reason})"
    if latency.low is None or latency.high is None:
        return f"{_ms(latency.value)} a call, no interval"
    return f"{_ms(latency.value)} a call, up to {_ms(latency.high)}"


def _tied(ties: Sequence[str]) -> str:
    if not ties:
        return ""
    more = f" and {len(ties) - _MOST_NAMED} more" if len(ties) > _MOST_NAMED else ""
    return f", not told apart from {', '.join(ties[:_MOST_NAMED])}{more}"


def _ms(value_ns: float) -> str:
    return f"{plain(value_ns / 1e6)} ms"
