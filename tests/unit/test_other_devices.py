"""What a run says of devices that it was not measured on: with an interval, labelled by what it rests on, or not."""

import json
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

import factories as make
from onnxdyno.analysis import analyse
from onnxdyno.analysis.prediction import predict
from onnxdyno.analysis.requirements import elsewhere
from onnxdyno.analysis.requirements.arithmetic import as_nodes
from onnxdyno.domain.cost import Count, NodeWork, PointWork, WorkClass
from onnxdyno.domain.devices import Device
from onnxdyno.domain.errors import SpecError
from onnxdyno.domain.findings import Findings, OtherDevices
from onnxdyno.domain.outcomes import PointState
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.hardware.lookup import shipped
from onnxdyno.reporting import documents, html, markdown, terminal
from onnxdyno.reporting.elsewhere import others_grid, others_lines

AT = make.point(batch=1, height=32, width=32)
WORK = PointWork(
    sizes=AT.sizes, classes=(WorkClass(op_type="MatMul", flops=1e9, moved_bytes=4e6, count=20),), reason=None
)
HOSTILE = "\x1b[31m<script>alert(1)</script>|.onnx"
A10 = make.gpu_device(name="NVIDIA A10", memory_bytes=23_609_475_072, compute_capability="8.6")


def run_on(device: Device, *, work: PointWork = WORK, **changes: Any) -> BenchmarkRun:
    """Three launches of one point with its arithmetic; on a GPU, its profile has no kernels."""
    planned = make.plan((AT,), device=device)
    launches = tuple(make.measured(AT, launch=each) for each in (1, 2, 3))
    provider = "CPUExecutionProvider" if device.kind == "cpu" else "CUDAExecutionProvider"
    profiled = make.profile(AT, (make.node(provider=provider),))
    return make.benchmark_run(launches, plan=planned, arithmetic=(work,), profiles=(profiled,), **changes)


def told(run: BenchmarkRun) -> OtherDevices:
    return analyse(run).others


def pages(run: BenchmarkRun, found: Findings, results_uri: str | None = None) -> tuple[str, str, str]:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(terminal.bench(run, found, results_uri))
    return (
        captured.get(),
        markdown.summary(run, found, results_uri=results_uri),
        html.page(run, found, results_uri=results_uri),
    )


def test_a_run_on_a_cpu_predicts_gpus_by_arithmetic_alone_and_says_so() -> None:
    found = told(run_on(make.cpu_device()))
    assert {"t4", "l4", "a10", "h100-sxm5-80gb", "rtx-4090"} <= {each.device_id for each in found.predictions}
    assert "as this run has no times for these GPUs" in found.evidence
    for each in found.predictions:
        assert (each.source_id, each.basis, each.confidence) == (None, "extrapolated", 0.9)
        assert "no profile: by arithmetic alone" in each.notes
        assert not any("measured" in note and "p50" in note for note in each.notes)


def test_no_number_stands_without_its_interval() -> None:
    for device in (make.cpu_device(), make.gpu_device()):
        predictions = told(run_on(device)).predictions
        assert predictions
        for each in predictions:
            latency = each.latency_ns
            assert latency.value is not None
            assert latency.low is not None
            assert latency.high is not None
            assert latency.low < latency.value < latency.high
            assert each.needed_bytes is not None
            assert each.needed_bytes >= (each.least_needed_bytes or 0)


def test_the_numbers_are_those_of_the_command() -> None:
    found = told(run_on(make.cpu_device()))
    ids = [each.device_id for each in found.predictions]
    for shown, own in zip(found.predictions, predict(as_nodes(WORK), None, ids), strict=True):
        assert (shown.latency_ns.value, shown.latency_ns.low, shown.latency_ns.high) == (
            own.latency_ns,
            own.low_ns,
            own.high_ns,
        )


def test_a_run_on_a_gpu_of_the_catalogue_predicts_from_its_own_profile_and_leaves_itself_out() -> None:
    run = run_on(make.gpu_device())
    counted = NodeWork(flops=10**9, read_bytes=10**6, written_bytes=10**6, basis="name")
    run = replace(run, work=((counted,),))
    found = told(run)
    assert "t4" not in {each.device_id for each in found.predictions}
    assert {each.source_id for each in found.predictions} == {"t4"}
    assert "p50 measured" in found.evidence
    assert others_grid(found).caption.startswith("predicted by the profile of t4, not measured: ")


def test_a_gpu_that_the_catalogue_does_not_know_is_no_source() -> None:
    found = told(run_on(make.gpu_device(name="Tesla T4 Super")))
    assert {each.source_id for each in found.predictions} == {None}


def test_the_devices_are_few_and_those_of_the_tiers_are_among_them() -> None:
    run = run_on(make.cpu_device())
    found = analyse(run)
    shown = {each.device_id for each in found.others.predictions}
    assert {tier.device_id for tier in found.tiers if tier.device_id} <= shown
    assert len(shown) <= 14
    known = {each.id for each in shipped().accelerators}
    assert set(elsewhere.WELL_KNOWN) <= known


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (
            run_on(make.cpu_device(), work=PointWork(sizes=AT.sizes, classes=(), reason="NonMaxSuppression: no rule")),
            "NonMaxSuppression: no rule",
        ),
        (make.benchmark_run((make.skipped(AT, PointState.TIMEOUT),), plan=make.plan((AT,))), "was not measured"),
    ],
)
def test_where_nothing_can_be_said_one_line_says_why(run: BenchmarkRun, why: str) -> None:
    found = analyse(run)
    assert found.others.predictions == ()
    for page in pages(run, found):
        assert "On other devices" in page
        assert why in page.partition("On other devices")[2]


def test_what_cannot_be_predicted_never_fails_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise SpecError("node 0: expected flops from 0 to 1e+24, found nan. Correct it.")

    monkeypatch.setattr(elsewhere, "predict_elsewhere", refuse)
    found = analyse(run_on(make.cpu_device()))
    assert found.others.predictions == ()
    assert "found nan" in (found.others.reason or "")
    assert found.points[0].p50_ns.value is not None


def test_a_model_that_cannot_fit_has_no_latency_there() -> None:
    cost = make.cost(AT.sizes, activation_peak_bytes=Count(value=30 * 2**30))
    signature = make.image_signature(weight_bytes=2**30)
    rows = {
        each.device_id: each for each in told(run_on(make.cpu_device(), costs=(cost,), signature=signature)).predictions
    }
    assert rows["t4"].fits is False
    assert rows["t4"].latency_ns.value is None
    assert "does not fit" in (rows["t4"].latency_ns.reason or "")
    assert rows["h100-sxm5-80gb"].fits is None, "the upper bound does not fit, the lower does"
    assert rows["h100-sxm5-80gb"].latency_ns.value is not None


@pytest.mark.parametrize("device", [make.cpu_device(), A10], ids=["cpu", "cuda"])
def test_every_page_has_the_section_and_the_command_that_repeats_it(device: Device) -> None:
    run = run_on(device)
    found = analyse(run)
    for page in pages(run, found, "file:results"):
        section = " ".join(page.partition("On other devices")[2].replace("\\", "").split())
        assert "NVIDIA L4" in section
        assert "extrapolated" in section
        assert ("arithmetic alone, from no device" in section) == (device.kind == "cpu")
        assert ("the profile of a10, not measured" in section) == (device.kind == "cuda")
        assert "onnxdyno predict --run 20250101T000000Z-0001 --results" in section
        assert "--batch 1 --resolution 32x32 --to" in section


def test_without_a_store_the_command_takes_the_file() -> None:
    run = run_on(make.cpu_device())
    (*_, (label, command)) = others_lines(run, told(run), None)
    assert label == "again"
    assert command.startswith("onnxdyno predict models/model.onnx --batch 1 --resolution 32x32 --to t4 ")


def test_notes_that_differ_in_the_device_alone_are_told_once() -> None:
    run = run_on(make.cpu_device())
    lines = [text for _, text in others_lines(run, told(run), None)]
    assert len(lines) == len(set(lines))
    assert sum("sustained fp32 rate" in text for text in lines) == 1


def test_names_from_outside_do_no_harm() -> None:
    run = run_on(make.cpu_device())
    hostile = replace(run, origin=make.origin(source_key=HOSTILE))
    found = analyse(hostile)
    found = replace(found, others=replace(found.others, evidence=HOSTILE))
    nothing = replace(found, others=OtherDevices(sizes=AT.sizes, dtype="fp32", predictions=(), reason=HOSTILE))
    for each in (found, nothing):
        shown, page_md, page_html = pages(hostile, each)
        assert "\x1b[31m" not in shown
        assert "<script" not in page_md
        assert "<script" not in page_html
        assert "\x1b" not in page_md + page_html


def test_the_json_has_the_same_with_a_reason_for_every_null() -> None:
    run = run_on(make.cpu_device())
    read = json.loads(documents.dumps(documents.bench_document(run, analyse(run))))["other_devices"]
    assert read["axes"] == {"batch": 1, "height": 32, "width": 32}
    assert (read["dtype"], read["reason"]) == ("fp32", None)
    for each in read["predictions"]:
        assert each["device_source"]
        assert {name for name, value in each.items() if value is None} == set(each["reasons"])
        low, high = each["latency_interval_ms"]
        assert low < each["latency_ms"] < high
