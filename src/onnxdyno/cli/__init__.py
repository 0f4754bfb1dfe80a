"""The command line. Heavy parts are imported by the commands that need them, so that `--help` is quick."""

import signal
from types import FrameType


def main() -> None:
    """Entry point of the `onnxdyno` command."""
    from onnxdyno.cli.commands import app

    signal.signal(signal.SIGTERM, _interrupt)
    app()


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """End as with Ctrl-C, so that processes are reaped and nothing is left half-written."""
    raise KeyboardInterrupt
