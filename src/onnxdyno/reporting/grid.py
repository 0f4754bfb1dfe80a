"""The tables of a report as plain values: the same rows go to the terminal, to Markdown and to HTML."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from onnxdyno.analysis.roofline import MOST_COVERAGE
from onnxdyno.domain.axes import describe
from onnxdyno.domain.devices import Device
from onnxdyno.domain.findings import (
    Choice,
    Estimate,
    Findings,
    NodeFinding,
    PointFinding,
    ProfileFinding,
)
from onnxdyno.domain.numbers import percent
from onnxdyno.domain.outcomes import NodeTiming
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.reporting import points as layout
from onnxdyno.reporting import units

_NUMBER = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Raw text (escape it where it is shown) and, where a value is missing, why."""

    text: str
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A title with its unit; numbers are right-aligned. `is_minor` columns go first when a screen is narrow."""

    title: str
    is_number: bool = False
    is_minor: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """One table. `caption` says what holds for all its rows."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""


def without(grid: Grid, title: str) -> Grid:
    """The same table less one column."""
    kept = [place for place, column in enumerate(grid.columns) if column.title != title]
    return replace(
        grid,
        columns=tuple(grid.columns[place] for place in kept),
        rows=tuple(tuple(row[place] for place in kept) for row in grid.rows),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Points that share a state, flags, reason and remedy."""

    points: tuple[str, ...]
    state: str
    reason: str
    remedy: str

    @property
    def text(self) -> str:
        """Reason and remedy as one or two sentences."""
        return joined(self.reason, self.remedy)


def joined(reason: str, remedy: str) -> str:
    """`reason. remedy`, with exactly one stop between them."""
    stop = "" if not reason or not remedy or reason[-1] in ".!?:" else "."
    return f"{reason}{stop} {remedy}".strip()


def points_grid(run: BenchmarkRun, findings: Findings) -> Grid:
    """One row per point: sizes, state, p50 ± interval, tails, throughput, memory, flags."""
    all_points = [each.point for each in findings.points]
    groups = layout.axis_groups(run.signature, all_points)
    varying = layout.varying(groups, all_points)
    shows_variant = len(layout.variants(all_points)) > 1
    factors = layout.factors(all_points, run.plan.threads)
    latency = units.latency_unit([each.p50_ns.value for each in findings.points])
    memory = units.memory_unit([each.peak_memory_bytes for each in findings.points])
    energy = _energy_columns(findings.points)
    columns = (
        *(Column(title=layout.group_title(group), is_number=True) for group in varying or ((),)),
        *((Column(title="variant"),) if shows_variant else ()),
        *(Column(title=title, is_number=True) for title, _ in factors),
        Column(title="state"),
        Column(title=f"p50 {latency.name}", is_number=True),
        Column(title=f"p90 {latency.name}", is_number=True, is_minor=True),
        Column(title=f"p99 {latency.name}", is_number=True),
        Column(title="items/s", is_number=True),
        Column(title=f"memory {memory.name}", is_number=True),
        *(Column(title=each.title, is_number=True) for each in energy),
        Column(title="n", is_number=True, is_minor=True),
    )
    rows = tuple(
        (
            *(Cell(text=layout.sizes_label(each.point, group)) for group in varying or ((),)),
            *((Cell(text=each.point.variant.value),) if shows_variant else ()),
            *(Cell(text=str(value(each.point))) for _, value in factors),
            _state(each),
            with_interval(each.p50_ns, latency),
            _value(each.p90_ns, latency),
            _value(each.p99_ns, latency),
            _value(each.throughput_items_per_s, units.ITEMS_PER_S),
            _memory(each, memory),
            *(_value(column.of(each), column.unit) for column in energy),
            Cell(text=units.count(each.n) if each.n else units.MISSING, reason=None if each.n else each.reason),
        )
        for each in findings.points
    )
    at = layout.constant(groups, all_points)
    columns = columns if varying else (Column(title="point"), *columns[1:])
    return Grid(title="Points", columns=columns, rows=rows, caption=f"at {at}" if at and varying else at)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Energy:
    """A column of energy, where any point has some."""

    title: str
    unit: units.Unit
    of: Callable[[PointFinding], Estimate]


def _energy_columns(points: tuple[PointFinding, ...]) -> tuple[_Energy, ...]:
    """Of an item where any was read; of a call where a point has that and no items that can be counted."""
    per_item = [each.energy_per_item_mj.value for each in points]
    per_call = [each.energy_per_call_mj.value for each in points if each.energy_per_item_mj.value is None]
    asked: tuple[tuple[str, list[float | None], Callable[[PointFinding], Estimate]], ...] = (
        ("item", per_item, lambda point: point.energy_per_item_mj),
        ("call", per_call, lambda point: point.energy_per_call_mj),
    )
    shown = ((name, units.energy_unit(values), of) for name, values, of in asked if units.finite(values))
    return tuple(_Energy(title=f"{unit.name}/{name}", unit=unit, of=of) for name, unit, of in shown)


def as_texts(grid: Grid) -> tuple[dict[str, str], ...]:
    """Rows as column title -> text, not escaped; for tables that somebody else draws."""
    titles = [column.title for column in grid.columns]
    return tuple(dict(zip(titles, (cell.text for cell in row), strict=True)) for row in grid.rows)


def node_cells(finding: NodeFinding, unit: units.Unit) -> tuple[Cell, ...]:
    """Share of the sum of self times, self time, operator, name."""
    node = finding.node
    return (
        Cell(text=units.percent(finding.share)),
        Cell(text=units.number(node.self_ns, unit)),
        Cell(text=node.op_type),
        Cell(text=node_name(node)),
    )


def node_columns(unit: units.Unit) -> tuple[Column, ...]:
    """The columns of `node_cells`."""
    return (
        Column(title="share", is_number=True),
        Column(title=f"self {unit.name}", is_number=True),
        Column(title="operator"),
        Column(title="node"),
    )


def nodes_grid(profile: ProfileFinding, most: int = 10) -> Grid:
    """The slowest nodes: share of the sum of self times, self time, operator, name."""
    shown = profile.nodes[:most]
    unit = units.latency_unit([each.node.self_ns for each in shown])
    rows = tuple(
        (
            *node_cells(each, unit),
            Cell(text=each.node.output_shapes or units.MISSING),
        )
        for each in shown
    )
    return Grid(
        title="Slowest nodes",
        columns=(
            *node_columns(unit),
            Column(title="output", is_minor=True),
        ),
        rows=rows,
        caption=profile_caption(profile),
    )


def choices_grid(run: BenchmarkRun, findings: Findings) -> Grid:
    """The answers drawn from the sweep, each with its reason."""
    asked = (
        ("best batch", findings.best_batch),
        ("largest batch", findings.largest_batch),
        ("largest resolution", findings.largest_resolution),
        ("largest sequence", findings.largest_sequence),
        ("knee", findings.knee),
    )
    rows = tuple((Cell(text=name), _answer(run, findings, choice), Cell(text=choice.reason)) for name, choice in asked)
    return Grid(
        title="Choices",
        columns=(Column(title="question"), Column(title="answer"), Column(title="why")),
        rows=rows,
    )


def devices_grid(devices: tuple[Device, ...]) -> Grid:
    """Every device of this machine."""
    rows = tuple(
        (
            Cell(text=device.id),
            Cell(text=device.kind.value),
            Cell(text=device.name),
            Cell(text=device.device_class),
            Cell(text=units.size(device.memory_bytes), reason=None if device.memory_bytes else "not readable"),
            Cell(text=str(len(device.cores))),
            Cell(text=str(device.threads)),
            Cell(text=device.compute_capability or units.MISSING, reason="not a CUDA device"),
        )
        for device in devices
    )
    columns = (
        Column(title="id"),
        Column(title="kind", is_minor=True),
        Column(title="name"),
        Column(title="class", is_minor=True),
        Column(title="memory", is_number=True),
        Column(title="cores", is_number=True, is_minor=True),
        Column(title="threads", is_number=True, is_minor=True),
        Column(title="CC", is_minor=True),
    )
    return Grid(title="Devices", columns=columns, rows=rows)


def notes(run: BenchmarkRun, findings: Findings) -> tuple[Note, ...]:
    """Why points have no number or a flag; points whose stories differ in numbers only are told once, by the first."""
    groups = layout.axis_groups(run.signature, [each.point for each in findings.points])
    told: dict[tuple[str, str, str], list[PointFinding]] = {}
    for each in findings.points:
        if each.reason is not None or each.flags:
            told.setdefault((_marked_state(each), _without_numbers(each.reason), each.remedy), []).append(each)
    return tuple(
        Note(
            points=tuple(layout.brief(each.point, run.plan.base, groups) for each in alike),
            state=state,
            reason=_first_of(alike, layout.brief(alike[0].point, run.plan.base, groups)),
            remedy=remedy,
        )
        for (state, _, remedy), alike in told.items()
    )


def _first_of(alike: list[PointFinding], first: str) -> str:
    reason = alike[0].reason or ""
    is_same = all((each.reason or "") == reason for each in alike)
    return reason if is_same else f"{reason.rstrip('. ')} (of {first}; the others alike)"


def _marked_state(point: PointFinding) -> str:
    flags = ", ".join(flag.value for flag in point.flags)
    return point.state.value + (f" [{flags}]" if flags else "")


def _without_numbers(reason: str | None) -> str:
    return _NUMBER.sub("#", reason or "").replace("# runs", "# run")


def footnote(row: tuple[Cell, ...], cell: Cell, noted: frozenset[str] = frozenset()) -> str | None:
    """The reason of a missing value, unless a note or the row itself (its state) tells it already."""
    if cell.reason is None or cell.text != units.MISSING:
        return None
    told = {each.reason for each in row if each.reason and each.text != units.MISSING} | noted
    return None if any(each in cell.reason for each in told) else cell.reason


class Footnotes:
    """Numbered reasons below one table; reasons that differ in numbers only share a number and the first's words."""

    def __init__(self) -> None:
        self._told: dict[str, list[str]] = {}

    def number(self, reason: str) -> int:
        """The number of this reason, a new one if nothing alike was told."""
        key = _without_numbers(reason)
        self._told.setdefault(key, []).append(reason)
        return list(self._told).index(key) + 1

    def lines(self) -> tuple[str, ...]:
        """`209 samples are too few …`, with a hint where others are alike."""
        return tuple(alike[0] + (" (others alike)" if len(set(alike)) > 1 else "") for alike in self._told.values())


def node_name(node: NodeTiming) -> str:
    """The node's name with the path of its subgraph; `Relu_3` for a node without one."""
    own = node.name or f"{node.op_type}_{node.index}"
    return f"{node.path}/{own}" if node.path else own


def profile_caption(profile: ProfileFinding) -> str:
    """Where the profile was taken and how far to trust it."""
    parts = [f"at {describe(profile.point.sizes)}"]
    if not profile.is_complete:
        parts.append("incomplete: whole runs only")
    if profile.coverage is not None:
        parts.append(f"nodes cover {percent(profile.coverage)} of the unprofiled median")
    if profile.overhead is not None:
        parts.append(f"the profiler added {percent(profile.overhead)}")
    if profile.coverage is not None and profile.coverage > MOST_COVERAGE:
        parts.append("more of these times is the profiler's than the nodes': shares are of the profiled run alone")
    if profile.bound is not None:
        parts.append(f"bound by {profile.bound.value}")
    if profile.reason:
        parts.append(profile.reason)
    return "; ".join(parts)


def _state(point: PointFinding) -> Cell:
    mark = " *" if point.flags else ""
    return Cell(text=point.state.value + mark, reason=point.reason)


def with_interval(estimate: Estimate, unit: units.Unit) -> Cell:
    """A value with its interval; a missing one has its reason."""
    missing = estimate.value is None or units.half_width(estimate) is None
    return Cell(text=units.with_interval(estimate, unit), reason=estimate.reason if missing else None)


def _value(estimate: Estimate, unit: units.Unit) -> Cell:
    return Cell(
        text=units.number(estimate.value, unit), reason=_why(estimate.reason) if estimate.value is None else None
    )


def _memory(point: PointFinding, unit: units.Unit) -> Cell:
    is_known = point.peak_memory_bytes is not None
    return Cell(
        text=units.number(point.peak_memory_bytes, unit, 3), reason=None if is_known else _why(point.peak_memory_reason)
    )


def _why(reason: str | None) -> str:
    return reason or "not measured"


def _answer(run: BenchmarkRun, findings: Findings, choice: Choice) -> Cell:
    if choice.value is None or choice.point is None:
        return Cell(text=units.MISSING, reason=choice.reason)
    groups = layout.axis_groups(run.signature, [each.point for each in findings.points])
    return Cell(text=layout.brief(choice.point, run.plan.base, groups))
