"""What is stored of a run on a calibrated device says what bounds it; elsewhere it is null with its reason."""

from dataclasses import replace
from pathlib import Path

import pytest

import factories as make
from onnxdyno.analysis import analyse
from onnxdyno.app import steps
from onnxdyno.app.ceilings import _as_users_get_it
from onnxdyno.domain.bounds import Bound
from onnxdyno.domain.ceilings import Ceiling, CeilingKind, Ceilings, fingerprint_sha256
from onnxdyno.domain.runs import BenchmarkRun
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
