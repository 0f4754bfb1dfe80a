"""The roofline: intensity against rate on logarithms, measured ceilings as lines, nodes as circles sized by time."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import atan2, degrees, sqrt

from onnxdyno.analysis.limits import rate_label
from onnxdyno.domain.bounds import Bound
from onnxdyno.domain.ceilings import Ceiling, CeilingKind, Ceilings
from onnxdyno.domain.micros import FLOAT32, STREAM
from onnxdyno.domain.verdicts import NodeVerdict, Roofline
from onnxdyno.reporting import svg, units
from onnxdyno.reporting.ceilings import rate
from onnxdyno.reporting.grid import node_name
from onnxdyno.reporting.labels import ending, node_label

_WIDTH, _HEIGHT = 860.0, 460.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 78.0, 190.0, 30.0, 62.0
_FLOOR, _END = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
_LARGEST, _SMALLEST = 22.0, 2.5
_NAMED = 5
_NAME_LENGTH = 27
_LABEL_GAP = 26.0
_APART = 1.25
"""Two bandwidths nearer than this factor are one line."""
_LEGEND = (Bound.COMPUTE, Bound.MEMORY, Bound.LAUNCH, Bound.BALANCED)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plane:
    """Where intensities and rates lie."""

    x: svg.Scale
    y: svg.Scale

    def place(self, node: NodeVerdict) -> tuple[float, float]:
        return self.x.place(node.intensity_flop_per_byte or 0), self.y.place(node.achieved_flop_per_s or 0)


def roofline_plot(found: Roofline, ceilings: Ceilings) -> str | None:
    """The picture, or None where no node has FLOPs or no ceiling was measured."""
    drawn = [each for each in found.nodes if each.intensity_flop_per_byte and each.achieved_flop_per_s]
    slopes, roofs = _slopes(ceilings), _roofs(found, ceilings)
    if not drawn or not slopes or not roofs:
        return None
    plane = _plane(drawn, roofs)
    parts = [*_axes(plane), *_lines(plane, slopes, roofs), *_circles(plane, drawn), *_labels(plane, drawn)]
    parts += _legend(found, drawn)
    return svg.picture(_WIDTH, _HEIGHT, "Roofline of the model's nodes", parts)


def _slopes(ceilings: Ceilings) -> list[Ceiling]:
    """Bandwidths that differ, the fastest first."""
    known = [each for each in ceilings.entries if each.kind is CeilingKind.BANDWIDTH and each.label == STREAM]
    kept: list[Ceiling] = []
    for each in sorted(known, key=lambda each: each.value or 0.0, reverse=True):
        if each.value and (not kept or (kept[-1].value or 0.0) > _APART * each.value):
            kept.append(each)
    return kept


def _roofs(found: Roofline, ceilings: Ceilings) -> list[Ceiling]:
    """The rates that its nodes are held to, in the types that they contract in; float32 where they do not."""
    told = [label.rpartition(" ")[2] for each in found.nodes if (label := rate_label(each.found)) is not None]
    labels = [f"{op} {dtype}" for dtype in dict.fromkeys(told or [FLOAT32]) for op in ("Conv", "MatMul")]
    return [roof for label in labels if (roof := ceilings.find(CeilingKind.FLOP_RATE, label)) is not None]


def _plane(drawn: Sequence[NodeVerdict], roofs: Sequence[Ceiling]) -> _Plane:
    across = [each.intensity_flop_per_byte or 1.0 for each in drawn]
    up = [each.achieved_flop_per_s or 1.0 for each in drawn] + [roof.value or 1.0 for roof in roofs]
    x, y = svg.log_ticks(min(*across, 0.1), max(*across, 100.0)), svg.log_ticks(min(up), 1.5 * max(up))
    return _Plane(
        x=svg.Scale(low=x[0], high=x[-1], start=_LEFT, end=_END, is_log=True),
        y=svg.Scale(low=y[0], high=y[-1], start=_FLOOR, end=_TOP, is_log=True),
    )


def _axes(plane: _Plane) -> list[str]:
    parts = [
        svg.text(0, 14, "FLOP/s", "axis-title"),
        svg.text((_LEFT + _END) / 2, _FLOOR + 36, "FLOP per byte", "axis-title", "middle"),
    ]
    for tick in svg.log_ticks(plane.y.low, plane.y.high):
        y = plane.y.place(tick)
        parts.append(svg.line(_LEFT, y, _END, y, "grid"))
        parts.append(
            svg.text(_LEFT - 8, y + 4, rate(CeilingKind.FLOP_RATE, tick).removesuffix("FLOP/s"), "tick", "end")
        )
    for tick in svg.log_ticks(plane.x.low, plane.x.high):
        x = plane.x.place(tick)
        parts.append(svg.line(x, _TOP, x, _FLOOR, "grid"))
        parts.append(svg.text(x, _FLOOR + 17, f"{tick:g}", "tick", "middle"))
    return [*parts, svg.line(_LEFT, _FLOOR, _END, _FLOOR, "floor"), svg.line(_LEFT, _TOP, _LEFT, _FLOOR, "floor")]


def _lines(plane: _Plane, slopes: Sequence[Ceiling], roofs: Sequence[Ceiling]) -> list[str]:
    """Bandwidths rise to the highest roof; each roof begins where the fastest bandwidth meets it."""
    top = max(roof.value or 1.0 for roof in roofs)
    parts = []
    for slope in slopes:
        bytes_per_s = slope.value or 1.0
        first = max(plane.x.low, plane.y.low / bytes_per_s)
        start = (plane.x.place(first), plane.y.place(first * bytes_per_s))
        end = (plane.x.place(top / bytes_per_s), plane.y.place(top))
        parts.append(svg.line(*start, *end, "slope"))
        turn = degrees(atan2(end[1] - start[1], end[0] - start[0]))
        said = f"{units.size(slope.working_bytes)}: {rate(CeilingKind.BANDWIDTH, bytes_per_s)}"
        is_last = slope is slopes[-1] and len(slopes) > 1
        across, up = (30.0, 0.0) if is_last else (14.0, -16.0)
        parts.append(svg.turned_text(start[0] + across, start[1] + up, said, "roof-name", turn))
    return parts + _roof_lines(plane, slopes[0].value or 1.0, roofs)


def _roof_lines(plane: _Plane, bytes_per_s: float, roofs: Sequence[Ceiling]) -> list[str]:
    """Each with its name above it, at the right; roofs that nearly touch share one line of text."""
    parts, told = [], ""
    ordered = sorted(roofs, key=lambda roof: roof.value or 0.0)
    for roof, above in zip(ordered, (*ordered[1:], None), strict=True):
        flop_per_s = roof.value or 1.0
        y = plane.y.place(flop_per_s)
        parts.append(svg.line(plane.x.place(flop_per_s / bytes_per_s), y, _END, y, "roof"))
        told = f"{roof.label} {rate(roof.kind, flop_per_s)}" + (f", {told}" if told else "")
        if above is None or (above.value or 0.0) > _APART * flop_per_s:
            parts.append(svg.text(_END - 4, y - 22, told, "roof-name", "end"))
            told = ""
    return parts


def _circles(plane: _Plane, drawn: Sequence[NodeVerdict]) -> list[str]:
    longest = max(each.self_ns for each in drawn) or 1
    parts = []
    for each in drawn:
        x, y = plane.place(each)
        radius = round(max(_SMALLEST, _LARGEST * sqrt(each.self_ns / longest)), 1)
        node = each.found.node
        name = node_name(node)
        said = f"{node.op_type} {name}: {units.percent(each.found.share)}, {_css(each.bound)}"
        parts.append(svg.disc(x, y, radius, f"node {_css(each.bound)}", said))
    return parts


def _labels(plane: _Plane, drawn: Sequence[NodeVerdict]) -> list[str]:
    """The slowest five, named at the right with a line to each."""
    named = sorted(drawn, key=lambda each: each.self_ns, reverse=True)[:_NAMED]
    places = [plane.place(each) for each in named]
    begins = [max(y, _TOP + 44) for _, y in places]
    heights = svg.spread(begins, _LABEL_GAP)
    beyond = max(0.0, max(heights) - (_FLOOR - 14))
    parts = []
    for each, (x, y), height in zip(named, places, heights, strict=True):
        at = height - beyond
        node = each.found.node
        parts.append(svg.line(x, y, _END + 12, at, "leader"))
        parts.append(svg.text(_END + 16, at, f"{node.op_type} {units.percent(each.found.share)}", "label"))
        parts.append(svg.text(_END + 16, at + 12, ending(node_label(node), _NAME_LENGTH), "tick"))
    return parts


def _legend(found: Roofline, drawn: Sequence[NodeVerdict]) -> list[str]:
    parts, x = [], _LEFT
    shares = dict(found.shares)
    for bound in (each for each in (*_LEGEND, Bound.OCCUPANCY) if shares.get(each)):
        parts.append(svg.disc(x + 5, _HEIGHT - 9, 5, f"node {_css(bound)}", bound.value))
        said = f"{bound.value} {units.percent(shares[bound])}"
        parts.append(svg.text(x + 15, _HEIGHT - 5, said, "label"))
        x += 30 + 6.6 * len(said)
    without = 1 - sum(each.found.share for each in drawn)
    if without > 0.005:
        parts.append(
            svg.text(x, _HEIGHT - 5, f"{units.percent(without)} of the time has no FLOPs and no place here", "tick")
        )
    return parts


def _css(bound: Bound | None) -> str:
    return bound.value if bound in _LEGEND else "other"
