"""The registry: what is there, who may run it, its bytes on this machine."""

from pathlib import Path

from prefect import task

from onnxdyno import app
from onnxdyno.domain.claims import Candidate, Claim
from onnxdyno.domain.devices import Device
from onnxdyno.domain.models import ObjectVersion, Signature
from tasks.naming import named
from tasks.retrying import ONCE, RETRIED


@task(tags=["registry"], task_run_name=named("survey"), **ONCE)
def survey(*, registry_uri: str, results_uri: str, on: Device) -> tuple[Candidate, ...]:
    """Every model of the registry with its standing on this device class; not retried, the schedule comes again."""
    return app.survey(registry_uri=registry_uri, results_uri=results_uri, on=on)


@task(tags=["registry"], task_run_name=named("claim"), **RETRIED)
def claim(candidate: Candidate, *, results_uri: str, reason: str, is_scheduled: bool) -> Claim | None:
    """The claim of the next attempt or of one more run, or None if somebody else was first."""
    return app.claim(candidate, results_uri=results_uri, reason=reason, is_scheduled=is_scheduled)


@task(tags=["registry"], task_run_name=named("take"), **RETRIED)
def take(taken: Claim, *, results_uri: str) -> None:
    """Make this process the owner of a scheduled claim."""
    app.take(taken, results_uri=results_uri)


@task(tags=["registry"], task_run_name=named("pull"), **RETRIED)
def pull(version: ObjectVersion) -> app.Pulled:
    """The model, its external data and its sidecar in the cache."""
    return app.pull(version)


@task(tags=["registry"], task_run_name=named("inspect"), **ONCE)
def inspect(path: Path) -> Signature:
    """What the file says, without running it."""
    return app.inspect(path)


@task(tags=["registry"], task_run_name=named("finish"), **RETRIED)
def finish(taken: Claim, *, results_uri: str, error: BaseException | None) -> None:
    """Record how the attempt ended."""
    app.finish(taken, results_uri=results_uri, error=error)
