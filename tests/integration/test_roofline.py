"""From a model file to its verdict, on this machine's own ceilings."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from onnxdyno import app as house
from onnxdyno.adapters import host
from onnxdyno.domain.ceilings import Ceiling, CeilingKind, Ceilings, fingerprint_sha256
from onnxdyno.domain.micros import micros
from onnxdyno.domain.plan import BenchmarkSpec
from onnxdyno.planning import with_factors
from onnxdyno.storage.ceilings import keep_ceilings

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "docs" / "schema"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache in which this machine is calibrated: a test does not measure for half a minute."""
    device = with_factors(house.device(), BenchmarkSpec())
    rates: list[tuple[CeilingKind, str, float, int | None]] = [(CeilingKind.FLOP_RATE, "MatMul float32", 1e11, None)]
    rates += [(CeilingKind.FLOP_RATE, "Conv float32", 1e11, None)]
    rates += [(CeilingKind.DISPATCH, "node", 500.0, None)]
    rates += [(CeilingKind.BANDWIDTH, label, 1e10, 2**20) for label in ("stream", "read")]
    entries = tuple(
        Ceiling(kind=kind, label=label, value=value, low=0.9 * value, high=1.1 * value, working_bytes=size)
        for kind, label, value, size in rates
    )
    lacking = dict.fromkeys(micro.key for micro in micros(device.kind, host.cache_bytes(device.cores[0])))
    entries += tuple(
        Ceiling(kind=kind, label=label, value=None, working_bytes=size, reason="left out", is_lasting=True)
        for kind, label, size in lacking
        if (kind, label, size) not in {each.key for each in entries}
    )
    kept = Ceilings(
        device_id=device.id,
        device_class=device.device_class,
        threads=device.threads,
        fingerprint_sha256=fingerprint_sha256(device, device.threads),
        runtime_version="1",
        entries=entries,
    )
    keep_ceilings(tmp_path / "cache", kept)
    return tmp_path / "cache"


def said(cache: Path, *arguments: str) -> str:
    """What the command prints."""
    environment = {**os.environ, "ONNXDYNO_CACHE_DIR": str(cache), "ONNXDYNO_LOCK_DIR": str(cache / "locks")}
    done = subprocess.run(
        [sys.executable, "-m", "onnxdyno.cli", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_model_gets_its_verdict_as_its_schema_says(cache: Path) -> None:
    found = json.loads(said(cache, "roofline", str(ROOT / "tests/cases/nhwc_dynamic.onnx"), "--budget", "5", "--json"))
    schema = json.loads((SCHEMAS / "roofline.schema.json").read_text())
    ceilings = json.loads((SCHEMAS / "calibrate.schema.json").read_text())
    jsonschema.validate(found["ceilings"], ceilings)
    del schema["properties"]["ceilings"]
    jsonschema.validate(found, schema)
    assert {node["op_type"] for node in found["nodes"]} >= {"Conv"}
    told = sum(found["shares"].values()) + found["unjudged_share"] + found["unexplained_share"]
    assert told == pytest.approx(1.0)
    assert (found["untimed_reason"] is None) is found["is_timed"]


def test_what_is_stored_is_printed_at_once(cache: Path) -> None:
    assert "100 GFLOP/s" in said(cache, "calibrate")
    assert "measured now" not in said(cache, "calibrate")


def test_what_stored_ceilings_lack_is_measured_kept_and_named(cache: Path) -> None:
    (path,) = (cache / "ceilings").iterdir()
    stored = json.loads(path.read_text())
    stored["entries"] = [each for each in stored["entries"] if each["label"] != "Sqrt"]
    path.write_text(json.dumps(stored))
    text = said(cache, "calibrate")
    assert "measured now, as what was stored lacked it: Sqrt" in text
    assert "100 GFLOP/s" in text
    entries = {each["label"]: each for each in json.loads(path.read_text())["entries"]}
    assert entries["Sqrt"]["value"] is not None or entries["Sqrt"]["reason"]
    assert entries["node"]["value"] == 500.0
