"""The command line. Heavy parts are imported by the commands that need them, so that `--help` is quick."""

import io
import os
import signal
import sys
from types import FrameType


def main() -> None:
    """Entry point of the `onnxdyno` command."""
    from onnxdyno.cli.commands import app

    signal.signal(signal.SIGTERM, _interrupt)
    _safe_streams()
    app()


def _safe_streams() -> None:
    """Standard streams that take any text: what a terminal's encoding lacks is escaped, what is closed leads nowhere.

    A closed descriptor would else be given to the next file or pipe that is opened.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """End as with Ctrl-C, so that processes are reaped and nothing is left half-written."""
    raise KeyboardInterrupt
