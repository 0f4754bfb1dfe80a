"""The one retry rule: only what may succeed later is tried again, and only a few times."""

import logging
from typing import Any, Final

from prefect import Task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun

from onnxdyno.domain.errors import InfrastructureError, ObjectChanged, OnnxdynoError
from onnxdyno.domain.text import printable

RETRIES: Final = 2
DELAYS_S: Final = (2.0, 8.0)
"""Short, so that a dead endpoint is reported within half a minute; whatever lasts longer is for the next schedule."""
JITTER: Final = 0.3


def is_worth_retrying(_task: Task[..., Any], _task_run: TaskRun, state: State[Any]) -> bool:
    """Whether the same call may succeed later: an `InfrastructureError` that says so, and nothing else.

    `ObjectChanged` is left to the next survey: the version that was asked for will not come back.
    """
    error = state.data
    return isinstance(error, InfrastructureError) and error.retryable and not isinstance(error, ObjectChanged)


class _ExpectedFailuresAreOneLine(logging.Filter):
    """Replaces the traceback of an `OnnxdynoError` by its text, which says what to do; its stack helps nobody."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, OnnxdynoError):
            record.exc_info = None
            said = record.getMessage()
            if str(error) not in said:
                record.msg, record.args = "%s: %s", (said, printable(str(error), 1000))
        return True


ONCE: Final[dict[str, Any]] = {"persist_result": False, "cache_policy": NO_CACHE}
"""Options of every task: nothing of a run is kept in Prefect, object storage has it all."""

RETRIED: Final[dict[str, Any]] = {
    **ONCE,
    "retries": RETRIES,
    "retry_delay_seconds": list(DELAYS_S),
    "retry_jitter_factor": JITTER,
    "retry_condition_fn": is_worth_retrying,
}
"""Options of a task that talks to the outside."""

for _name in ("prefect.task_runs", "prefect.flow_runs", "prefect.engine"):
    logging.getLogger(_name).addFilter(_ExpectedFailuresAreOneLine())
