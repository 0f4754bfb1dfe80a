"""The run's own device against its target: shown by the whole interval or not at all, and said wherever tiers are."""

import json
from dataclasses import replace

import pytest
from rich.console import Console

import factories as make
from onnxdyno.analysis.findings import analyse
from onnxdyno.analysis.requirements import Target
from onnxdyno.analysis.requirements.here import against
from onnxdyno.domain.findings import Estimate, Findings
from onnxdyno.domain.outcomes import PointState
from onnxdyno.domain.plan import BenchmarkSpec
from onnxdyno.reporting import documents, html, markdown, terminal
from onnxdyno.storage.rows import run_row

AT = make.point(batch=1, height=32, width=32)
WITHIN = Target(most_ns=10e6, asked="p50 within 10 ms")


def took(value: float, low: float | None, high: float | None) -> Estimate:
    ends = [None if end is None else end * 1e6 for end in (low, high)]
    return Estimate(value=value * 1e6, low=ends[0], high=ends[1], reason=None if low else "one launch")


@pytest.mark.parametrize(
    ("latency", "meets", "said"),
    [
        (took(9, 8, 10), True, "meets p50 within 10 ms: p50 9 ms, up to 10 ms"),
        (took(12, 11, 13), False, "does not meet p50 within 10 ms"),
        (took(9.9, 9, 11), None, "between 9 ms and 11 ms"),
        (took(9, None, None), None, "has no interval (one launch)"),
        (Estimate(value=None, reason="timeout"), None, "not measured here: timeout"),
    ],
)
def test_a_target_is_met_or_missed_only_by_the_whole_interval(latency: Estimate, meets: bool | None, said: str) -> None:
    found = against(WITHIN, make.measured_here(AT, latency_ns=latency))
    assert found.meets is meets
    assert said in found.reason


def test_without_a_target_nothing_is_met_and_a_state_is_told() -> None:
    found = against(None, make.measured_here(AT, state="disturbed"))
    assert found.meets is None
    assert found.reason == "p50 1 ms; no target was given; the point is disturbed"


def analysed(target_ms: float | None, is_measured: bool = True) -> Findings:
    planned = make.plan((AT,), spec=BenchmarkSpec(latency_target_ms=target_ms))
    launches = [make.measured(AT, launch=each) for each in (1, 2, 3)]
    outcomes = launches if is_measured else [make.skipped(AT, PointState.TIMEOUT)]
    return analyse(make.benchmark_run(tuple(outcomes), plan=planned))


def test_a_run_says_of_its_own_device_whether_it_meets_the_target() -> None:
    here = analysed(50).here
    assert here is not None
    assert (here.meets, here.device_name, here.threads) == (True, "Example CPU @ 2.50GHz", 3)
    assert here.peak_memory_bytes == 50_000_000
    slow = analysed(0.5).here
    assert slow is not None
    assert slow.meets is False


def test_a_run_whose_first_point_failed_claims_nothing() -> None:
    here = analysed(50, is_measured=False).here
    assert here is not None
    assert (here.meets, here.latency_ns.value, here.state) == (None, None, None)
    assert "was not measured" in here.reason


@pytest.mark.parametrize("meets", [True, False, None])
def test_every_page_says_it(meets: bool | None) -> None:
    here = make.measured_here(AT, meets=meets, reason="what was shown")
    run, found = make.benchmark_run(), replace(make.findings(), here=here)
    console = Console(width=200)
    with console.capture() as captured:
        console.print(terminal.bench(run, found))
    for page in (captured.get(), markdown.summary(run, found), html.page(run, found)):
        assert "measured here" in page
        assert "Example CPU @ 2.50GHz, 3 threads" in page.replace("\\@", "@")
        assert "what was shown" in page
        assert ("measured: meets" in page, "measured: does not meet" in page) == (meets is True, meets is False)


def test_the_row_and_the_document_of_a_run_say_the_same() -> None:
    here = make.measured_here(AT)
    run, found = make.benchmark_run(), replace(make.findings(), here=here)
    row = run_row(run, found)
    assert (row.meets_target, row.meets_target_axes, row.meets_target_reason) == (True, AT.sizes, here.reason)
    (told,) = json.loads(documents.dumps(documents.bench_document(run, found)))["measured_here"]
    assert (told["meets"], told["latency_ms"], told["reasons"]) == (True, 1.0, {})
    nothing = run_row(run, make.findings())
    assert (nothing.meets_target, nothing.meets_target_reason) == (None, None)
