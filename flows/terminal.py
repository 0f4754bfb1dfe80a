"""What a person sees in a terminal: the flows' own lines while they run, and tables at the end."""

import logging
import sys

from rich.console import Console
from rich.text import Text

from flows.endings import Summary
from onnxdyno.domain.text import printable

PIPE_COLUMNS = 120
"""Width of tables where there is no terminal to fit into."""


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
        if ending.screen is not None:
            console.print(ending.screen)
        for kind, uri in ending.uris:
            console.print(Text(f"  {kind}: {printable(uri, 400)}"), soft_wrap=True)
    if summary.endings:
        console.print()
    console.print(Text(summary.describe()), soft_wrap=True)
