"""The temporary Prefect API: a child process that serves one socket it was given and dies with whoever started it.

Run by path, with the standard library and Prefect only: `python -P embedded_server.py SOCKET_FD PARENT_PID HOME`.
"""

import ctypes
import os
import shutil
import signal
import socket
import sys
from types import FrameType

PR_SET_PDEATHSIG = 1


def _die_with(parent_pid: int) -> None:
    """Be told to end when the thread that started this process ends, however it ends (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent_pid:
        sys.exit(0)


def _leave(_signal: int, _frame: FrameType | None) -> None:
    sys.exit(0)


def main() -> None:
    """Serve until told to end; the home folder, which holds nothing worth keeping, goes with it."""
    socket_fd, parent_pid, home = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    signal.signal(signal.SIGTERM, _leave)
    try:
        _die_with(parent_pid)
        import uvicorn
        from prefect.server.api.server import create_app

        # Without the background services (scheduler, late runs, events…): they would wake up beside a measurement.
        served = uvicorn.Config(
            create_app(final=True, webserver_only=True), log_level="warning", timeout_graceful_shutdown=2
        )
        uvicorn.Server(served).run(sockets=[socket.socket(fileno=socket_fd)])
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
