"""A temporary Prefect API where none is configured.

Prefect's own temporary server is started after Prefect was imported, and prints a traceback when the process ends.
This one is a child with its own copy of a migrated SQLite file (migrating takes as long as everything else together),
so runs beside one another do not meet, and it ends after Prefect's last word.
"""

import contextlib
import http.client
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final

from onnxdyno.domain.errors import InfrastructureError

READY_WITHIN_S: Final = 180.0
STOP_WITHIN_S: Final = 5.0


class PrefectServer:
    """A temporary Prefect API on a free port of this machine. Start it from a thread that outlives it."""

    def __init__(self) -> None:
        """Start the child; `wait` says when it answers. Raises `InfrastructureError` if there is no room for its files.

        `TMPDIR` says where they are.
        """
        self._template = _cache() / "prefect" / version("prefect") / "migrated.db"
        self.is_first = not self._template.exists()
        try:
            self.home = Path(tempfile.mkdtemp(prefix="onnxdyno-prefect-"))
            self.log = self.home / "server.log"
            self._database = self.home / "prefect.db"
            if not self.is_first:
                shutil.copyfile(self._template, self._database)
            self._child = self._start()
        except OSError as error:
            message = f"temporary Prefect server: {error}. Check the room there, or set TMPDIR."
            raise InfrastructureError(message, retryable=False) from error

    def _start(self) -> "subprocess.Popen[bytes]":
        with socket.create_server(("127.0.0.1", 0), backlog=128) as listening, self.log.open("wb") as log:
            self.port: int = listening.getsockname()[1]
            fd = listening.fileno()
            script = Path(__file__).with_name("embedded_server.py")
            return subprocess.Popen(  # noqa: S603 - our own script
                [sys.executable, "-P", str(script), str(fd), str(os.getpid()), str(self.home)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.home,  # a prefect.toml of the caller's folder is not for it
                env=server_environment(os.environ, self.home, self._database),
                pass_fds=(fd,),
                start_new_session=True,
            )

    @property
    def url(self) -> str:
        """What PREFECT_API_URL must be."""
        return f"http://127.0.0.1:{self.port}/api"

    def wait(self) -> None:
        """Return when it answers. Raises `InfrastructureError` with the end of its log if it does not start."""
        # The socket listens already, so the one request is answered when the server is up, or cut when it dies.
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=READY_WITHIN_S)
        try:
            connection.request("GET", "/api/ready")
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            said = self._last_words()
            message = (
                f"temporary Prefect server: did not start ({type(error).__name__}: {said}). "
                "Set PREFECT_API_URL to use a server of your own."
            )
            raise InfrastructureError(message, retryable=False) from error
        finally:
            connection.close()
        if status != http.client.OK:
            message = (
                f"temporary Prefect server: answered {status} instead of 200. Set PREFECT_API_URL to use your own."
            )
            raise InfrastructureError(message, retryable=False)
        if self.is_first:
            self._keep_template()

    def _last_words(self) -> str:
        try:
            said = self.log.read_text(errors="replace").split("\n")
        except OSError:
            said = []
        return next((line for line in reversed(said) if line.strip()), "it said nothing")

    def _keep_template(self) -> None:
        """Keep the migrated database for the next start; a cache that cannot be written costs only its time."""
        with contextlib.suppress(OSError, sqlite3.Error):
            self._template.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._template.parent, suffix=".part")
            os.close(handle)
            with (
                contextlib.closing(sqlite3.connect(self._database)) as source,
                contextlib.closing(sqlite3.connect(name)) as copy,
            ):
                source.backup(copy)
                copy.execute("PRAGMA journal_mode=DELETE")
            Path(name).replace(self._template)

    def stop(self) -> None:
        """End the child and its group and remove its home; a second call does nothing."""
        for kind in (signal.SIGTERM, signal.SIGKILL):
            if self._child.poll() is not None:
                break
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, kind)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(STOP_WITHIN_S)
        shutil.rmtree(self.home, ignore_errors=True)


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "onnxdyno"


def server_environment(ours: Mapping[str, str], home: Path, database: Path) -> dict[str, str]:
    """The child's environment: nothing of the caller's Prefect settings, and no credentials of any store."""
    kept = {name: value for name, value in ours.items() if not name.startswith(("PREFECT_", "AWS_"))}
    return kept | {
        "DO_NOT_TRACK": "1",
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_UI_ENABLED": "false",
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{database}",
        "PREFECT_LOGGING_LEVEL": "WARNING",
    }


def configured_url(environment: Mapping[str, str]) -> str | None:
    """The Prefect API that the person has chosen, by variable or by the active profile."""
    if url := environment.get("PREFECT_API_URL"):
        return url
    home = Path(environment.get("PREFECT_HOME") or Path.home() / ".prefect")
    path = Path(environment.get("PREFECT_PROFILES_PATH") or home / "profiles.toml")
    try:
        profiles = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError):
        return None
    active = environment.get("PREFECT_PROFILE") or profiles.get("active")
    chosen = profiles.get("profiles", {}).get(active, {})
    return chosen.get("PREFECT_API_URL") if isinstance(chosen, dict) else None
