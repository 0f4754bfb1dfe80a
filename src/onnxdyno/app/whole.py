"""A claimed run from pull to finish, without an orchestrator."""

from collections.abc import Mapping
from typing import Any

from onnxdyno.app.copying import prepare
from onnxdyno.app.steps import Tell, analyse, finish, inspect, measure, origin, plan, pull, report, store
from onnxdyno.domain.claims import Claim
from onnxdyno.domain.devices import Device
from onnxdyno.domain.findings import Findings


def benchmark(
    taken: Claim, *, on: Device, results_uri: str, tell: Tell, parameters: Mapping[str, Any] | None = None
) -> Findings:
    """All steps of a claimed run, from pull to finish, without an orchestrator. Raises as the steps do."""
    try:
        pulled = prepare(pull(taken.version), on=on, parameters=parameters)
        signature = inspect(pulled.local.path)
        planned = plan(pulled, signature, on=on, parameters=parameters)
        run = measure(planned, signature, origin=origin(taken), results_uri=results_uri, tell=tell)
        findings = analyse(run)
        store(run, findings, results_uri=results_uri)
        report(run, findings, results_uri=results_uri)
    except BaseException as error:
        finish(taken, results_uri=results_uri, error=error)
        raise
    finish(taken, results_uri=results_uri, error=None)
    return findings
