"""The charts of the page: one quantity over one sweep, and the slowest nodes."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

from onnxdyno.domain.findings import Estimate, PointFinding, ProfileFinding
from onnxdyno.reporting import svg, units
from onnxdyno.reporting.labels import node_label
from onnxdyno.reporting.points import Sweep

_WIDTH, _HEIGHT = 340.0, 214.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 40.0, 32.0, 28.0, 42.0
_MOST_WHISKER = 1.5
_FLOOR = _HEIGHT - _BOTTOM
_LABEL_GAP = 11.0
_LOG_EXTENT_SPAN = 6.0
_BARS_WIDTH, _BAR_HEIGHT, _BAR_STEP = 440.0, 7.0, 27.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One curve: its name, its CSS class and how to read it from a point, in inner units."""

    name: str
    css: str
    of: Callable[[PointFinding], Estimate]


LATENCIES = (
    Series(name="p99", css="third", of=lambda point: point.p99_ns),
    Series(name="p90", css="second", of=lambda point: point.p90_ns),
    Series(name="p50", css="first", of=lambda point: point.p50_ns),
)
THROUGHPUT = (Series(name="", css="first", of=lambda point: point.throughput_items_per_s),)
MEMORY = (
    Series(
        name="",
        css="first",
        of=lambda point: Estimate(value=point.peak_memory_bytes, reason=point.peak_memory_reason),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """The plane of one chart."""

    sweep: Sweep
    unit: units.Unit
    x: svg.Scale
    y: svg.Scale
    y_ticks: tuple[float, ...]

    def across(self, point: PointFinding) -> float:
        return self.x.place(self.sweep.extent(point.point))

    def up(self, value: float) -> float:
        return self.y.place(value / self.unit.size)


def sweep_chart(
    sweep: Sweep, title: str, unit: units.Unit, series: tuple[Series, ...], target: float | None = None
) -> str | None:
    """A chart of the series over the sweep, or None when fewer than two points have a number.

    A point without a number is a × on the axis with its state and reason. `target` is a line, in inner units.
    """
    values = units.finite(each.of(point).value for point in sweep.points for each in series)
    drawn = [point for point in sweep.points if any(units.finite([each.of(point).value]) for each in series)]
    if len(drawn) < 2:
        return None
    ends = units.finite(each.of(point).high for point in sweep.points for each in series)
    values += [end for end in ends if end <= _MOST_WHISKER * max(values)]  # a very wide interval is cut at the frame
    frame = _frame(sweep, unit, values, target)
    parts = [*_grid_lines(frame, title), *_x_labels(frame), *_target(frame, target)]
    parts += [part for each in series for part in _curve(frame, each)]
    parts += _names(frame, series)
    parts += _skipped(frame, [point for point in sweep.points if point not in drawn])
    return svg.picture(_WIDTH, _HEIGHT, f"{title} over {sweep.title}", parts)


def node_bars(profile: ProfileFinding, most: int = 8) -> str | None:
    """Horizontal bars of the slowest nodes' shares; None without nodes."""
    shown = profile.nodes[:most]
    if not shown:
        return None
    unit = units.latency_unit([each.node.self_ns for each in shown])
    longest = max(each.share for each in shown) or 1.0
    parts = []
    for row, each in enumerate(shown):
        top = row * _BAR_STEP
        node = each.node
        name = node_label(node)
        value = f"{units.percent(each.share)}  {units.number(node.self_ns, unit)} {unit.name}"
        parts.append(svg.text(0, top + 10, _tail(f"{node.op_type}  {name}", 52), "label"))
        parts.append(svg.text(_BARS_WIDTH, top + 10, value, "value", "end"))
        width = round(max(1.0, _BARS_WIDTH * each.share / longest), 1)
        parts.append(svg.bar(top + 14, width, _BAR_HEIGHT, "bar", f"{node.op_type} {name}: {value}"))
    return svg.picture(_BARS_WIDTH, len(shown) * _BAR_STEP, "Slowest nodes by share of self time", parts)


def _frame(sweep: Sweep, unit: units.Unit, values: list[float], target: float | None) -> _Frame:
    extents = [sweep.extent(point.point) for point in sweep.points]
    least, largest = min(extents), max(extents)
    shown = [value / unit.size for value in values]
    is_log = svg.spans_decades(shown)
    highest = max(shown)
    if target is not None and target / unit.size <= 2 * highest:
        highest = max(highest, target / unit.size)
    ticks = svg.log_ticks(min(shown), highest) if is_log else svg.linear_ticks(highest)
    x_is_log = least > 0 and largest / least >= _LOG_EXTENT_SPAN
    return _Frame(
        sweep=sweep,
        unit=unit,
        x=svg.Scale(low=least, high=largest, start=_LEFT + 12, end=_WIDTH - _RIGHT, is_log=x_is_log),
        y=svg.Scale(low=ticks[0], high=ticks[-1], start=_FLOOR, end=_TOP, is_log=is_log),
        y_ticks=ticks,
    )


def _grid_lines(frame: _Frame, title: str) -> list[str]:
    scale = " (log)" if frame.y.is_log else ""
    parts = [svg.text(0, 11, f"{title}, {frame.unit.name}{scale}", "axis-title")]
    for tick in frame.y_ticks:
        y = frame.y.place(tick)
        parts.append(svg.line(_LEFT, y, _WIDTH - _RIGHT + 8, y, "floor" if tick == frame.y_ticks[0] else "grid"))
        parts.append(svg.text(_LEFT - 7, y + 3.5, svg.tick_label(tick), "tick", "end"))
    return parts


def _x_labels(frame: _Frame) -> list[str]:
    by_extent = {frame.across(point): frame.sweep.label(point.point) for point in frame.sweep.points}
    places, labels = list(by_extent), list(by_extent.values())
    shown = svg.thinned(places, labels)
    parts = [svg.text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 6, frame.sweep.title, "axis-title", "middle")]
    for place, label, is_shown in zip(places, labels, shown, strict=True):
        parts.append(svg.line(place, _FLOOR, place, _FLOOR + 4, "floor"))
        if is_shown:
            parts.append(svg.text(place, _FLOOR + 16, label, "tick", "middle"))
    return parts


def _target(frame: _Frame, target: float | None) -> list[str]:
    if target is None or not frame.y.low <= target / frame.unit.size <= frame.y.high:
        return []
    y = frame.up(target)
    said = f"target {units.number(target, frame.unit, 3)} {frame.unit.name}"
    beside = y - 4 if y > _TOP + 10 else y + 12
    return [svg.line(_LEFT, y, _WIDTH - _RIGHT + 8, y, "target"), svg.text(_LEFT + 4, beside, said, "target-name")]


def _curve(frame: _Frame, series: Series) -> list[str]:
    places, marks = [], []
    for point in frame.sweep.points:
        estimate = series.of(point)
        if estimate.value is None or not isfinite(estimate.value):
            continue
        x, y = frame.across(point), frame.up(estimate.value)
        places.append((x, y))
        low, high = estimate.low, estimate.high
        if low is not None and high is not None and isfinite(low) and isfinite(high):
            marks += _whisker(x, frame.up(low), frame.up(high), series.css)
        said = f"{frame.sweep.title} {frame.sweep.label(point.point)}: {series.name} "
        said += f"{units.with_interval(estimate, frame.unit)} {frame.unit.name} ({point.state.value})"
        marks.append(svg.dot(x, y, f"dot {series.css}", said))
    return [svg.polyline(places, f"curve {series.css}"), *marks] if len(places) > 1 else marks


def _whisker(x: float, low: float, high: float, css: str) -> list[str]:
    return [
        svg.line(x, low, x, high, f"whisker {css}"),
        svg.line(x - 3, low, x + 3, low, f"whisker {css}"),
        svg.line(x - 3, high, x + 3, high, f"whisker {css}"),
    ]


def _names(frame: _Frame, series: tuple[Series, ...]) -> list[str]:
    """The name of each curve at its last point, moved apart where they would touch."""
    ends = []
    for each in series:
        last = next((point for point in reversed(frame.sweep.points) if units.finite([each.of(point).value])), None)
        if each.name and last is not None:
            ends.append((each, frame.across(last), frame.up(each.of(last).value or 0.0)))
    furthest = max((x for _, x, _ in ends), default=0.0)
    early = [svg.text(x, y - 7, each.name, f"name {each.css}", "middle") for each, x, y in ends if x < furthest]
    late = [end for end in ends if end[1] == furthest]
    heights = svg.spread([y for _, _, y in late], _LABEL_GAP)
    return early + [
        svg.text(x + 7, height + 3.5, each.name, f"name {each.css}")
        for (each, x, _), height in zip(late, heights, strict=True)
    ]


def _skipped(frame: _Frame, missing: list[PointFinding]) -> list[str]:
    places = [frame.across(point) for point in missing]
    shown = svg.thinned(places, [point.state.value for point in missing])
    parts = []
    for point, place, is_shown in zip(missing, places, shown, strict=True):
        said = f"{frame.sweep.title} {frame.sweep.label(point.point)}: {point.state.value}. {point.reason or ''}"
        parts.append(svg.cross(place, _FLOOR - 8, "skip", said))
        if is_shown:
            parts.append(svg.text(place, _FLOOR - 16, point.state.value, "skip-name", "middle"))
    return parts


def _tail(name: str, most: int) -> str:
    """The end of a long name says more than its beginning."""
    return name if len(name) <= most else f"{name[:12]}…{name[-(most - 13) :]}"
