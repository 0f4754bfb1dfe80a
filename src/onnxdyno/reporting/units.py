"""Numbers for people: one unit per column, four significant digits, a dash for what is missing."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite

from onnxdyno.domain.findings import Estimate
from onnxdyno.domain.numbers import decimals

MISSING = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A unit of display and how many inner units (ns, bytes, items/s, mJ) it holds."""

    name: str
    size: float


MICROSECONDS = Unit(name="µs", size=1e3)
MILLISECONDS = Unit(name="ms", size=1e6)
SECONDS = Unit(name="s", size=1e9)
KIB = Unit(name="KiB", size=2.0**10)
MIB = Unit(name="MiB", size=2.0**20)
GIB = Unit(name="GiB", size=2.0**30)
ITEMS_PER_S = Unit(name="items/s", size=1.0)
MILLIJOULES = Unit(name="mJ", size=1.0)
JOULES = Unit(name="J", size=1e3)


def latency_unit(values_ns: Iterable[float | None]) -> Unit:
    """The unit for a whole column: µs while all are below 1 ms, s once all are above 1 s, else ms."""
    known = finite(values_ns)
    if known and max(known) < MILLISECONDS.size:
        return MICROSECONDS
    return SECONDS if known and min(known) >= SECONDS.size else MILLISECONDS


def memory_unit(values_bytes: Iterable[float | None]) -> Unit:
    """GiB once all are above 1 GiB, else MiB."""
    known = finite(values_bytes)
    return GIB if known and min(known) >= GIB.size else MIB


def energy_unit(values_mj: Iterable[float | None]) -> Unit:
    """J once all are above 1 J, else mJ."""
    known = finite(values_mj)
    return JOULES if known and min(known) >= JOULES.size else MILLIJOULES


def finite(values: Iterable[float | None]) -> list[float]:
    """The values that are numbers."""
    return [value for value in values if value is not None and isfinite(value)]


def number(value: float | None, unit: Unit, significant: int = 4) -> str:
    """`12.31`, `1,234`, or a dash; the unit stands in the column's title."""
    if value is None or not isfinite(value):
        return MISSING
    shown = value / unit.size
    return f"{shown:,.{decimals(shown, significant)}f}"


def with_interval(estimate: Estimate, unit: Unit) -> str:
    """`12.31 ± 0.05`: the value and the longer arm of its interval; the value alone without an interval."""
    text = number(estimate.value, unit)
    half = half_width(estimate)
    if half is None or text == MISSING:
        return text
    shown = half / unit.size
    places = decimals((estimate.value or 0.0) / unit.size)
    if 0 < shown < 0.5 * 10**-places:
        places = min(decimals(shown, 1), places + 2)
        text = f"{(estimate.value or 0.0) / unit.size:,.{places}f}"
    return f"{text} ± {shown:,.{places}f}"


def half_width(estimate: Estimate) -> float | None:
    """The longer arm of the interval, in the estimate's own unit."""
    value, low, high = estimate.value, estimate.low, estimate.high
    if value is None or low is None or high is None or not all(map(isfinite, (value, low, high))):
        return None
    return max(high - value, value - low)


def size(size_bytes: int | None) -> str:
    """`12.3 MiB` with its unit, for running text."""
    unit = KIB if size_bytes is not None and size_bytes < MIB.size else memory_unit([size_bytes])
    return MISSING if size_bytes is None else f"{number(size_bytes, unit, 3)} {unit.name}"


def flops(count: int) -> str:
    """`1.002 GFLOPs`, four digits, powers of 1,000."""
    for name, size in (("TFLOPs", 1e12), ("GFLOPs", 1e9), ("MFLOPs", 1e6), ("kFLOPs", 1e3)):
        if count >= size:
            return f"{count / size:.4g} {name}"
    return f"{count} FLOPs"


def latency(value_ns: float | None) -> str:
    """`12.31 ms` with its unit, for running text."""
    unit = latency_unit([value_ns])
    return MISSING if value_ns is None else f"{number(value_ns, unit)} {unit.name}"


def count(value: int | None) -> str:
    """`3,157,184`."""
    return MISSING if value is None else f"{value:,}"


def percent(share: float | None) -> str:
    """`12.3 %`."""
    return MISSING if share is None or not isfinite(share) else f"{100 * share:.1f} %"
