"""Which of several devices is the least: by dated prices where there are any, else by a stated order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from onnxdyno.analysis.requirements.records import Standing
from onnxdyno.hardware.lookup import Catalogue
from onnxdyno.hardware.records import Accelerator

BY_RATES = "least memory bandwidth, then least memory, then least fp32 peak"


@dataclass(frozen=True, slots=True, kw_only=True)
class Least:
    """The least of several, by what, and those that the order does not tell apart from it."""

    standing: Standing
    order: str
    ties: tuple[str, ...]


def least(standings: Sequence[Standing], catalogue: Catalogue) -> Least | None:
    """The least device; None of none. Prices count only with a date and in one currency; launch prices have no date."""
    if not standings:
        return None
    priced = [each for each in standings if catalogue.price_of(each.device.id) is not None]
    currencies = {price.currency for each in priced if (price := catalogue.price_of(each.device.id)) is not None}
    if len(currencies) == 1:
        unpriced = len(standings) - len(priced)
        aside = f"; {unpriced} without a price left aside" if unpriced else ""
        return _first(priced, lambda device: (_amount(catalogue, device),), f"least price ({min(currencies)}){aside}")
    why = f" (prices in {', '.join(sorted(currencies))} are not compared)" if currencies else " (no dated prices)"
    return _first(standings, _rates, BY_RATES + why)


def _first(standings: Sequence[Standing], key: Callable[[Accelerator], tuple[Any, ...]], order: str) -> Least:
    chosen = min(standings, key=lambda each: (*key(each.device), each.device.id))
    same = [each.device.id for each in standings if each is not chosen and key(each.device) == key(chosen.device)]
    return Least(standing=chosen, order=order, ties=tuple(same))


def _rates(device: Accelerator) -> tuple[float, int, float]:
    return device.memory_bytes_per_s, device.memory_bytes, device.fp32_flop_per_s


def _amount(catalogue: Catalogue, device: Accelerator) -> float:
    price = catalogue.price_of(device.id)
    return float("inf") if price is None else price.amount
