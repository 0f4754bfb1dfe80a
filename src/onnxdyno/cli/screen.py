"""The terminal: errors in one line, progress on standard error, results on standard output."""

import csv
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console

from onnxdyno.domain.errors import ModelError, NothingMeasured, OnnxdynoError
from onnxdyno.domain.runs import Progress
from onnxdyno.domain.text import printable

INTERRUPTED = 130
MOST_ROWS = 200
_KINDS = {2: "usage", 4: "infrastructure", 5: "device"}


@contextmanager
def one_line_errors(*, as_json: bool) -> Iterator[None]:
    """Every expected failure as one line on standard error (and, with --json, as one object), with its exit code."""
    try:
        yield
    except NothingMeasured as error:
        _complain(str(error))
        raise typer.Exit(error.exit_code) from None
    except OnnxdynoError as error:
        _complain(str(error))
        if as_json:
            write(_refusal(error))
        raise typer.Exit(error.exit_code) from None
    except KeyboardInterrupt:
        _complain("interrupted; finished points are kept where results are written (--out, --results).")
        raise typer.Exit(INTERRUPTED) from None


def _refusal(error: OnnxdynoError) -> str:
    from onnxdyno.reporting import documents

    if isinstance(error, ModelError):
        return documents.dumps(documents.error_document(error.state.value, error.reason, error.remedy))
    kind = _KINDS.get(error.exit_code, "error")
    return documents.dumps(documents.error_document(kind, str(error), ""))


@contextmanager
def progress() -> Iterator[Callable[[Progress], None]]:
    """A bar on standard error where that is a terminal, else a line now and then."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _quiet_progress()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def tell(step: Progress) -> None:
            text = printable(step.text, 60)
            bar.update(task, completed=step.done, total=step.total, description=text.replace("[", "\\["))

        yield tell


def _quiet_progress() -> Callable[[Progress], None]:
    last = ""

    def tell(step: Progress) -> None:
        nonlocal last
        phase = step.text.split("  ")[0].split(" ")[0]
        if phase != last:
            last = phase
            sys.stderr.write(f"{step.done}/{step.total} {printable(step.text, 100)}\n")

    return tell


def _complain(text: str) -> None:
    sys.stderr.write(f"onnxdyno: {printable(text, 2000)}\n")


def write(text: str) -> None:
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")


def show(renderable: Any) -> None:
    Console().print(renderable)


def rows_table(found: Any) -> Any:
    """A pyarrow table as a rich table; the first 200 rows, and how many there are."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in found.column_names:
        table.add_column(Text(printable(name)), overflow="fold")
    for row in found.slice(0, MOST_ROWS).to_pylist():
        table.add_row(*(Text(printable(_cell(value), 200)) for value in row.values()))
    if found.num_rows > MOST_ROWS:
        table.caption = f"first {MOST_ROWS} of {found.num_rows:,} rows; use --csv or --json for all, or a LIMIT."
    return table


def rows_csv(found: Any) -> str:
    """A pyarrow table as CSV; an empty field is null."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(found.column_names)
    writer.writerows(list(row.values()) for row in found.to_pylist())
    return text.getvalue()


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
