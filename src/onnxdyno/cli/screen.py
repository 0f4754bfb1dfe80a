"""The terminal: errors in one line, progress on standard error, results on standard output."""

import csv
import errno
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console

from onnxdyno.domain.errors import InfrastructureError, ModelError, NothingMeasured, OnnxdynoError, UsageError
from onnxdyno.domain.runs import Progress
from onnxdyno.domain.text import printable

INTERRUPTED = 130
MOST_ROWS = 200
LEAST_WIDTH, USUAL_WIDTH = 20, 80
"""A terminal that claims fewer columns (COLUMNS=0) says nothing of itself."""
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


def warn(text: str) -> None:
    """One line on standard error of what a reader must know; the command goes on."""
    _complain(f"warning: {text}")


def write(text: str) -> None:
    """Text on standard output. Raises `InfrastructureError` if it cannot be written; a closed pipe ends quietly."""
    with _standard_output():
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")


def show(renderable: Any) -> None:
    """A rich renderable on standard output; as `write`."""
    console = Console()
    if console.width < LEAST_WIDTH:
        console = Console(width=USUAL_WIDTH)
    with _standard_output():
        console.print(renderable)


@contextmanager
def _standard_output() -> Iterator[None]:
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still in the buffer is lost: nothing more to complain of
        raise InfrastructureError(
            f"standard output: {error.strerror}. Send it where there is room.", retryable=False
        ) from error


def rows_table(found: Any) -> Any:
    """A pyarrow table as a rich table; the first 200 rows, and how many there are."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in found.column_names:
        table.add_column(Text(printable(name)), overflow="fold")
    for row in _rows(found.slice(0, MOST_ROWS)):
        table.add_row(*(Text(printable(_cell(value), 200)) for value in row))
    if found.num_rows > MOST_ROWS:
        table.caption = f"first {MOST_ROWS} of {found.num_rows:,} rows; use --csv or --json for all, or a LIMIT."
    return table


def rows_csv(found: Any) -> str:
    """A pyarrow table as CSV, an empty field is null; exact in a file or pipe, printable on a terminal."""
    shown = _escaped if sys.stdout.isatty() else _exact
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([shown(name) for name in found.column_names])
    writer.writerows([shown(value) for value in row] for row in _rows(found))
    return text.getvalue()


def rows_json(found: Any) -> str:
    """A pyarrow table as one JSON object. Raises `UsageError` where two columns have one name."""
    from onnxdyno.reporting import documents

    names = found.column_names
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise UsageError(f"two columns are named {twice!r}: an object has each key once. Rename one with AS.")
    return documents.dumps({"rows": found.to_pylist()})


def _rows(found: Any) -> Iterator[tuple[Any, ...]]:
    """Row by row, by place: names of columns may repeat."""
    return zip(*(column.to_pylist() for column in found.columns), strict=True)


def _exact(value: Any) -> Any:
    return value


def _escaped(value: Any) -> Any:
    return printable(value, len(value)) if isinstance(value, str) else value


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
