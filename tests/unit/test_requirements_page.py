"""The worked example of docs/requirements.md: its numbers are those of the catalogue, the formulas and the command."""

import re
from math import exp, hypot, log
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnxdyno import requirements
from onnxdyno.analysis.prediction.calibration import shipped_calibration
from onnxdyno.analysis.prediction.ceilings import ceilings
from onnxdyno.analysis.prediction.kinds import ORDER
from onnxdyno.analysis.prediction.physics import Nodes, Times, columns, times
from onnxdyno.hardware.lookup import shipped

PAGE = (Path(__file__).parents[2] / "docs" / "requirements.md").read_text(encoding="utf-8")
EXAMPLE = " ".join(PAGE[PAGE.index("## One example by hand") :].split())
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_resnet50.onnx"
FOUND = requirements(LIGHT, rebatch=True, batch=8, target_fps=30)
_ROW = re.compile(r"^\| (?:all )?(\d+) ([^|]*)\| ([^|]*)\| ([^|]*)\| ([\d.]+) \|$", re.MULTILINE)


def worked() -> tuple[Nodes, Times]:
    at = ceilings(shipped().find("a2"), "fp32", shipped())
    assert at is not None
    nodes = columns(FOUND.loads.wanted.nodes)
    return nodes, times(nodes, at, shipped_calibration())


def test_the_sum_of_the_page_is_what_the_command_prints() -> None:
    rows = [float(each[4]) for each in _ROW.findall(PAGE)]
    assert len(rows) == 8
    assert sum(rows) == pytest.approx(38.157, abs=0.0011)
    recommended = FOUND.tiers[1]
    assert recommended.device_id == "a2"
    assert (recommended.latency_ns.value or 0) / 1e6 == pytest.approx(38.157, abs=0.0005)
    assert (recommended.latency_ns.high or 0) / 1e6 == pytest.approx(56.21, abs=0.005)
    assert "up to 56.21 ms" in recommended.reason


def test_every_row_of_the_page_is_what_the_physics_say() -> None:
    nodes, took = worked()
    is_compute = took.compute_ns > took.memory_ns
    by_class = {
        (ORDER[kind].value, bool(bound)): (int(chosen.sum()), float(took.work_ns[chosen].sum()) / 1e6)
        for kind in set(nodes.classes)
        for bound in (True, False)
        if (chosen := (nodes.classes == kind) & (is_compute == bound)).any()
    }
    order = [
        ("conv", True), ("conv", False), ("elementwise", False), ("norm", False), ("softmax", False), ("gemm", False),
        ("view", False),
    ]  # fmt: skip
    assert set(order) == set(by_class)
    for key, row in zip(order, _ROW.findall(PAGE), strict=False):
        count, milliseconds = by_class[key]
        assert count == int(row[0])
        assert float(row[4]) == pytest.approx(milliseconds, abs=0.0006)
    assert 176 * shipped_calibration().floor_ns / 1e6 == pytest.approx(1.884, abs=0.0005)
    assert len(FOUND.loads.wanted.nodes) == 176


def test_the_divisions_of_the_page_give_its_milliseconds() -> None:
    for count, _, work, rate, milliseconds in _ROW.findall(PAGE)[:6]:
        numbers = [float(each.replace(",", "")) for each in re.findall(r"[\d,]+\.\d+", f"{work} {rate}")]
        amount, (peak, share) = sum(numbers[:-2]), numbers[-2:]
        assert amount / (peak * share) == pytest.approx(float(milliseconds), rel=0.002, abs=0.0006), count


def test_the_work_of_the_page_is_that_of_the_nodes() -> None:
    nodes, took = worked()
    is_compute = took.compute_ns > took.memory_ns
    conv = (nodes.classes == [each.value for each in ORDER].index("conv")) & is_compute
    wave = 10 * shipped_calibration().wave_flop_per_unit
    added = np.sum(nodes.flops[conv] * wave / (nodes.flops[conv] + wave))
    assert f"{nodes.flops[conv].sum() / 1e9:.3f} GFLOP + {added / 1e9:.3f} of last waves" in EXAMPLE


def test_the_memory_of_the_page_is_what_the_tiers_say() -> None:
    minimum, recommended, _ = FOUND.tiers
    assert f"{recommended.needed_bytes:,} bytes, below" in EXAMPLE
    assert f"{minimum.needed_bytes:,} bytes." in EXAMPLE
    wanted = FOUND.loads.wanted
    assert f"{wanted.weights_bytes:,} weights + {wanted.activation_bytes:,} live activations" in EXAMPLE


def test_the_interval_of_the_page_adds_up() -> None:
    parts = (1.8791 * (0.05 + 0.110), hypot(0.182 * 0.583, 0.140 * 0.368), 0.145, log(1.3) * 0.598)
    assert [round(each, 3) for each in parts] == [0.301, 0.118, 0.145, 0.157]
    reach = hypot(*parts)
    assert round(reach, 3) == 0.387
    assert 38.157 * exp(reach) == pytest.approx(56.21, rel=0.001)


def test_at_250_fps_another_device_is_recommended() -> None:
    assert requirements(LIGHT, rebatch=True, batch=8, target_fps=250).tiers[1].device_id not in ("a2", None)
