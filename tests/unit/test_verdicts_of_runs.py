"""What is stored of a run on a calibrated device says what bounds it; elsewhere it is null with its reason."""

from dataclasses import replace
from pathlib import Path

import pytest

import factories as make
from onnxdyno.analysis import analyse
from onnxdyno.analysis.roofline import Datasheet
from onnxdyno.app import steps
from onnxdyno.app.ceilings import _as_users_get_it
from onnxdyno.app.judging import datasheet_of, known_roofline
from onnxdyno.domain.bounds import Bound
from onnxdyno.domain.ceilings import Ceiling, CeilingKind, Ceilings, fingerprint_sha256
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.reporting import html, markdown
from onnxdyno.storage.ceilings import keep_ceilings
from onnxdyno.storage.rows import node_rows, run_row

MIB = 2**20


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BenchmarkRun:
    """A run with one profile, on a device whose cache folder is empty."""
    monkeypatch.setenv("ONNXDYNO_CACHE_DIR", str(tmp_path))
    made = make.benchmark_run()
    plan = replace(made.plan, device=_as_users_get_it(made.plan.device))
    return replace(made, plan=plan, profiles=(make.profile(plan.base),))


def test_datasheets_are_found_by_exact_names_and_cover_the_threads_that_ran() -> None:
    t4 = datasheet_of(make.gpu_device(), 3)
    assert (t4.flop_per_s, t4.bytes_per_s, t4.peak("MatMul float16")) == pytest.approx(
        (8.14e12, 320e9, 65e12), rel=0.01
    )
    shared = make.gpu_device(name="NVIDIA GeForce RTX 4060 Ti", memory_bytes=16 * 2**30)
    assert datasheet_of(shared, 3).bytes_per_s is not None
    assert datasheet_of(make.gpu_device(name="NVIDIA T4"), 3) == Datasheet()
    xeon = make.cpu_device(name="Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz")
    one, two = (datasheet_of(xeon, threads).flop_per_s or 0 for threads in (1, 2))
    assert two == pytest.approx(2 * one)
    assert one == pytest.approx(3.5e9 * 64, rel=0.01)
    assert datasheet_of(xeon, 1).peak("MatMul int8") is None


def calibrated(run: BenchmarkRun, folder: Path) -> None:
    device = run.plan.device
    entries = (
        (CeilingKind.FLOP_RATE, "MatMul float32", 100e9, None),
        (CeilingKind.DISPATCH, "node", 1000.0, None),
        *((CeilingKind.BANDWIDTH, label, 10e9, size) for label in ("stream", "read") for size in (MIB, 100 * MIB)),
    )
    keep_ceilings(
        folder,
        Ceilings(
            device_id=device.id,
            device_class=device.device_class,
            threads=run.plan.threads,
            fingerprint_sha256=fingerprint_sha256(device, run.plan.threads),
            runtime_version="1",
            entries=tuple(
                Ceiling(
                    kind=kind, label=label, value=value, low=0.9 * value, high=1.1 * value, working_bytes=working_bytes
                )
                for kind, label, value, working_bytes in entries
            ),
        ),
    )


def test_without_ceilings_a_bound_is_null_with_what_to_do(run: BenchmarkRun) -> None:
    findings = steps.analyse(run)
    assert findings == analyse(run)
    rows = node_rows(run, findings)
    assert {row.bound for row in rows} == {None}
    assert all("onnxdyno calibrate" in (row.bound_reason or "") for row in rows)
    assert "onnxdyno calibrate" in (run_row(run, findings).profiles[0].bound_reason or "")


def test_with_ceilings_every_node_has_a_bound_or_its_own_reason(run: BenchmarkRun, tmp_path: Path) -> None:
    calibrated(run, tmp_path)
    findings = steps.analyse(run)
    for row in node_rows(run, findings):
        assert (row.bound in {bound.value for bound in Bound}) or "calibrate" not in (row.bound_reason or "")
    (entry,) = run_row(run, findings).profiles
    assert entry.bound is not None or "calibrate" not in (entry.bound_reason or "")


def test_the_report_of_a_calibrated_device_has_the_verdict_and_the_ceilings(run: BenchmarkRun, tmp_path: Path) -> None:
    findings = steps.analyse(run)
    assert "Measured ceilings" not in markdown.summary(run, findings, known_roofline(run, findings))
    calibrated(run, tmp_path)
    findings = steps.analyse(run)
    judged = known_roofline(run, findings)
    assert judged is not None
    for page in (markdown.summary(run, findings, judged), html.page(run, findings, judged)):
        assert "Roofline" in page
        ceilings = page.partition("Measured ceilings")[2]
        assert "100 GFLOP/s" in ceilings
        assert "90 GFLOP/s" in ceilings, "the lower end of its interval"
