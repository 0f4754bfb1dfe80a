"""What a person sees in a terminal: rich renderables that choose their columns by the width they get."""

from collections.abc import Iterable
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from onnxdyno.domain.axes import describe
from onnxdyno.domain.cost import Cost
from onnxdyno.domain.devices import Device
from onnxdyno.domain.findings import Findings
from onnxdyno.domain.models import ModelRef, Signature, TensorSpec
from onnxdyno.domain.outcomes import PointState
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.reporting import grid as tables
from onnxdyno.reporting import reading_grids, safe, units
from onnxdyno.reporting.elsewhere import TITLE as ELSEWHERE
from onnxdyno.reporting.elsewhere import others_grid, others_lines
from onnxdyno.reporting.grid import Cell, Grid
from onnxdyno.reporting.shapes import shape_entry
from onnxdyno.reporting.sizing import Answers, more_lines
from onnxdyno.reporting.tiers import here_line, heres, tiers_grid

_GAP = 2
_SHOWN_NODES = 5
_LONGEST_CELL = 48
_LONGEST_ENTRY = 40
"""Of a shape: `past_sequence_length + sequence_length` fits."""
_LONGEST_TITLE = 16
"""Of a column, so that the name of an axis does not push numbers off 80 columns."""
_NEVER_CUT = 18
_MEASURED_STYLES = {state.value: "green" if state is PointState.OK else "yellow" for state in PointState}
_STYLES = _MEASURED_STYLES | {state.value: "red" for state in PointState if not state.is_measured}
_STYLES |= {PointState.NOT_APPLICABLE.value: "dim", units.MISSING: "dim"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sheet:
    """A grid as a rich table; minor columns only where there is room."""

    grid: Grid
    without: tuple[str, ...] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the heading and the table for this width."""
        grid = self.grid
        kept = self._kept(options.max_width)
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold", show_edge=False)
        for place in kept:
            column, longest = grid.columns[place], _longest(grid, place)
            table.add_column(
                Text(safe.terminal(column.title, _LONGEST_TITLE)),
                justify="right" if column.is_number else "left",
                no_wrap=True,
                overflow="ellipsis",
                min_width=longest if longest <= _NEVER_CUT else None,
            )
        for row in grid.rows:
            table.add_row(*(_cell(row[place]) for place in kept))
        yield _heading(grid.title, grid.caption)
        yield table

    def _kept(self, most: int) -> list[int]:
        """Every column where they fit, else those that are not minor."""
        asked = [place for place, column in enumerate(self.grid.columns) if column.title not in self.without]
        if sum(_longest(self.grid, place) + _GAP for place in asked) - _GAP <= most:
            return asked
        return [place for place in asked if not self.grid.columns[place].is_minor]


def points(run: BenchmarkRun, findings: Findings) -> RenderableType:
    """One model on one device: its points, and what stopped or marks them."""
    signature, ref = run.signature, run.plan.model.ref
    model = f"{signature.parameters:,} parameters, {signature.precision}, opset {signature.opset}"
    device, spec = run.plan.device, run.plan.spec
    counts = f"{_counted(run.plan.threads, 'thread')}, {_counted(spec.launches, 'launch', 'launches')}"
    measured = f"{device.name}, {counts}, budget {spec.budget_s:g} s"
    return Group(
        Text.assemble((safe.terminal(ref.name), "bold cyan"), "  ", (model, "dim")),
        Text(safe.terminal(measured), style="dim"),
        Text(),
        _Sheet(grid=tables.points_grid(run, findings)),
        *_notes(run, findings),
    )


def _counted(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def bench(run: BenchmarkRun, findings: Findings, results_uri: str | None = None) -> RenderableType:
    """One model on one device: points, what stopped the others, slowest nodes, choices, tiers."""
    parts: list[RenderableType] = [points(run, findings)]
    for profile in findings.profiles[:1]:
        if profile.nodes:
            parts += [Text(), _Sheet(grid=tables.nodes_grid(profile, _SHOWN_NODES))]
        else:
            parts += [Text(), _heading("Slowest nodes", ""), _line(profile.reason or "no profile was made")]
    memory = reading_grids.memory_grid(run, findings)
    if memory.rows:
        parts += [Text(), _Sheet(grid=memory)]
    if findings.cold:
        parts += [Text(), _Sheet(grid=reading_grids.cold_grid(findings))]
    parts += [Text(), *_choices(run, findings), Text(), *_tiers(findings)]
    parts += [Text(), *_elsewhere(run, findings, results_uri)]
    if findings.warnings:
        parts += [Text(), _stories("Warnings", [("!", warning) for warning in findings.warnings])]
    return Group(*parts)


def inspect(ref: ModelRef, signature: Signature, cost: Cost) -> RenderableType:
    """What the file says: inputs, outputs, axes, size, operators; and what one call costs at one point."""
    size_bytes = units.size(ref.size_bytes)
    said = [
        ("sha256", ref.sha256),
        ("size", size_bytes + (f", {units.size(ref.external_bytes)} of it external" if ref.external_bytes else "")),
        (
            "weights",
            f"{signature.parameters:,} parameters, {units.size(signature.weight_bytes)}, {signature.precision}"
            + (", made when it loads" if signature.weight_bytes > ref.size_bytes else ""),
        ),
        ("opset", f"{signature.opset} (IR {signature.ir_version}), made by {signature.producer or 'an unknown tool'}"),
        ("nodes", f"{signature.node_count:,}: {_operators(signature)}"),
        ("first point", describe(cost.sizes)),
        ("its cost", _cost(cost)),
    ]
    parts: list[RenderableType] = [
        Text(safe.terminal(ref.name), style="bold cyan"),
        _stories("", said),
        Text(),
        _Sheet(grid=_tensors_grid("Inputs", signature.inputs)),
        Text(),
        _Sheet(grid=_tensors_grid("Outputs", signature.outputs), without=("roles",)),
        Text(),
        _Sheet(grid=_axes_grid(signature)),
    ]
    if signature.notes:
        parts += [Text(), _stories("Notes", [("·", note) for note in signature.notes])]
    return Group(*parts)


def _cost(cost: Cost) -> str:
    """FLOPs and live memory of one call by the model's own arithmetic, or why there is no number."""
    flops = units.flops(cost.flops.value) if cost.flops.value is not None else f"FLOPs unknown: {cost.flops.reason}"
    peak = cost.activation_peak_bytes
    live = (
        f"{units.size(peak.value)} of tensors live at once"
        if peak.value is not None
        else f"live memory unknown: {peak.reason}"
    )
    return f"{flops}, {live} (1 multiply-accumulate = 2 FLOPs)"


def devices(found: tuple[Device, ...]) -> RenderableType:
    """The devices of this machine, each with what its fingerprint could not read."""
    unread: dict[tuple[str, str], list[str]] = {}
    for device in found:
        for fact in device.fingerprint:
            if fact.value is None:
                unread.setdefault((fact.name, fact.reason or "not readable"), []).append(device.id)
    told = [
        (name, reason if len(ids) == len(found) else f"{reason} (on {_points(tuple(ids), 2)})")
        for (name, reason), ids in unread.items()
    ]
    parts: list[RenderableType] = [_Sheet(grid=tables.devices_grid(found))]
    return Group(*parts, *([Text(), _stories("Not readable here", told)] if told else []))


def sheet(grid: Grid) -> RenderableType:
    """Any grid as a table."""
    return _Sheet(grid=grid)


def sized(answers: Answers) -> RenderableType:
    """Which device a model needs: the tiers, why, and what is beside them."""
    title = _line(f"{answers.name}: from {', '.join(answers.sources)}; {answers.dtype}")
    grid = _Sheet(grid=tiers_grid(answers.tiers, answers.measured_here), without=("why",))
    return Group(title, grid, Text(), _stories("", more_lines(answers)))


def facts(title: str, told: list[tuple[str, str]]) -> RenderableType:
    """Labelled facts under a title."""
    return _stories(safe.terminal(title), told)


def refusal(state: str, reason: str, remedy: str) -> Text:
    """One line for a model that cannot be measured."""
    return Text.assemble((safe.terminal(state), "bold red"), ": ", safe.terminal(tables.joined(reason, remedy)))


def _notes(run: BenchmarkRun, findings: Findings) -> list[RenderableType]:
    found = tables.notes(run, findings)
    if not found:
        return []
    told = [(note.state, f"{_points(note.points)}: {note.text}".rstrip(": ")) for note in found]
    return [Text(), _stories("Beside the numbers", told)]


def _points(keys: tuple[str, ...], most: int = 6) -> str:
    shown = ", ".join(keys[:most])
    return shown if len(keys) <= most else f"{shown} and {len(keys) - most} more"


def _choices(run: BenchmarkRun, findings: Findings) -> list[RenderableType]:
    grid = tables.choices_grid(run, findings)
    told = [
        (question.text, why.text if answer.text == units.MISSING else f"{answer.text}: {why.text}")
        for question, answer, why in grid.rows
    ]
    return [_stories(grid.title, told)]


def _tiers(findings: Findings) -> list[RenderableType]:
    grid = tiers_grid(findings.tiers, heres(findings))
    why = [*((tier.tier, tier.reason) for tier in findings.tiers), *map(here_line, heres(findings))]
    return [_Sheet(grid=grid, without=("why",)), _stories("", why)]


def _elsewhere(run: BenchmarkRun, findings: Findings, results_uri: str | None) -> list[RenderableType]:
    found = findings.others
    lines = _stories("", others_lines(run, found, results_uri))
    return [_Sheet(grid=others_grid(found)) if found.predictions else _heading(ELSEWHERE, ""), lines]


def _tensors_grid(title: str, tensors: Iterable[TensorSpec]) -> Grid:
    rows = tuple(
        (
            Cell(text=each.name),
            Cell(text=each.dtype if each.kind == "tensor" else f"{each.kind}({each.dtype})"),
            Cell(text=shape_text(each)),
            Cell(text=", ".join(dim.role.value for dim in each.dims or ()) or "scalar"),
        )
        for each in tensors
    )
    columns = tuple(tables.Column(title=name, is_minor=name == "roles") for name in ("name", "dtype", "shape", "roles"))
    return Grid(title=title, columns=columns, rows=rows)


def _axes_grid(signature: Signature) -> Grid:
    rows = tuple(
        (
            Cell(text=axis.name),
            Cell(text=axis.role.value),
            Cell(text="dynamic" if axis.size is None else str(axis.size)),
        )
        for axis in signature.axes
    )
    return Grid(title="Axes", columns=tuple(tables.Column(title=name) for name in ("name", "role", "size")), rows=rows)


def shape_text(tensor: TensorSpec) -> str:
    """`[batch, 3, height, width]`; `?` where the file says nothing, `…` for an expression that nobody would read."""
    if tensor.dims is None:
        return "unknown rank"
    entries = ("?" if (entry := shape_entry(dim)) is None else str(entry) for dim in tensor.dims)
    return "[" + ", ".join(entry if len(entry) <= _LONGEST_ENTRY else "…" for entry in entries) + "]"


def _operators(signature: Signature, most: int = 5) -> str:
    shown = ", ".join(f"{name} × {count}" for name, count in signature.op_types[:most])
    return shown if len(signature.op_types) <= most else f"{shown} and {len(signature.op_types) - most} more kinds"


def _longest(grid: Grid, place: int) -> int:
    title = safe.terminal(grid.columns[place].title, _LONGEST_TITLE)
    cells = (safe.terminal(row[place].text, _LONGEST_CELL) for row in grid.rows)
    return max(cell_len(text) for text in (title, *cells))


def _cell(cell: Cell) -> Text:
    text = safe.terminal(cell.text, _LONGEST_CELL)
    return Text(text, style=_STYLES.get(text.removesuffix(" *"), ""))


def _heading(title: str, caption: str) -> Text:
    return Text.assemble((title, "bold"), ("  " + safe.terminal(caption) if caption else "", "dim"))


def _line(text: str) -> Text:
    return Text(safe.terminal(text), style="dim")


def _stories(title: str, told: list[tuple[str, str]]) -> RenderableType:
    """Labelled sentences that wrap beside their label."""
    body = Table.grid(padding=(0, 2, 0, 0))
    body.add_column(no_wrap=True, style="dim", overflow="ellipsis", max_width=28)
    body.add_column(overflow="fold")
    for label, text in told:
        body.add_row(Text(safe.terminal(label)), Text(safe.terminal(text)))
    return Group(_heading(title, ""), body) if title else body
