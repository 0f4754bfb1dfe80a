"""One model on one device: claim > pull > inspect > plan > measure > analyse > store > report > finish."""

import contextlib
from typing import Any

from prefect import flow, get_run_logger
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed

from flows.endings import Ending, failed
from flows.names import device_name
from flows.progress import ProgressArtifact
from onnxdyno import app
from onnxdyno.domain.claims import Candidate, Claim
from onnxdyno.domain.devices import Device
from onnxdyno.domain.errors import ModelError, ObjectMissing, OnnxdynoError
from onnxdyno.domain.models import ObjectVersion
from onnxdyno.domain.text import printable
from tasks import measuring, registry, results
from tasks.naming import artifact_key, literal
from tasks.values import claim_from_parameter, whole


def _run_name() -> str:
    return f"{printable(str(flow_run.parameters['key']))} on {device_name()}"


@flow(name="benchmark-model", flow_run_name=_run_name, persist_result=False)
def benchmark_model(
    registry_uri: str,
    results_uri: str,
    key: str,
    *,
    etag: str | None = None,
    version_id: str | None = None,
    device_id: str | None = None,
    reason: str = "upload",
    parameters: dict[str, Any] | None = None,
    claim: dict[str, Any] | None = None,
) -> State[Ending]:
    """Measure the model `key` of `registry_uri` on one device and write tables and summaries under `results_uri`.

    Args:
        etag: Only this version; what is there now when left out (likewise `version_id`).
        device_id: An id, class, kind or `cuda:<index>` as `onnxdyno devices` lists them; the CPU when left out.
        reason: Stored with the results.
        parameters: Part of a spec; wins over the model's sidecar.
        claim: The claim that watch_registry made for this run; the flow makes its own when left out.

    Ends as Completed, also when the model was refused (named Quarantined) or is not to be run now (named Taken); as
    Failed, with one line, for any other `OnnxdynoError`, which a caller in the same process gets raised.
    """
    wanted = ObjectVersion(store_uri=registry_uri, key=key, etag=etag or "", version_id=version_id, size_bytes=0)
    try:
        on = app.device(device_id)
        mine = _mine(wanted, on, results_uri, reason=reason, claim=claim)
        ending = mine if isinstance(mine, Ending) else _attempt(mine, on, results_uri, parameters)
    except OnnxdynoError as error:
        return failed(error)
    name = "Completed" if ending.status == "committed" else ending.status.capitalize()
    return Completed(name=name, message=ending.line, data=ending)


def _mine(
    wanted: ObjectVersion, on: Device, results_uri: str, *, reason: str, claim: dict[str, Any] | None
) -> Claim | Ending:
    """The claim to run: the given one, or one made now; or why there is nothing to run. Raises `ObjectMissing`."""
    if claim is not None:
        given = claim_from_parameter(claim)
        registry.take(given, results_uri=results_uri)
        return given
    candidate = _find(wanted, on, results_uri)
    if (wanted.etag and wanted.etag != candidate.version.etag) or (
        wanted.version_id and wanted.version_id != candidate.version.version_id
    ):
        return Ending(
            key=wanted.key, status="taken", line="not started: replaced since; the new version gets its own run"
        )
    if not candidate.is_startable:
        why = f" ({printable(candidate.reason)})" if candidate.reason else ""
        line = f"not started: {candidate.status} on {candidate.device_class}{why}"
        return Ending(key=wanted.key, status="taken", line=line)
    mine = registry.claim(candidate, results_uri=results_uri, reason=reason, is_scheduled=False)
    return mine or Ending(key=wanted.key, status="taken", line="not started: somebody else claimed it first")


def _find(wanted: ObjectVersion, on: Device, results_uri: str) -> Candidate:
    seen = registry.survey(registry_uri=wanted.store_uri, results_uri=results_uri, on=on)
    candidate = next((one for one in seen if one.version.key == wanted.key), None)
    if candidate is None:
        message = (
            f"{printable(wanted.store_uri, 200)}: no model under the key {printable(wanted.key)!r}; "
            f"expected one of the {len(seen)} `.onnx` objects there, check `key`."
        )
        raise ObjectMissing(message)
    return candidate


def _attempt(mine: Claim, on: Device, results_uri: str, parameters: dict[str, Any] | None) -> Ending:
    """Run the claimed attempt and record its end, however it ends."""
    try:
        ending = _steps(mine, on, results_uri, parameters)
        registry.finish(mine, results_uri=results_uri, error=None)
    except ModelError as error:
        registry.finish(mine, results_uri=results_uri, error=error)
        line = f"quarantined: {printable(str(error), most=400)}"
        return Ending(key=mine.version.key, status="quarantined", line=line)
    except BaseException as error:
        # Not a task: Prefect refuses new ones while a run is being ended, and a store that is down has its say already.
        with contextlib.suppress(OnnxdynoError):
            app.finish(
                mine, results_uri=results_uri, error=error if isinstance(error, Exception) else KeyboardInterrupt()
            )
        raise
    return ending


def _steps(mine: Claim, on: Device, results_uri: str, parameters: dict[str, Any] | None) -> Ending:
    pulled = measuring.prepare(registry.pull(mine.version), on=on, parameters=parameters)
    signature = registry.inspect(pulled.local.path)
    planned = measuring.plan(pulled, signature, on=on, parameters=parameters)
    tell = ProgressArtifact(printable(mine.version.key), get_run_logger())
    run = measuring.measure(
        whole(planned), whole(signature), origin=app.origin(mine), results_uri=results_uri, tell=whole(tell)
    )
    findings = results.analyse(whole(run))
    rows_uri = results.store(whole(run), whole(findings), results_uri=results_uri)
    page = results.report(whole(run), whole(findings), results_uri=results_uri)
    identity = (mine.version.key, mine.version.store_uri, on.device_class)
    create_table_artifact(
        key=artifact_key("points", *identity),
        table=[{title: literal(text) for title, text in row.items()} for row in page.points],
    )
    create_markdown_artifact(key=artifact_key("summary", *identity), markdown=page.markdown)
    measured = sum(point.state.is_measured for point in findings.points)
    line = f"committed: {measured} of {len(findings.points)} points measured"
    uris = (("run", rows_uri), *page.uris)
    return Ending(key=mine.version.key, status="committed", line=line, screen=page.screen, uris=uris)
