"""Scales, ticks and elements for small SVG charts. Coordinates in viewBox units; all text is escaped here."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from onnxdyno.reporting import safe

_LOG_SPAN = 100.0
_TEXT_WIDTH = 6.8
"""Width of a character of the tick labels, generously."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Maps [low, high] to [start, end]; logarithmic when `is_log` (low > 0)."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool

    def place(self, value: float) -> float:
        """The coordinate of a value, rounded to 0.1; values outside are held at the edge."""
        held = min(max(value, self.low), self.high)
        if self.high == self.low:
            share = 0.5
        elif self.is_log:
            share = (log10(held) - log10(self.low)) / (log10(self.high) - log10(self.low))
        else:
            share = (held - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)


def spans_decades(values: Sequence[float]) -> bool:
    """Whether a linear axis would hide the small values: they span more than two decades."""
    positive = [value for value in values if value > 0]
    return len(positive) == len(values) > 1 and max(positive) / min(positive) > _LOG_SPAN


def linear_ticks(high: float, most: int = 5) -> tuple[float, ...]:
    """0, step, 2 step … up to the first multiple that reaches `high`; steps are 1, 2, 2.5 or 5 × 10^k."""
    if high <= 0:
        return (0.0, 1.0)
    raw = high / most
    scale = 10.0 ** floor(log10(raw))
    step = next(factor * scale for factor in (1, 2, 2.5, 5, 10) if factor * scale >= raw * (1 - 1e-9))
    return tuple(step * place for place in range(ceil(high / step - 1e-9) + 1))


def log_ticks(low: float, high: float) -> tuple[float, ...]:
    """Powers of ten that enclose [low, high]."""
    return tuple(10.0**power for power in range(floor(log10(low)), ceil(log10(high) - 1e-9) + 1))


def tick_label(value: float) -> str:
    """`0.25`, `40`, `1,500`, `2 M`."""
    if value >= 1e6:
        return f"{value / 1e6:g} M"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.6g}"


def thinned(places: Sequence[float], labels: Sequence[str], gap: float = 5.0) -> tuple[bool, ...]:
    """Which labels, centred at these places, can be shown without touching: left to right, the last one always."""
    shown = [False] * len(places)
    widths = [len(label) * _TEXT_WIDTH for label in labels]
    free_from = float("-inf")
    limit = places[-1] - widths[-1] / 2 - gap if places else 0.0
    for index, (place, width) in enumerate(zip(places, widths, strict=True)):
        is_last = index == len(places) - 1
        if is_last or (place - width / 2 >= free_from and place + width / 2 <= limit):
            shown[index] = True
            free_from = place + width / 2 + gap
    return tuple(shown)


def spread(places: Sequence[float], gap: float) -> tuple[float, ...]:
    """The places moved apart, downwards, so that neighbours keep `gap`; the order of the input is kept."""
    moved = list(places)
    below = float("-inf")
    for index in sorted(range(len(places)), key=lambda each: places[each]):
        moved[index] = max(places[index], below + gap)
        below = moved[index]
    return tuple(moved)


def text(x: float, y: float, content: str, css: str, anchor: str = "start") -> str:
    """One line of text."""
    return f'<text x="{x:g}" y="{y:g}" class="{css}" text-anchor="{anchor}">{safe.html(content)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, css: str) -> str:
    """One straight line."""
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" class="{css}"/>'


def polyline(places: Iterable[tuple[float, float]], css: str) -> str:
    """A line through places."""
    return f'<polyline points="{" ".join(f"{x:g},{y:g}" for x, y in places)}" class="{css}"/>'


def dot(x: float, y: float, css: str, title: str) -> str:
    """A point with a tooltip."""
    return f'<circle cx="{x:g}" cy="{y:g}" r="3" class="{css}"><title>{safe.html(title)}</title></circle>'


def disc(x: float, y: float, radius: float, css: str, title: str) -> str:
    """A filled circle of any size with a tooltip."""
    return f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" class="{css}"><title>{safe.html(title)}</title></circle>'


def turned_text(x: float, y: float, content: str, css: str, degrees: float) -> str:
    """One line of text along a slope."""
    turn = f'transform="rotate({degrees:.1f} {x:g} {y:g})"'
    return f'<text x="{x:g}" y="{y:g}" class="{css}" {turn}>{safe.html(content)}</text>'


def cross(x: float, y: float, css: str, title: str) -> str:
    """A small × with a tooltip: a point without a number."""
    shape = f"M{x - 3.5:g} {y - 3.5:g}l7 7m0-7l-7 7"
    return f'<path d="{shape}" class="{css}"><title>{safe.html(title)}</title></path>'


def bar(y: float, width: float, height: float, css: str, title: str) -> str:
    """A horizontal bar from the left edge, with a tooltip."""
    box = f'x="0" y="{y:g}" width="{width:g}" height="{height:g}" rx="2"'
    return f'<rect {box} class="{css}"><title>{safe.html(title)}</title></rect>'


def rectangle(box: tuple[float, float, float, float], css: str, title: str) -> str:
    """A rectangle (x, y, width, height) with a tooltip."""
    x, y, width, height = (round(each, 1) for each in box)
    place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
    return f'<rect {place} class="{css}"><title>{safe.html(title)}</title></rect>'


def picture(width: float, height: float, label: str, parts: Iterable[str]) -> str:
    """A whole image; `label` is what a screen reader says."""
    said = f'preserveAspectRatio="xMinYMin meet" role="img" aria-label="{safe.html(label)}"'
    return f'<svg viewBox="0 0 {width:g} {height:g}" {said}>{"".join(parts)}</svg>'
