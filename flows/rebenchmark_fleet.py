"""Measure every committed model, or those that match, once more: after a driver or runtime upgrade."""

from fnmatch import fnmatchcase
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
    return f"re-benchmark on {device_name()}"


@flow(name="rebenchmark-fleet", flow_run_name=_run_name, persist_result=False)
def rebenchmark_fleet(
    registry_uri: str,
    results_uri: str,
    *,
    reason: str = "scheduled",
    device_id: str | None = None,
    models: str = "*",
    deployment: str | None = None,
    parameters: dict[str, Any] | None = None,
    limit: int | None = None,
) -> State[Summary]:
    """Start one more `benchmark_model` for every model that is committed on this device class.

    Args:
        reason: Stored with the results, for example `driver 580.95`.
        models: A glob over model keys, case-sensitive; `*` also crosses `/`.

    The others as for watch_registry, and likewise its end.
    """
    start = Start(
        registry_uri=registry_uri,
        results_uri=results_uri,
        device_id=device_id,
        deployment=deployment,
        parameters=parameters,
    )
    try:
        summary = _again(start, reason=reason, models=models, limit=limit)
    except OnnxdynoError as error:
        return failed(error)
    get_run_logger().info("%s", summary.describe())
    return Completed(message=summary.describe(), data=summary)


def _again(start: Start, *, reason: str, models: str, limit: int | None) -> Summary:
    check_deployment(start.deployment)
    on = app.device(start.device_id)
    seen = registry.survey(registry_uri=start.registry_uri, results_uri=start.results_uri, on=on)
    wanted = [one for one in seen if one.status == "committed" and fnmatchcase(one.version.key, models)]

    def take(candidate: Candidate) -> Claim | None:
        return registry.claim(candidate, results_uri=start.results_uri, reason=reason, is_scheduled=start.is_elsewhere)

    endings = tuple(start_all(wanted[:limit], take=take, start=start))
    return Summary(device_class=on.device_class, endings=endings, standing=(), left=len(wanted) - len(endings))
