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
from onnxdyno.domain.cost import Count, NodeWork, PointWork, WorkClass
from onnxdyno.domain.outcomes import PointState
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
    """A run of one point with one node of known work."""
    planned = make.plan((make.point(batch=1, height=32, width=32),), **changes)
    work = NodeWork(flops=10**9, read_bytes=10**6, written_bytes=10**6, basis="name")
    run = make.benchmark_run(
        (make.measured(planned.base, launch=1), make.measured(planned.base, launch=2)), plan=planned
    )
    (profile,) = run.profiles
    nodes = tuple(replace(each, provider=f"{planned.device.kind.upper()}ExecutionProvider") for each in profile.nodes)
    profiles = (replace(profile, nodes=nodes),)
    return replace(run, origin=make.origin(run_id=run_id), profiles=profiles, work=((work,) * len(nodes),))


def swept_run(run_id: str = "S1", **changes: Any) -> BenchmarkRun:
    """Batches 1 and 8 measured, 64 timed out; the profile is of batch 1, the arithmetic of all three."""
    points = tuple(make.point(batch=batch, height=32, width=32) for batch in (1, 8, 64))
    run = stored_run(run_id, **changes)
    launches = tuple(make.measured(at, launch=launch) for at in points[:2] for launch in (1, 2, 3))
    arithmetic = tuple(
        PointWork(sizes=at.sizes, classes=(WorkClass(op_type="Conv", flops=1e9 * size, moved_bytes=1e6, count=5),))
        for at, size in zip(points, (1, 8, 64), strict=True)
    )
    costs = tuple(make.cost(at.sizes, activation_peak_bytes=Count(value=1_000_000)) for at in points)
    return replace(
        run,
        plan=replace(run.plan, points=points),
        outcomes=(*launches, make.skipped(points[2], PointState.TIMEOUT)),
        costs=costs,
        arithmetic=arithmetic,
    )


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
    assert "arithmetic of the profiled nodes (1), as this run has no times" in recommended["evidence"]


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


@pytest.mark.parametrize(("batch", "said"), [("1", "ok"), ("8", "ok"), ("64", "timeout")])
def test_a_stored_run_alone_has_tiers_at_every_point_that_it_planned(tmp_path: Path, batch: str, said: str) -> None:
    results = committed(tmp_path / "results", swept_run())
    asked = ("--run", "S1", "--results", results, "--batch", batch, "--target-throughput", "10")
    found = told(*asked)
    recommended, optimal = tier(found, "recommended"), tier(found, "optimal")
    assert recommended["device_id"] is not None
    assert optimal["basis"] == "extrapolated"
    assert "arithmetic of the file's 5 nodes" in optimal["evidence"]
    (here,) = found["measured_here"]
    assert here["axes"]["batch"] == int(batch)
    assert here["meets"] is (True if said == "ok" else None)
    assert said == "ok" or "no number at this point (timeout)" in here["reason"]


def test_a_run_gives_the_same_tiers_from_its_tables_as_in_its_bench(tmp_path: Path) -> None:
    run = swept_run()
    results = committed(tmp_path / "results", run)
    benched = {each.tier: each for each in analyse(run).tiers}
    batch = str(dict(benched["optimal"].sizes)["batch"])
    found = tier(told("--run", "S1", "--results", results, "--batch", batch), "optimal")
    assert found["device_id"] == benched["optimal"].device_id
    assert found["latency_ms"] == pytest.approx((benched["optimal"].latency_ns.value or 0) / 1e6)
    assert found["evidence"] == benched["optimal"].evidence


def test_a_run_of_an_older_version_abstains_in_one_line_where_it_was_not_profiled(tmp_path: Path) -> None:
    results = committed(tmp_path / "results", swept_run())
    (file,) = (tmp_path / "results" / "tables" / "work").rglob("*.parquet")
    file.unlink()
    at_base = tier(told("--run", "S1", "--results", results, "--target-latency-ms", "900"), "recommended")
    assert "profiled nodes" in at_base["evidence"]
    asked = ("--run", "S1", "--results", results, "--batch", "8", "--target-latency-ms", "900")
    beside = tier(told(*asked), "recommended")
    assert beside["device_id"] is None
    assert "neither arithmetic nor a profile in the tables: give the model's file" in beside["reason"]
    done = ran("--run", "S1", "--results", results, "--batch", "64")
    assert done.exit_code == 2
    assert "no point with batch=64" in done.stderr


def test_a_point_is_found_in_whichever_run_measured_it(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    committed(folder, stored_run("R1"))
    results = committed(folder, swept_run("S1", device=make.gpu_device()))
    found = told("--run", "R1", "--run", "S1", "--results", results, "--batch", "8", "--target-throughput", "10")
    cpu, gpu = found["measured_here"]
    assert "run R1 has no number at this point" in cpu["reason"]
    assert (gpu["device_name"], gpu["meets"]) == ("Tesla T4", True)


def test_a_gpu_that_ran_out_of_memory_at_a_point_is_no_answer_for_it(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    run = swept_run("S1", device=make.gpu_device())
    lost = replace(run, outcomes=(*run.outcomes[:-1], make.skipped(run.plan.points[2], PointState.OOM)))
    results = committed(folder, lost)
    catalogue_has = requirements(run_ids=("S1",), results_uri=results, batch=64)
    assert catalogue_has.loads.wanted.ran_out == {"t4": "run S1"}
    assert all("t4" not in (each.device_id, *each.ties) for each in catalogue_has.tiers[1:])


def test_a_cpu_gets_no_tier_but_is_told_what_it_measured(tmp_path: Path) -> None:
    results = committed(tmp_path / "results", swept_run())
    asked = ("--run", "S1", "--results", results, "--target-latency-ms", "50", "--market", "cpu")
    found = told(*asked)
    assert all(each["device_id"] is None and "a CPU gets no tier" in each["reason"] for each in found["requirements"])
    assert found["measured_here"][0]["meets"] is True
    both = told(*asked, "--market", "datacenter")
    assert all(each["device_id"] and "a CPU gets no tier" in each["reason"] for each in both["requirements"])
    assert told(*RESNET, "--market", "cpu")["reasons"]["measured_here"] == "no run was given (--run)"


def test_predict_says_what_was_measured_at_a_point_that_was_not_profiled(tmp_path: Path) -> None:
    results = committed(tmp_path / "results", swept_run("S1", device=make.gpu_device()))
    asked = ["predict", "--run", "S1", "--results", results, "--batch", "8", "--to", "t4", "--to", "l4", "--json"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.stderr
    own, other = json.loads(done.stdout)["predictions"]
    assert (own["basis"], own["latency_ms"], own["confidence"]) == ("measured", 1.0, 0.95)
    assert (other["basis"], other["source_id"]) == ("extrapolated", None)
