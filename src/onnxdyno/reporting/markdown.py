"""summary.md: one page that reads well in a terminal, in a pull request and in an artifact view."""

from onnxdyno.domain.ceilings import Ceilings
from onnxdyno.domain.findings import Findings
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.domain.verdicts import Roofline
from onnxdyno.reporting import grid as tables
from onnxdyno.reporting import prose, reading_grids, rooflines, safe, units
from onnxdyno.reporting.ceilings import ceilings_grid
from onnxdyno.reporting.elsewhere import TITLE as ELSEWHERE
from onnxdyno.reporting.elsewhere import others_grid, others_lines
from onnxdyno.reporting.grid import Cell, Grid
from onnxdyno.reporting.tiers import heres, tiers_grid


def summary(
    run: BenchmarkRun,
    findings: Findings,
    judged: tuple[Roofline, Ceilings] | None = None,
    *,
    results_uri: str | None = None,
) -> str:
    """The whole page; ends with a newline. With its verdict and ceilings where the device is calibrated."""
    parts = [
        f"# {safe.markdown(run.plan.model.ref.name)}",
        " · ".join(safe.markdown(each) for each in prose.subtitle(run)),
        *(_paragraph(name, value) for name, value in prose.headlines(run, findings)),
        _section(tables.points_grid(run, findings)),
    ]
    parts += _notes(run, findings)
    parts += [_section(tables.nodes_grid(each)) for each in findings.profiles[:1] if each.nodes]
    parts += [
        f"Slowest nodes: {safe.markdown(each.reason or 'no profile')}" for each in findings.profiles if not each.nodes
    ]
    parts += [] if judged is None else [_roofline(judged[0])]
    memory = reading_grids.memory_grid(run, findings)
    parts += [_section(memory)] if memory.rows else []
    parts += [_section(reading_grids.cold_grid(findings))] if findings.cold else []
    parts += [_section(tables.choices_grid(run, findings)), _section(tiers_grid(findings.tiers, heres(findings)))]
    parts.append(_elsewhere(run, findings, results_uri))
    parts += [] if judged is None else [_section(ceilings_grid(judged[1]))]
    if findings.warnings:
        parts.append("## Warnings\n\n" + "\n".join(f"- {safe.markdown(each)}" for each in findings.warnings))
    parts.append("## How it was measured\n\n" + "\n".join(f"- {_paragraph(*each)}" for each in prose.method(run)))
    return "\n\n".join(parts) + "\n"


def _roofline(found: Roofline) -> str:
    lines = [rooflines.verdict_line(found), *rooflines.advice_lines(found)]
    return "## Roofline\n\n" + "\n".join(f"- {safe.markdown(each)}" for each in lines)


def _elsewhere(run: BenchmarkRun, findings: Findings, results_uri: str | None) -> str:
    found = findings.others
    lines = others_lines(run, found, results_uri)
    told = "\n".join(f"- {_paragraph(label, text)}" for label, text in lines)
    return f"{_section(others_grid(found)) if found.predictions else f'## {ELSEWHERE}'}\n\n{told}"


def _paragraph(name: str, value: str) -> str:
    return f"**{safe.markdown(name)}**: {safe.markdown(value)}"


def _section(grid: Grid) -> str:
    """A table; the reasons of its missing values are numbered below it."""
    reasons = tables.Footnotes()
    header = "| " + " | ".join(safe.markdown(column.title) for column in grid.columns) + " |"
    ruler = "|" + "|".join("---:" if column.is_number else ":---" for column in grid.columns) + "|"
    body = ["| " + " | ".join(_cell(row, cell, reasons) for cell in row) + " |" for row in grid.rows]
    lines = [f"## {grid.title}", ""]
    lines += [safe.markdown(grid.caption), ""] if grid.caption else []
    lines += [header, ruler, *body]
    if reasons.lines():
        lines += ["", *(f"{number}. {safe.markdown(reason)}" for number, reason in enumerate(reasons.lines(), 1))]
    return "\n".join(lines)


def _cell(row: tuple[Cell, ...], cell: Cell, reasons: tables.Footnotes) -> str:
    reason = tables.footnote(row, cell, frozenset({row[-1].text} - {units.MISSING}))
    text = safe.markdown(cell.text)
    return text if reason is None else f"{text} ({reasons.number(reason)})"


def _notes(run: BenchmarkRun, findings: Findings) -> list[str]:
    lines = [
        f"- **{safe.markdown(note.state)}** {safe.markdown(', '.join(note.points))}: {safe.markdown(note.text)}"
        for note in tables.notes(run, findings)
    ]
    return ["## Beside the numbers\n\n" + "\n".join(lines)] if lines else []
