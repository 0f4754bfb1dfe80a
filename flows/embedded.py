"""Run the flows with nothing to start: a temporary Prefect API of our own where none is configured.

Prefect's own temporary server is started after Prefect was imported, and prints a traceback when the process ends.
This one is a child with its own copy of a migrated SQLite file (migrating takes as long as everything else together),
so runs beside one another do not meet, and it ends after Prefect's last word.
"""

import argparse
import atexit
import contextlib
import http.client
import json
import logging
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn, cast

from onnxdyno.domain.errors import InfrastructureError, OnnxdynoError, UsageError

READY_WITHIN_S: Final = 180.0
STOP_WITHIN_S: Final = 5.0
INTERRUPTED: Final = 128 + signal.SIGINT
TERMINATED: Final = 128 + signal.SIGTERM
QUIET: Final = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_LOGGING_LOGGERS_PREFECT_TASK_RUNS_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_FORMATTERS_STANDARD_FLOW_RUN_FMT": "%(asctime)s | %(flow_run_name)s | %(message)s",
}
"""Defaults for a person's terminal: no telemetry, and of a run what its flows say, who repeat what ends a task."""


class PrefectServer:
    """A temporary Prefect API on a free port of this machine. Start it from a thread that outlives it."""

    def __init__(self) -> None:
        """Start the child; `wait` says when it answers."""
        self.home = Path(tempfile.mkdtemp(prefix="onnxdyno-prefect-"))
        self.log = self.home / "server.log"
        self._template = _cache() / "prefect" / version("prefect") / "migrated.db"
        self._database = self.home / "prefect.db"
        self.is_first = not self._template.exists()
        if not self.is_first:
            shutil.copyfile(self._template, self._database)
        with socket.create_server(("127.0.0.1", 0), backlog=128) as listening, self.log.open("wb") as log:
            self.port: int = listening.getsockname()[1]
            fd = listening.fileno()
            self._child = subprocess.Popen(  # noqa: S603 - our own script
                [
                    sys.executable,
                    "-P",
                    str(Path(__file__).with_name("embedded_server.py")),
                    str(fd),
                    str(os.getpid()),
                    str(self.home),
                ],
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


def ensure_api() -> None:
    """See to it that a Prefect API answers until this process ends: the configured one, else a temporary one.

    Raises `UsageError` if Prefect was imported too early, `InfrastructureError` if the server does not start.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    if configured_url(os.environ):
        return
    if "prefect" in sys.modules:
        message = "PREFECT_API_URL: not set, and Prefect is imported already, too late for a temporary server. Set it."
        raise UsageError(message)
    began_s = time.monotonic()
    server = PrefectServer()
    atexit.register(server.stop)  # before Prefect registers its own: what is registered last runs first
    _say(
        "Starting a temporary Prefect server" + (" (longer the first time)" if server.is_first else "") + " … ", end=""
    )
    os.environ |= {"PREFECT_API_URL": server.url, "PREFECT_LOGGING_TO_API_ENABLED": "false"}
    os.environ.setdefault("PREFECT_HOME", str(server.home))
    import flows.watch_registry  # noqa: F401 - takes as long as the server does: side by side

    server.wait()
    _say(f"ready after {time.monotonic() - began_s:.1f} s")


def run_once(registry_uri: str, results_uri: str, device: str | None, parameters: Mapping[str, Any] | None) -> int:
    """Look at the registry once, measure what is new in this process, print tables; returns the exit code."""
    return _run(
        {"registry_uri": registry_uri, "results_uri": results_uri, "device_id": device, "parameters": parameters}
    )


def _run(given: dict[str, Any]) -> int:
    """Run watch_registry with these parameters. Every expected end is one line and an exit code, never a traceback."""
    previous = signal.signal(signal.SIGTERM, _terminate)
    try:
        ensure_api()
        from flows.terminal import OnlyFlowLines, show
        from flows.watch_registry import watch_registry

        logging.getLogger("prefect.flow_runs").addFilter(OnlyFlowLines())
        summary = cast("Any", watch_registry(**given))
        show(summary)
        return int(summary.exit_code)
    except OnnxdynoError as error:
        _say(f"onnxdyno: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        _say("onnxdyno: interrupted; what is finished is kept, run the same command again to go on")
        return INTERRUPTED
    except SystemExit:  # by `_terminate`, also out of a flow: Prefect hands SIGTERM on when the flow is wound up
        _say("onnxdyno: terminated; what is finished is kept, run the same command again to go on")
        return TERMINATED
    finally:
        signal.signal(signal.SIGTERM, previous)


def _terminate(_signal: int, _frame: FrameType | None) -> NoReturn:
    """SIGTERM while no flow runs: leave through the exit handlers."""
    raise SystemExit(TERMINATED)


def _say(text: str, end: str = "\n") -> None:
    sys.stderr.write(text + end)
    sys.stderr.flush()


def main(arguments: list[str] | None = None) -> int:
    """`python -m flows.watch_registry`."""
    parser = argparse.ArgumentParser(
        prog="python -m flows.watch_registry",
        description="Measure every model of a registry that is new on this device; start nothing first.",
    )
    parser.add_argument("--registry", required=True, metavar="URI", help="file:FOLDER or s3://bucket/prefix")
    parser.add_argument("--results", required=True, metavar="URI", help="file:FOLDER or s3://bucket/prefix")
    parser.add_argument("--device", help="id, class, kind or cuda:<index>; default: the CPU")
    parser.add_argument("--deployment", help="run the models through this Prefect deployment, e.g. benchmark-model/cpu")
    parser.add_argument("--parameters", type=_json_object, metavar="JSON", help='part of a spec, e.g. {"budget": 20}')
    parser.add_argument("--limit", type=int, metavar="N", help="at most so many models now")
    given = parser.parse_args(arguments)
    return _run(
        {
            "registry_uri": given.registry,
            "results_uri": given.results,
            "device_id": given.device,
            "deployment": given.deployment,
            "parameters": given.parameters,
            "limit": given.limit,
        }
    )


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError('a JSON object is expected, e.g. {"budget": 20}')
    return value
