"""How the points of a sweep are named and ordered: what varies is a column, what does not is said once."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from onnxdyno.domain.axes import Role
from onnxdyno.domain.findings import PointFinding
from onnxdyno.domain.models import Signature
from onnxdyno.domain.plan import Point, Variant
from onnxdyno.domain.text import printable

_LONGEST_NAME = 24
"""Of an axis, where it stands beside numbers: a longer one would push them off a screen of 80 columns."""
_MOST_PARTS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Points that differ from the base in one group of axes only, in increasing order of `extent`.

    `title` names the group (`batch`, `height × width`, `sequence`); `label` of a point is its size in it.
    """

    title: str
    names: tuple[str, ...]
    points: tuple[PointFinding, ...]

    def label(self, point: Point) -> str:
        """`8`, or `320 × 320`."""
        return sizes_label(point, self.names)

    def extent(self, point: Point) -> int:
        """One number to place the point on an axis: the product of its sizes in this group."""
        return extent(point, self.names)


def axis_groups(signature: Signature, points: Iterable[Point]) -> tuple[tuple[str, ...], ...]:
    """Dynamic axes that appear in the points: all batch axes, height with width, then every other one alone."""
    present = list(dict.fromkeys(name for point in points for name, _ in point.sizes))
    roles = {axis.name: axis.role for axis in signature.axes}
    together = [
        tuple(name for name in present if roles.get(name) is Role.BATCH),
        tuple(name for role in (Role.HEIGHT, Role.WIDTH) for name in present if roles.get(name) is role),
    ]
    grouped = {name for group in together for name in group}
    return tuple(group for group in (*together, *((name,) for name in present if name not in grouped)) if group)


def sizes_label(point: Point, names: tuple[str, ...]) -> str:
    """The sizes of these axes; one number where all are equal and none is a height or width pair."""
    sizes = dict(point.sizes)
    return " × ".join(str(sizes[name]) for name in names if name in sizes) or "fixed"


def brief(point: Point, base: Point, groups: tuple[tuple[str, ...], ...]) -> str:
    """`batch 64`, `33 × 33`: only what differs from the base; everything for the base itself."""
    parts = [_part(point, group) for group in groups if sizes_label(point, group) != sizes_label(base, group)]
    if point.variant is not base.variant:
        parts.append(point.variant.value)
    if point.threads is not None:
        parts.append(f"{point.threads} threads")
    if point.concurrency > 1:
        parts.append(f"{point.concurrency} in flight")
    everything = [_part(base, group) for group in groups[:_MOST_PARTS]]
    left_out = [f"{len(groups) - _MOST_PARTS} more"] if len(groups) > _MOST_PARTS else []
    return ", ".join(parts) or ", ".join(everything + left_out) or "fixed"


def _part(point: Point, group: tuple[str, ...]) -> str:
    label = sizes_label(point, group)
    return label if len(group) > 1 else f"{printable(group[0], _LONGEST_NAME)} {label}"


def group_title(names: tuple[str, ...]) -> str:
    """`height × width`."""
    return " × ".join(printable(name, _LONGEST_NAME) for name in names)


def extent(point: Point, names: tuple[str, ...]) -> int:
    """Product of the sizes of these axes."""
    product = 1
    for name, axis_size in point.sizes:
        product *= axis_size if name in names else 1
    return product


def varying(groups: tuple[tuple[str, ...], ...], points: Iterable[Point]) -> tuple[tuple[str, ...], ...]:
    """Groups that take more than one size."""
    listed = list(points)
    return tuple(group for group in groups if len({sizes_label(point, group) for point in listed}) > 1)


def constant(groups: tuple[tuple[str, ...], ...], points: Iterable[Point]) -> str:
    """`height=224 width=224`: what is equal at every point; empty when nothing is."""
    listed = list(points)
    fixed = [group for group in groups if len({sizes_label(point, group) for point in listed}) == 1]
    sizes = dict(listed[0].sizes) if listed else {}
    return " ".join(f"{name}={sizes[name]}" for group in fixed for name in group if name in sizes)


def sweeps(findings_points: tuple[PointFinding, ...], base: Point, signature: Signature) -> tuple[Sweep, ...]:
    """The sweeps of the base's variant that have more than one point; each contains the base."""
    groups = axis_groups(signature, [each.point for each in findings_points])
    found = []
    for names in groups:
        members = [each for each in findings_points if _differs_only_in(each.point, base, names)]
        if len({sizes_label(each.point, names) for each in members}) > 1:
            ordered = sorted(members, key=lambda each, names=names: extent(each.point, names))  # type: ignore[misc]
            found.append(Sweep(title=group_title(names), names=names, points=tuple(ordered)))
    return tuple(found)


def variants(points: Iterable[Point]) -> tuple[Variant, ...]:
    """The variants that occur, in order."""
    return tuple(dict.fromkeys(point.variant for point in points))


def factors(points: Iterable[Point], threads: int) -> tuple[tuple[str, Callable[[Point], int]], ...]:
    """Threads and calls in flight, where they vary: title and what a point has; `threads` are the plan's."""
    listed = list(points)
    both: tuple[tuple[str, Callable[[Point], int]], ...] = (
        ("threads", lambda point: point.threads or threads),
        ("in flight", lambda point: point.concurrency),
    )
    return tuple((title, value) for title, value in both if len({value(point) for point in listed}) > 1)


def _differs_only_in(point: Point, base: Point, names: tuple[str, ...]) -> bool:
    def others(each: Point) -> list[tuple[str, int]]:
        return [(name, axis_size) for name, axis_size in each.sizes if name not in names]

    return point.variant is base.variant and point.is_plain and others(point) == others(base)
