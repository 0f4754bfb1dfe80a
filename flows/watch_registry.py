"""Look at the registry once and start one benchmark for each model version that is new on this device class."""

import sys

if __name__ == "__main__":  # before Prefect is imported: it reads where its API is only once
    from flows.embedded import main

    sys.exit(main())

from collections import Counter
from typing import Any

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.states import Completed

from flows.endings import Summary, failed
from flows.names import device_name
from flows.starting import Start, check_deployment, start_all
from onnxdyno import app
from onnxdyno.domain.claims import Candidate, Claim
from onnxdyno.domain.errors import OnnxdynoError
from tasks import registry


def _run_name() -> str:
    return f"watch on {device_name()}"


@flow(name="watch-registry", flow_run_name=_run_name, persist_result=False)
def watch_registry(
    registry_uri: str,
    results_uri: str,
    *,
    device_id: str | None = None,
    deployment: str | None = None,
    parameters: dict[str, Any] | None = None,
    limit: int | None = None,
) -> State[Summary]:
    """Start `benchmark_model` for every model version of the registry that has no claim on this device class yet.

    Args:
        device_id: As for benchmark_model. Its class decides what is new, so this flow runs on a machine that has it.
        deployment: `<flow>/<deployment>` that runs the models; in this process, one after another, when left out.
        parameters: Part of a spec, for every model.
        limit: At most this many models now.

    One failing model does not stop the others. Ends as Failed, with one line, when the registry cannot be looked at
    or the device or deployment does not exist; a caller in the same process gets that `OnnxdynoError` raised.
    """
    start = Start(
        registry_uri=registry_uri,
        results_uri=results_uri,
        device_id=device_id,
        deployment=deployment,
        parameters=parameters,
    )
    try:
        summary = _look(start, limit)
    except OnnxdynoError as error:
        return failed(error)
    get_run_logger().info("%s", summary.describe())
    return Completed(message=summary.describe(), data=summary)


def _look(start: Start, limit: int | None) -> Summary:
    check_deployment(start.deployment)
    on = app.device(start.device_id)
    seen = registry.survey(registry_uri=start.registry_uri, results_uri=start.results_uri, on=on)
    startable = [candidate for candidate in seen if candidate.is_startable]

    def take(candidate: Candidate) -> Claim | None:
        reason = "upload" if candidate.status == "new" else candidate.status
        return registry.claim(candidate, results_uri=start.results_uri, reason=reason, is_scheduled=start.is_elsewhere)

    endings = tuple(start_all(startable[:limit], take=take, start=start))
    standing = Counter(candidate.status for candidate in seen if not candidate.is_startable)
    return Summary(
        device_class=on.device_class,
        endings=endings,
        standing=tuple(standing.items()),
        left=len(startable) - len(endings),
    )
