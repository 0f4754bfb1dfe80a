"""Planning and measuring on the device that the run names."""

from collections.abc import Mapping
from typing import Any

from prefect import task

from onnxdyno import app
from onnxdyno.domain.devices import Device
from onnxdyno.domain.models import Signature
from onnxdyno.domain.plan import BenchmarkPlan
from onnxdyno.domain.runs import BenchmarkRun, Origin
from tasks.naming import named
from tasks.retrying import ONCE, RETRIED


@task(tags=["measuring"], task_run_name=named("prepare"), **RETRIED)
def prepare(pulled: app.Pulled, *, on: Device, parameters: Mapping[str, Any] | None) -> app.Pulled:
    """The model itself, or the proven copy with a dynamic batch that its spec asks for."""
    return app.prepare(pulled, on=on, parameters=parameters)


@task(tags=["measuring"], task_run_name=named("plan"), **ONCE)
def plan(
    pulled: app.Pulled, signature: Signature, *, on: Device, parameters: Mapping[str, Any] | None
) -> BenchmarkPlan:
    """What will run: defaults < sidecar < parameters."""
    return app.plan(pulled, signature, on=on, parameters=parameters)


@task(tags=["measuring"], task_run_name=named("measure"), **RETRIED)
def measure(
    planned: BenchmarkPlan, signature: Signature, *, origin: Origin, results_uri: str, tell: app.Tell
) -> BenchmarkRun:
    """Every pass of the plan; finished pieces of an earlier try are reused."""
    return app.measure(planned, signature, origin=origin, results_uri=results_uri, tell=tell)
