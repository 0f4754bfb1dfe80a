"""From samples to findings, tables and the one-page summary."""

from prefect import task

from onnxdyno import app
from onnxdyno.domain.findings import Findings
from onnxdyno.domain.runs import BenchmarkRun
from tasks.naming import named
from tasks.retrying import ONCE, RETRIED


@task(tags=["results"], task_run_name=named("analyse"), **ONCE)
def analyse(run: BenchmarkRun) -> Findings:
    """Everything derived from the samples."""
    return app.analyse(run)


@task(tags=["results"], task_run_name=named("store"), **RETRIED)
def store(run: BenchmarkRun, findings: Findings, *, results_uri: str) -> str:
    """The tables, the `runs` row last; returns its URI."""
    return app.store(run, findings, results_uri=results_uri)


@task(tags=["results"], task_run_name=named("report"), **RETRIED)
def report(run: BenchmarkRun, findings: Findings, *, results_uri: str) -> app.Report:
    """summary.json, summary.md and summary.html beside the tables."""
    return app.report(run, findings, results_uri=results_uri)
