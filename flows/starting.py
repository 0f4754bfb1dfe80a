"""Starting a claimed run: as a subflow in this process, or through a deployment wherever its worker is."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import httpx
from prefect import get_run_logger
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.deployments import run_deployment
from prefect.exceptions import ObjectNotFound

from flows.benchmark_model import benchmark_model
from flows.endings import Ending
from onnxdyno import app
from onnxdyno.domain.claims import Candidate, Claim
from onnxdyno.domain.errors import InfrastructureError, OnnxdynoError, UsageError
from onnxdyno.domain.text import printable
from tasks.values import claim_as_parameter

Take = Callable[[Candidate], Claim | None]
"""Claims one candidate; None if somebody else was first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where and with what the claimed runs are started; `deployment` None = one after another in this process."""

    registry_uri: str
    results_uri: str
    device_id: str | None
    deployment: str | None
    parameters: dict[str, Any] | None

    @property
    def is_elsewhere(self) -> bool:
        """Whether the runs are left to a deployment's worker."""
        return self.deployment is not None

    def one(self, mine: Claim) -> Ending:
        """Start the run of this claim. Raises whatever the run raises."""
        given: dict[str, Any] = {
            "registry_uri": self.registry_uri,
            "results_uri": self.results_uri,
            "key": mine.version.key,
            "etag": mine.version.etag,
            "version_id": mine.version.version_id,
            "device_id": self.device_id,
            "reason": mine.reason,
            "parameters": self.parameters,
            "claim": claim_as_parameter(mine),
        }
        if self.deployment is not None:
            return _hand_over(mine, given, self.deployment, self.results_uri)
        # A flow that returns a state yields that state's value when it is called.
        return cast("Ending", benchmark_model(**given))


def start_all(candidates: Iterable[Candidate], *, take: Take, start: Start) -> Iterator[Ending]:
    """Claim and start one after another, saying of each how it ended.

    A model that fails does not stop the others. Two infrastructure failures in a row do: the third model would only
    wait for the same dead endpoint.
    """
    logger = get_run_logger()
    in_a_row = 0
    for candidate in candidates:
        ending = _claim_and_start(candidate, take, start)
        logger.info("%s: %s", printable(ending.key), ending.line)
        yield ending
        in_a_row = in_a_row + 1 if ending.exit_code == InfrastructureError.exit_code else 0
        if in_a_row == 2:
            return


def _claim_and_start(candidate: Candidate, take: Take, start: Start) -> Ending:
    key = candidate.version.key
    try:
        mine = take(candidate)
        if mine is None:
            return Ending(key=key, status="taken", line="not started: somebody else claimed it first")
        return start.one(mine)
    except OnnxdynoError as error:
        return Ending(key=key, status="failed", line=f"failed: {printable(str(error), 400)}", exit_code=error.exit_code)
    except Exception as error:  # noqa: BLE001 - a fault of ours on one model; Prefect has logged it with its traceback
        line = f"failed: {type(error).__name__}: {printable(str(error), 400)}; a fault of onnxdyno, the log has more"
        return Ending(key=key, status="failed", line=line, exit_code=1)


def _hand_over(mine: Claim, given: dict[str, Any], deployment: str, results_uri: str) -> Ending:
    """Leave it to a deployment and do not wait. The claim's key makes a second call harmless."""
    try:
        run = cast(
            "FlowRun",
            run_deployment(
                name=deployment,
                parameters=given,
                timeout=0,
                as_subflow=False,
                idempotency_key=mine.key,
                tags=["onnxdyno"],
            ),
        )
    except (ObjectNotFound, httpx.HTTPError) as error:
        cause = f"{deployment}: the Prefect API did not take the run ({type(error).__name__}); the next look retries it"
        failure = InfrastructureError(cause)
        app.finish(mine, results_uri=results_uri, error=failure)
        raise failure from error
    return Ending(key=mine.version.key, status="started", line=f"started: {deployment}, run {run.name}")


def check_deployment(name: str | None) -> None:
    """Before anything is claimed for it. Raises `UsageError` if this Prefect server has no such deployment."""
    if name is None:
        return
    with get_client(sync_client=True) as client:
        try:
            client.read_deployment_by_name(name)
        except (ObjectNotFound, ValueError):
            message = (
                f"deployment {printable(name)!r}: not on the Prefect server. Expected <flow>/<deployment>, for example "
                "benchmark-model/cpu; run `prefect --no-prompt deploy --all` with this project's prefect.yaml."
            )
            raise UsageError(message) from None
