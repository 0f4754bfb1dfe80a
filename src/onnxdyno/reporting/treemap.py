"""Where the time of a profile goes, as areas: a box for each operator type, in it one for each node."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from onnxdyno.domain.findings import NodeFinding, ProfileFinding
from onnxdyno.reporting import svg, units
from onnxdyno.reporting.grid import node_name
from onnxdyno.reporting.labels import ending, place_label

_WIDTH, _HEIGHT = 900.0, 300.0
_HEAD = 14.0
_LEAST_AREA = 1.5
"""Square units below which a node is not drawn on its own: nobody could point at it."""
_CHARACTER = 6.6
_SMALL_CHARACTER, _SMALL_LINE = 6.0, 11.0
_LEAST_ROOM = 9
"""Characters below which the name of a node says nothing."""
_LEGEND_LINE, _SWATCH = 20.0, 9.0
_COLOURS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A rectangle in viewBox units."""

    x: float
    y: float
    width: float
    height: float


def node_areas(profile: ProfileFinding) -> str | None:
    """The picture; None where no node took any time."""
    groups: dict[str, list[NodeFinding]] = defaultdict(list)
    for each in profile.nodes:
        if each.share > 0:
            groups[each.node.op_type].append(each)
    ordered = sorted(groups.items(), key=lambda pair: -sum(each.share for each in pair[1]))
    if not ordered:
        return None
    whole = Box(x=0, y=0, width=_WIDTH, height=_HEIGHT)
    boxes = squarified([sum(each.share for each in nodes) for _, nodes in ordered], whole)
    parts: list[str] = []
    unnamed: list[tuple[str, str]] = []
    for place, ((op_type, nodes), box) in enumerate(zip(ordered, boxes, strict=True)):
        css = f"area area-{min(place, _COLOURS - 1)}"
        share = sum(each.share for each in nodes)
        told = f"{op_type} {units.percent(share)}"
        heads = (f"{op_type} × {len(nodes)}: {units.percent(share)}", told, op_type)
        head = next((each for each in heads if _CHARACTER * len(each) + 8 < box.width), "")
        head = head if box.height > 2 * _HEAD else ""
        parts += [_rectangle(box, css, heads[0]), *_group(head, nodes, box, css)]
        unnamed += [] if head else [(told, css)]
    parts += _legend(unnamed)
    height = _HEIGHT + (_LEGEND_LINE if unnamed else 0)
    return svg.picture(_WIDTH, height, "Share of self time by operator type and node", parts)


def squarified(sizes: Sequence[float], within: Box) -> list[Box]:
    """Rectangles of these areas, largest first, as square as a greedy row by row layout makes them.

    Bruls, Huizing and van Wijk 2000, "Squarified Treemaps". `sizes` are positive and fill the box in proportion.
    """
    scale = within.width * within.height / sum(sizes)
    left = [size * scale for size in sizes]
    found: list[Box] = []
    free = within
    while left:
        side = min(free.width, free.height)
        count = 1
        while count < len(left) and _worst(left[: count + 1], side) <= _worst(left[:count], side):
            count += 1
        row, free = _row(left[:count], free)
        found += row
        left = left[count:]
    return found


def _worst(areas: Sequence[float], side: float) -> float:
    """The most stretched rectangle of a row along a side: its longer over its shorter edge."""
    thickness = sum(areas) / side if side > 0 else 0.0
    return max(max(thickness**2 / area, area / thickness**2) if area and thickness else 1e9 for area in areas)


def _row(areas: Sequence[float], free: Box) -> tuple[list[Box], Box]:
    """One row along the shorter side, and what is left of the box."""
    is_column = free.width >= free.height
    side = free.height if is_column else free.width
    thickness = sum(areas) / side if side > 0 else 0.0
    found, at = [], 0.0
    for area in areas:
        length = area / thickness if thickness else 0.0
        if is_column:
            found.append(Box(x=free.x, y=free.y + at, width=thickness, height=length))
        else:
            found.append(Box(x=free.x + at, y=free.y, width=length, height=thickness))
        at += length
    if is_column:
        rest = Box(x=free.x + thickness, y=free.y, width=max(0.0, free.width - thickness), height=free.height)
    else:
        rest = Box(x=free.x, y=free.y + thickness, width=free.width, height=max(0.0, free.height - thickness))
    return found, rest


def _group(head: str, nodes: Sequence[NodeFinding], box: Box, css: str) -> list[str]:
    """The nodes of one operator type, below its name where there is room for that."""
    inner = Box(x=box.x, y=box.y + _HEAD, width=box.width, height=box.height - _HEAD) if head else box
    parts: list[str] = []
    for each, area in zip(nodes, squarified([node.share for node in nodes], inner), strict=True):
        if area.width * area.height >= _LEAST_AREA:
            parts.append(_rectangle(area, f"{css} node", _told(each)))
            parts += _names(each, area)
    if head:
        parts.append(svg.text(round(box.x + 4, 1), round(box.y + _HEAD - 3, 1), head, "area-name"))
    return parts


def _told(found: NodeFinding) -> str:
    """What the pointer shows."""
    node = found.node
    unit = units.latency_unit([node.self_ns])
    name = node_name(node)
    return f"{node.op_type} {name}: {units.percent(found.share)}, {units.number(node.self_ns, unit)} {unit.name}"


def _names(found: NodeFinding, area: Box) -> list[str]:
    """The end of a node's name and its share, where its box has room for both."""
    room = int((area.width - 6) / _SMALL_CHARACTER)
    if room < _LEAST_ROOM or area.height < 2 * _SMALL_LINE + 4:
        return []
    x, y = round(area.x + 4, 1), round(area.y + _SMALL_LINE + 1, 1)
    return [
        svg.text(x, y, ending(place_label(found.node), room), "area-node"),
        svg.text(x, round(y + _SMALL_LINE, 1), units.percent(found.share), "area-node"),
    ]


def _legend(unnamed: Sequence[tuple[str, str]]) -> list[str]:
    """The operator types whose box has no room for their name, as far as one line goes."""
    parts: list[str] = []
    x, y = 0.0, _HEIGHT + _LEGEND_LINE - 4
    for place, (head, css) in enumerate(unnamed):
        rest = f"and {len(unnamed) - place} more"
        if x + _SWATCH + 18 + _CHARACTER * (len(head) + len(rest)) > _WIDTH:
            return [*parts, svg.text(round(x, 1), y, rest, "tick")]
        parts.append(_rectangle(Box(x=x, y=y - _SWATCH, width=_SWATCH, height=_SWATCH), css, head))
        parts.append(svg.text(round(x + _SWATCH + 4, 1), y, head, "tick"))
        x += _SWATCH + 18 + _CHARACTER * len(head)
    return parts


def _rectangle(box: Box, css: str, title: str) -> str:
    return svg.rectangle((box.x, box.y, box.width, box.height), css, title)
