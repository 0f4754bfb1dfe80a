"""Run the flows with nothing to start: what `onnxdyno run` and `python -m flows.watch_registry` call.

Nothing here imports Prefect before its API is known: it reads only once where that is.
"""

import argparse
import atexit
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Mapping
from types import FrameType
from typing import Any, Final, NoReturn, cast

from flows.temporary_server import PrefectServer, configured_url
from onnxdyno.domain.errors import OnnxdynoError, UsageError

INTERRUPTED: Final = 128 + signal.SIGINT
TERMINATED: Final = 128 + signal.SIGTERM
QUIET: Final = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_LOGGING_LOGGERS_PREFECT_TASK_RUNS_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_FORMATTERS_STANDARD_FLOW_RUN_FMT": "%(asctime)s | %(flow_run_name)s | %(message)s",
}
"""Defaults for a person's terminal: no telemetry, and of a run what its flows say, who repeat what ends a task."""


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
    parser.add_argument("--parameters", type=_json_object, metavar="JSON", help='part of a spec, e.g. {"budget_s": 20}')
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
        raise argparse.ArgumentTypeError('a JSON object is expected, e.g. {"budget_s": 20}')
    return value
