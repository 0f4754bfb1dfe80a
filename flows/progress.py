"""Progress of a measurement for people: an artifact and a log line, seldom: both cost the machine that measures."""

import time
from collections.abc import Callable
from logging import Logger, LoggerAdapter
from typing import Any, Final, cast
from uuid import UUID

import httpx
from prefect.artifacts import create_progress_artifact, update_progress_artifact

from onnxdyno.domain.runs import Progress
from onnxdyno.domain.text import printable
from tasks.naming import literal

EVERY_S: Final = 5.0
"""An update takes the server and this process tens of milliseconds of CPU beside the one that is being measured."""


class ProgressArtifact:
    """Call it with every `Progress`; it passes on the first, the last, and one in five seconds."""

    def __init__(
        self, name: str, logger: "Logger | LoggerAdapter[Any]", *, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._name = name
        self._logger = logger
        self._clock_s = clock_s
        self._told_at_s: float | None = None
        self._artifact = cast("UUID", create_progress_artifact(progress=0.0, description=f"Measuring {literal(name)}"))

    def __call__(self, progress: Progress) -> None:
        """Pass `progress` on if it is time to. A Prefect server that does not answer costs the update, not the run."""
        now_s = self._clock_s()
        is_last = progress.done >= progress.total
        if self._told_at_s is not None and now_s - self._told_at_s < EVERY_S and not is_last:
            return
        self._told_at_s = now_s
        text = printable(progress.text)
        self._logger.info("%d of %d: %s", progress.done, progress.total, text)
        percent = 100.0 * min(progress.done, progress.total) / max(progress.total, 1)
        try:
            update_progress_artifact(self._artifact, progress=percent, description=literal(f"{self._name}: {text}"))
        except httpx.HTTPError as error:
            self._logger.warning("progress not shown: the Prefect API did not answer (%s)", type(error).__name__)
