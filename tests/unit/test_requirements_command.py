"""`onnxdyno requirements`, run as a person runs it: from a file alone, from stored runs, from both."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from typer.testing import CliRunner

import factories as make
from onnxdyno import requirements
from onnxdyno.adapters.local import LocalStore
from onnxdyno.analysis.findings import analyse
from onnxdyno.cli.commands import app
from onnxdyno.domain.cost import NodeWork
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.storage import dataset

CASES = Path(__file__).parents[1] / "cases"
SCHEMAS = Path(__file__).parents[2] / "docs" / "schema"
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_resnet50.onnx"
RESNET = [str(LIGHT), "--rebatch", "--batch", "8"]


def ran(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["requirements", *arguments])


def told(*arguments: str) -> dict[str, Any]:
    done = ran(*arguments, "--json")
    assert done.exit_code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    bench = json.loads((SCHEMAS / "bench.schema.json").read_text(encoding="utf-8"))
    registry: Registry[Any] = Registry().with_resource("bench.schema.json", Resource.from_contents(bench))
    schema = json.loads((SCHEMAS / "requirements.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator(schema, registry=registry).validate(found)
    return found


def tier(document: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in document["requirements"] if each["tier"] == name)
    return found


def committed(folder: Path, run: BenchmarkRun) -> str:
    folder.mkdir(exist_ok=True)
    store = LocalStore(folder, may_be_new=True)
    dataset.commit(store, run, analyse(run))
    return f"file:{folder}"


def stored_run(run_id: str = "R1", **changes: Any) -> BenchmarkRun:
    """A run of one point with two nodes of known work."""
    planned = make.plan((make.point(batch=1, height=32, width=32),), **changes)
    work = NodeWork(flops=10**9, read_bytes=10**6, written_bytes=10**6, basis="name")
    run = make.benchmark_run(
        (make.measured(planned.base, launch=1), make.measured(planned.base, launch=2)), plan=planned
    )
    (profile,) = run.profiles
    nodes = tuple(replace(each, provider=f"{planned.device.kind.upper()}ExecutionProvider") for each in profile.nodes)
    profiles = (replace(profile, nodes=nodes),)
    return replace(run, origin=make.origin(run_id=run_id), profiles=profiles, work=((work,) * len(nodes),))


def test_resnet_50_at_30_fps_and_batch_8_from_its_file_alone() -> None:
    found = told(*RESNET, "--target-fps", "30")
    minimum, recommended, optimal = (tier(found, name) for name in ("minimum", "recommended", "optimal"))
    assert minimum["axes"]["batch"] == 1
    assert recommended["axes"]["batch"] == 8
    assert recommended["basis"] == "extrapolated"
    assert recommended["probability"] == 0.9
    assert recommended["latency_interval_ms"][1] <= 8 / 30 * 1e3
    assert "jetson" not in json.dumps(found)
    assert minimum["needed_bytes"] > 2 * 2**30, "weights, activations, context, workspace: no 0.01 GB"
    assert optimal["device_id"] is not None
    assert found["instance"]["price_region_and_date"]
    assert found["cost_per_million_items"]["usd"] > 0


def test_more_frames_need_more_device() -> None:
    few, many = (tier(told(*RESNET, "--target-fps", fps), "recommended") for fps in ("30", "250"))
    assert few["device_id"] != many["device_id"]
    assert many["latency_interval_ms"][1] <= 32
    none = tier(told(*RESNET, "--target-fps", "100000"), "recommended")
    assert none["device_id"] is None
    assert "the nearest, " in none["reason"]


def test_the_same_from_python() -> None:
    found = requirements(LIGHT, rebatch=True, batch=8, target_fps=30)
    document = told(*RESNET, "--target-fps", "30")
    assert [each.device_id for each in found.tiers] == [each["device_id"] for each in document["requirements"]]
    assert found.loads.wanted.items == 8


def test_dated_prices_of_ones_own_decide(tmp_path: Path) -> None:
    mine = tmp_path / "mine.csv"
    mine.write_text("id,price,currency,price_date\nl4,2500,EUR,2026-01-31\na10,1500,EUR,2026-01-31\n")
    found = tier(told(*RESNET, "--target-fps", "30", "--devices", str(mine)), "recommended")
    assert (found["device_id"], found["price"], found["price_currency"]) == ("a10", 1500, "EUR")


def test_a_market_without_prices_has_no_cost_but_a_reason() -> None:
    found = told(*RESNET, "--target-fps", "100000")
    assert found["instance"]["name"] is None
    assert found["instance"]["reasons"]["name"]
    assert found["cost_per_million_items"]["reasons"]["usd"]


def test_the_largest_resolution_for_a_rate_on_a_device() -> None:
    asked = (str(CASES / "nhwc_dynamic.onnx"), "--on", "t4", "--batch", "4", "--target-fps")
    easy, hard = (told(*asked, fps)["resolution"] for fps in ("100", "20000"))
    assert easy["axes"]["height"] == 640 if "height" in easy["axes"] else easy["axes"]
    assert hard["axes"] is None or max(hard["axes"].values()) < 640
    assert "largest of 5 sizes" in easy["reason"]


def test_a_stored_cpu_run_gives_arithmetic_and_says_so(tmp_path: Path) -> None:
    results = committed(tmp_path / "results", stored_run())
    found = told("--run", "R1", "--results", results, "--target-latency-ms", "50")
    recommended = tier(found, "recommended")
    assert recommended["basis"] == "extrapolated"
    assert "run R1" in recommended["evidence"]
    assert "arithmetic of the profiled nodes, not their times" in recommended["evidence"]


def test_stored_gpu_runs_stand_as_measured_and_pin_the_others(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    committed(folder, stored_run("R1"))
    results = committed(folder, stored_run("R2", device=make.gpu_device()))
    document = told("--run", "R1", "--run", "R2", "--results", results, "--target-latency-ms", "50")
    assert document["sources"] == ["run R1", "run R2"]
    found = requirements(run_ids=("R1", "R2"), results_uri=results)
    assert set(found.loads.wanted.measured) == {"t4"}
    assert "profile of t4" in tier(document, "optimal")["evidence"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([*RESNET, "--market", "toaster"], "market 'toaster' is not known"),
        ([*RESNET, "--best-by", "colour"], "best by 'colour' is not known"),
        ([*RESNET, "--dtype", "fp3"], "dtype 'fp3' is not known"),
        ([*RESNET, "--target-fps", "0"], "target_fps is 0"),
        ([*RESNET, "--target-fps", "nan"], "target_fps is nan"),
        ([str(LIGHT), "--batch", "8"], "the model's is fixed at 1"),
        ([str(LIGHT), "--on", "t4"], "has no dynamic height"),
        ([str(CASES / "nhwc_dynamic.onnx"), "--target-fps", "30"], "Give --resolution 224x224"),
        ([str(CASES / "nhwc_dynamic.onnx"), "--on", "rtx4099", "--target-fps", "30"], "rtx-4090"),
        ([], "Give a model's file, or --run with --results"),
        (["--run", "R1"], "Give --results"),
        (["none.onnx"], "none.onnx"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], said: str) -> None:
    done = ran(*arguments)
    assert done.exit_code in (2, 3)
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_run_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    results = committed(tmp_path / "results", stored_run())
    for name in ("R9", "x' OR '1'='1"):
        done = ran("--run", name, "--results", results)
        assert done.exit_code == 2
        assert "is not among the committed runs" in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


def test_a_run_of_another_model_is_refused(tmp_path: Path) -> None:
    results = committed(tmp_path / "results", stored_run())
    done = ran(str(LIGHT), "--run", "R1", "--results", results)
    assert done.exit_code == 2
    assert "of another model" in done.stderr


def test_a_batch_that_was_not_measured_asks_for_the_file(tmp_path: Path) -> None:
    results = committed(tmp_path / "results", stored_run())
    done = ran("--run", "R1", "--results", results, "--batch", "64")
    assert done.exit_code == 2
    assert "no point with batch=64" in done.stderr


def test_a_stored_gpu_run_pins_predict_and_a_cpu_run_leaves_a_gpu_to_arithmetic(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    committed(folder, stored_run("R1"))
    results = committed(folder, stored_run("R2", device=make.gpu_device()))
    for run_id, source in (("R1", None), ("R2", "t4")):
        done = CliRunner().invoke(app, ["predict", "--run", run_id, "--results", results, "--to", "l4", "--json"])
        assert done.exit_code == 0, done.stderr
        (found,) = json.loads(done.stdout)["predictions"]
        assert found["source_id"] == source
        assert any(f"run {run_id}" in note for note in found["notes"])
