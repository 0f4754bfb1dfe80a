"""What a person sees in a terminal: the flows' own lines while they run, and tables at the end."""

import logging
import sys

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flows.endings import Row, Summary
from flows.tables import NOTHING
from onnxdyno.domain.text import printable

PIPE_COLUMNS = 160
"""Width of tables where there is no terminal to fit into."""

NOTE_CHARACTERS = 56
"""The summary has the reasons in full."""


class OnlyFlowLines(logging.Filter):
    """Drops what Prefect's engine says of every run that goes well; its warnings and errors stay."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is shown."""
        return record.levelno >= logging.WARNING or record.module not in ("flow_engine", "task_engine")


def show(summary: Summary) -> None:
    """Print one table per measured model with where its results are, one line per other model, and the summary."""
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else PIPE_COLUMNS)
    for ending in summary.endings:
        console.print()
        console.print(Text(printable(ending.key), style="bold"), end="  ")
        console.print(Text(ending.line), soft_wrap=True)
        if ending.rows:
            console.print(_table(ending.rows))
        for kind, uri in ending.uris:
            console.print(Text(f"  {kind}: {printable(uri, 400)}"), soft_wrap=True)
    if summary.endings:
        console.print()
    console.print(Text(summary.describe()), soft_wrap=True)


def _table(rows: tuple[Row, ...]) -> Table:
    """Columns that say nothing in any row are left out."""
    titles = [title for title in rows[0] if any(row[title] not in ("", NOTHING) for row in rows)]
    table = Table(box=None, header_style="dim", pad_edge=False)
    for title in titles:
        is_text = title in ("point", "variant", "state", "note")
        table.add_column(title, justify="left" if is_text else "right", no_wrap=title != "note")
    for row in rows:
        table.add_row(*(Text(_cell(row, title)) for title in titles))
    return table


def _cell(row: Row, title: str) -> str:
    return printable(row[title], NOTE_CHARACTERS) if title == "note" else row[title]
