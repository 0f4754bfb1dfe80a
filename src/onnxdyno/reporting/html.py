"""summary.html: one self-contained page. No script, no request; its policy forbids both."""

import base64
import hashlib
from dataclasses import replace
from functools import cache
from importlib.resources import files

from onnxdyno.analysis.choices import target_of
from onnxdyno.domain.ceilings import Ceilings
from onnxdyno.domain.findings import Findings
from onnxdyno.domain.outcomes import PointState
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.domain.verdicts import Roofline
from onnxdyno.reporting import charts, prose, reading_grids, rooflines, safe, treemap, units
from onnxdyno.reporting import grid as tables
from onnxdyno.reporting.ceilings import ceilings_grid
from onnxdyno.reporting.elsewhere import TITLE as ELSEWHERE
from onnxdyno.reporting.elsewhere import others_grid, others_lines
from onnxdyno.reporting.grid import Cell, Column, Grid
from onnxdyno.reporting.points import Sweep, sweeps
from onnxdyno.reporting.roofline_plot import roofline_plot
from onnxdyno.reporting.tiers import here_line, heres, tiers_grid

_STATE_CSS = {state.value: "ok" if state is PointState.OK else "soft" for state in PointState if state.is_measured}
_STATE_CSS |= {state.value: "none" for state in PointState if not state.is_measured}
_STATE_CSS |= {PointState.NOT_APPLICABLE.value: "na"}


def page(
    run: BenchmarkRun,
    findings: Findings,
    judged: tuple[Roofline, Ceilings] | None = None,
    *,
    results_uri: str | None = None,
) -> str:
    """The whole page of one run; with its roofline and ceilings where its device is calibrated.

    `results_uri`: the store with this run, for the command that repeats a prediction.
    """
    name = safe.html(run.plan.model.ref.name)
    body = (
        _header(run),
        _tiles(run, findings),
        _charts(run, findings),
        _points(run, findings),
        f'<div class="pair">{_nodes(findings)}{_choices(run, findings)}</div>',
        _roofline(judged),
        _areas(findings),
        _memory(run, findings),
        _table_section(reading_grids.cold_grid(findings)) if findings.cold else "",
        _tiers(findings),
        _elsewhere(run, findings, results_uri),
        _warnings(findings),
        _facts("How it was measured", prose.method(run)),
        _ceilings(judged),
        _fingerprint(run),
        "<footer>onnxdyno. Every sample is kept in the tables of this run.</footer>",
    )
    written = "\n".join(part for part in body if part)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy()}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{name} – onnxdyno</title>\n<style>{_style()}</style>\n</head>\n"
        f"<body>\n<main>\n{written}\n</main>\n</body>\n</html>\n"
    )


@cache
def _style() -> str:
    return (files("onnxdyno.reporting") / "page.css").read_text(encoding="utf-8")


@cache
def _policy() -> str:
    """Nothing may load or run; the one style sheet is named by its digest, so that no other style applies."""
    digest = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _header(run: BenchmarkRun) -> str:
    device, *rest = prose.subtitle(run)
    signature = run.signature
    model = f"{signature.parameters:,} parameters · {signature.precision} · opset {signature.opset}"
    model += f" · {units.size(run.plan.model.ref.size_bytes)}"
    by = " · ".join(safe.html(each) for each in rest)
    return (
        f'<header><h1>{safe.html(run.plan.model.ref.name)}</h1><p class="by">{safe.html(model)}</p>'
        f'<p class="by"><b>{safe.html(device)}</b> · {by}</p></header>'
    )


def _tiles(run: BenchmarkRun, findings: Findings) -> str:
    told = prose.headlines(run, findings)
    return (
        '<dl class="tiles">'
        + "".join(f"<div><dt>{safe.html(name)}</dt><dd>{safe.html(value)}</dd></div>" for name, value in told)
        + "</dl>"
    )


def _charts(run: BenchmarkRun, findings: Findings) -> str:
    drawn: list[str] = []
    for sweep in sweeps(findings.points, run.plan.base, run.signature):
        drawn += [picture for picture in _sweep_pictures(sweep, target_of(run.plan)) if picture]
    figures = "".join(f"<figure>{picture}</figure>" for picture in drawn)
    return f'<section><div class="charts">{figures}</div></section>' if figures else ""


def _sweep_pictures(sweep: Sweep, target_ns: float | None) -> tuple[str | None, ...]:
    latency = units.latency_unit([point.p50_ns.value for point in sweep.points])
    memory = units.memory_unit([point.peak_memory_bytes for point in sweep.points])
    return (
        charts.sweep_chart(sweep, "Latency", latency, charts.LATENCIES, target_ns),
        charts.sweep_chart(sweep, "Throughput", units.ITEMS_PER_S, charts.THROUGHPUT),
        charts.sweep_chart(sweep, "Peak memory", memory, charts.MEMORY),
    )


def _points(run: BenchmarkRun, findings: Findings) -> str:
    told = [
        f"<li><b>{safe.html(note.state)}</b> {safe.html(', '.join(note.points))}: {safe.html(note.text)}</li>"
        for note in tables.notes(run, findings)
    ]
    return _table_section(tables.points_grid(run, findings), told)


def _nodes(findings: Findings) -> str:
    if not findings.profiles:
        return ""
    profile = findings.profiles[0]
    picture = charts.node_bars(profile)
    body = f"<figure>{picture}</figure>" if picture else ""
    return _section("Slowest nodes", tables.profile_caption(profile), body)


def _areas(findings: Findings) -> str:
    """Where all the time goes: the bars show the slowest nodes, these areas every one."""
    picture = treemap.node_areas(findings.profiles[0]) if findings.profiles else None
    if picture is None:
        return ""
    caption = "area = self time with the profiler on; a box for each operator type, in it one for each node"
    return _section("Where the time goes", caption, f"<figure>{picture}</figure>")


_READ_AS = (
    "A circle is a node, its area the time it took. Lines are this device's own measured ceilings: level its "
    "arithmetic, sloping its bandwidth by size of what is read."
)


def _roofline(judged: tuple[Roofline, Ceilings] | None) -> str:
    if judged is None:
        return ""
    picture = roofline_plot(*judged)
    figure = f'<figure class="wide">{picture}</figure>' if picture is not None else ""
    told = "".join(f"<li>{safe.html(each)}</li>" for each in rooflines.advice_lines(judged[0]))
    notes = f'<ul class="notes">{told}</ul>' if told else ""
    line = rooflines.verdict_line(judged[0])
    said = line[0].upper() + line[1:] if judged[0].bound is None else f"Bound by {line}"
    said += f". {_READ_AS}" if figure else "."
    return _section("Roofline", said, figure + notes)


def _choices(run: BenchmarkRun, findings: Findings) -> str:
    grid = tables.choices_grid(run, findings)
    return _table_section(grid, told=frozenset(row[-1].text for row in grid.rows))


def _memory(run: BenchmarkRun, findings: Findings) -> str:
    grid = reading_grids.memory_grid(run, findings)
    return _table_section(grid) if grid.rows else ""


def _tiers(findings: Findings) -> str:
    """The reasons are sentences: they stand below the table, not in a column of it."""
    grid = tiers_grid(findings.tiers, heres(findings))
    short = _said_once(tables.without(grid, "why"), "for")
    said = [*((tier.tier, tier.reason) for tier in findings.tiers), *map(here_line, heres(findings))]
    told = [f"<li><b>{safe.html(label)}</b> {safe.html(text)}</li>" for label, text in said]
    return _table_section(
        short, told, frozenset([*(tier.reason for tier in findings.tiers), *(each.reason for each in heres(findings))])
    )


def _said_once(grid: Grid, title: str) -> Grid:
    """What all rows have alike stands above the table; a wide one would hide its last columns."""
    place = [column.title for column in grid.columns].index(title)
    told = {row[place].text for row in grid.rows} - {units.MISSING}
    return grid if len(told) != 1 else replace(tables.without(grid, title), caption=f"{title} {told.pop()}")


def _elsewhere(run: BenchmarkRun, findings: Findings, results_uri: str | None) -> str:
    lines = others_lines(run, findings.others, results_uri)
    told = [f"<li><b>{safe.html(label)}</b> {safe.html(text)}</li>" for label, text in lines]
    if findings.others.predictions:
        return _table_section(tables.without(others_grid(findings.others), "id"), told)
    return _section(ELSEWHERE, "", f'<ul class="notes">{"".join(told)}</ul>')


def _warnings(findings: Findings) -> str:
    items = "".join(f"<li>{safe.html(each)}</li>" for each in findings.warnings)
    return _section("Warnings", "", f'<ul class="notes">{items}</ul>') if items else ""


def _facts(title: str, told: tuple[tuple[str, str], ...]) -> str:
    return _section(title, "", _definitions(told))


def _definitions(told: tuple[tuple[str, str], ...]) -> str:
    rows = "".join(f"<dt>{safe.html(term)}</dt><dd>{safe.html(text)}</dd>" for term, text in told)
    return f'<dl class="facts">{rows}</dl>'


def _ceilings(judged: tuple[Roofline, Ceilings] | None) -> str:
    """Folded: the plot has the few that the verdict took; who doubts one opens this."""
    if judged is None:
        return ""
    grid = ceilings_grid(judged[1])
    said = f'<p class="caption">{safe.html(grid.caption)}</p>'
    return f"<section><details><summary>{safe.html(grid.title)}</summary>{said}{_table(grid, [])}</details></section>"


def _fingerprint(run: BenchmarkRun) -> str:
    facts = run.plan.device.fingerprint
    if not facts:
        return ""
    told = tuple((fact.name, fact.value or f"{units.MISSING} {fact.reason or 'not readable'}") for fact in facts)
    return f"<section><details><summary>Fingerprint of the device</summary>{_definitions(told)}</details></section>"


def _table_section(grid: Grid, notes: list[str] | None = None, told: frozenset[str] = frozenset()) -> str:
    """A table under its title and caption."""
    return _section(grid.title, grid.caption, _table(grid, notes or [], told))


def _table(grid: Grid, notes: list[str], told: frozenset[str] = frozenset()) -> str:
    """Missing values get numbered reasons below the table, except those `told` in its notes already."""
    footnotes = tables.Footnotes()
    head = "".join(f"<th{_css(column)}>{safe.html(column.title)}</th>" for column in grid.columns)
    rows = "".join(f"<tr>{_row(grid, row, footnotes, told)}</tr>" for row in grid.rows)
    table = f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    items = [f"<li>{number}. {safe.html(reason)}</li>" for number, reason in enumerate(footnotes.lines(), 1)]
    listed = "".join((*items, *notes))
    return table + (f'<ul class="notes">{listed}</ul>' if listed else "")


def _row(grid: Grid, row: tuple[Cell, ...], footnotes: tables.Footnotes, noted: frozenset[str]) -> str:
    cells = []
    for column, cell in zip(grid.columns, row, strict=True):
        reason = tables.footnote(row, cell, noted)
        mark = "" if reason is None else f"<sup>{footnotes.number(reason)}</sup>"
        cells.append(f"<td{_css(column)}>{_cell(cell)}{mark}</td>")
    return "".join(cells)


def _cell(cell: Cell) -> str:
    text = safe.html(cell.text)
    css = _STATE_CSS.get(cell.text.removesuffix(" *"))
    if css:
        text = f'<span class="{css}">{text}</span>'
    if cell.reason is None or cell.text != units.MISSING:
        return text
    return f'<abbr title="{safe.html(cell.reason)}">{text}</abbr>'


def _css(column: Column) -> str:
    return ' class="n"' if column.is_number else (' class="why"' if column.title == "why" else "")


def _section(title: str, caption: str, body: str) -> str:
    said = f'<p class="caption">{safe.html(caption)}</p>' if caption else ""
    return f"<section><h2>{safe.html(title)}</h2>{said}{body}</section>"
