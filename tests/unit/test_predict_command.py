"""`onnxdyno predict` and `onnxdyno hardware`, run as a person runs them, without a process of their own."""

import json
from pathlib import Path

from typer.testing import CliRunner

from onnxdyno.cli.commands import app

CASES = Path(__file__).parents[1] / "cases"

PROFILE = "kind,flops,bytes,latency_ms\nlinear,1e11,1e8,25\nelem,1e7,5e8,2.2\nnoop,0,0,0.01\n"


def written(folder: Path, text: str = PROFILE) -> str:
    path = folder / "nodes.csv"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_profile_gives_a_table_with_an_interval(tmp_path: Path) -> None:
    ran = CliRunner().invoke(
        app, ["predict", "--profile", written(tmp_path), "--from", "t4", "--to", "l4", "--to", "v100-pcie-32gb"]
    )
    assert ran.exit_code == 0
    assert "v100-pcie-32gb" in ran.stdout
    assert "interpolated" in ran.stdout


def test_json_is_one_object_with_a_prediction_per_target(tmp_path: Path) -> None:
    arguments = [
        "predict",
        "--profile",
        written(tmp_path),
        "--from",
        "Tesla T4",
        "--to",
        "l4",
        "--to",
        "rtx-4090",
        "--json",
    ]
    document = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert [each["target_id"] for each in document["predictions"]] == ["l4", "rtx-4090"]
    for each in document["predictions"]:
        assert each["low_ms"] < each["latency_ms"] < each["high_ms"]


def test_every_profile_needs_its_own_device(tmp_path: Path) -> None:
    profile = written(tmp_path)
    both = ["predict", "--profile", profile, "--from", "t4", "--profile", profile, "--from", "l4", "--to", "a10"]
    assert CliRunner().invoke(app, both).exit_code == 0
    for wrong in (both[:5] + both[7:], [*both[:7], "--from", "t4", "--to", "a10"]):
        ran = CliRunner().invoke(app, wrong)
        assert ran.exit_code == 2
        assert "one --from for each --profile" in ran.stderr


def test_an_unknown_device_is_refused_with_the_nearest_names(tmp_path: Path) -> None:
    ran = CliRunner().invoke(
        app, ["predict", "--profile", written(tmp_path), "--from", "t4", "--to", "rtx4099", "--json"]
    )
    assert ran.exit_code == 2
    assert "rtx-4090" in json.loads(ran.stdout)["error"]["reason"]


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, ["predict", "--profile", str(tmp_path / "none.csv"), "--from", "t4", "--to", "l4"])
    assert ran.exit_code == 2
    assert "No such file" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_the_catalogue_is_listed_by_market_and_shown_by_id() -> None:
    edge = json.loads(CliRunner().invoke(app, ["hardware", "--market", "edge", "--json"]).stdout)["devices"]
    assert {each["market"] for each in edge} == {"edge"}
    shown = CliRunner().invoke(app, ["hardware", "Tesla T4"])
    assert shown.exit_code == 0
    assert "confidence" in shown.stdout
    assert CliRunner().invoke(app, ["hardware", "--market", "toaster"]).exit_code == 2


def test_instance_types_are_listed_with_their_dated_prices() -> None:
    found = json.loads(CliRunner().invoke(app, ["hardware", "t4", "--json"]).stdout)["instances"]
    assert {each["accelerator_id"] for each in found} == {"t4"}
    assert all(each["price_region_and_date"] for each in found if each["usd_per_hour"] is not None)
    shown = CliRunner().invoke(app, ["hardware", "--instances"])
    assert shown.exit_code == 0
    assert "g4dn.12xlarge" in shown.stdout


def test_an_endless_file_is_refused(tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, ["hardware", "--devices", "/dev/zero"])
    assert ran.exit_code == 2
    assert "at most 16 MiB" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_file_alone_is_predicted_by_its_arithmetic() -> None:
    arguments = [
        "predict",
        str(CASES / "nhwc_dynamic.onnx"),
        "--resolution",
        "64x64",
        "--to",
        "t4",
        "--to",
        "l4",
        "--json",
    ]
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code == 0, ran.stderr
    document = json.loads(ran.stdout)
    assert document["profile"] == "nhwc_dynamic.onnx"
    for each in document["predictions"]:
        assert each["source_id"] is None
        assert each["basis"] == "extrapolated"
        assert each["low_ms"] < each["latency_ms"] < each["high_ms"]
        assert "no profile: by arithmetic alone" in each["notes"]


def test_a_profile_beside_a_model_is_refused_and_so_is_nothing(tmp_path: Path) -> None:
    model = str(CASES / "nhwc_dynamic.onnx")
    ran = CliRunner().invoke(app, ["predict", model, "--profile", written(tmp_path), "--from", "t4", "--to", "l4"])
    assert ran.exit_code == 2
    assert "give either --profile with --from" in ran.stderr
    ran = CliRunner().invoke(app, ["predict", "--to", "l4"])
    assert ran.exit_code == 2
    assert "Give a model's file, or --run with --results" in ran.stderr


def test_sizes_are_refused_with_a_profile_which_is_of_one_size(tmp_path: Path) -> None:
    profile = ["predict", "--profile", written(tmp_path), "--from", "t4", "--to", "a10"]
    for more in (
        ["--batch", "4"],
        ["--resolution", "2x2"],
        ["--sequence", "8"],
        ["--rebatch"],
        ["--results", "file:x"],
    ):
        ran = CliRunner().invoke(app, [*profile, *more])
        assert ran.exit_code == 2
        assert "a profile is of one size" in ran.stderr


def test_sizes_that_the_model_does_not_have_are_refused() -> None:
    model = str(CASES / "empty_node_names.onnx")
    for more, said in (
        (["--resolution", "640x640"], "the model has no height axis"),
        (["--resolution", "640"], "expected HEIGHTxWIDTH"),
        (["--sequence", "5"], "does not exist. Leave --sequence out"),
    ):
        ran = CliRunner().invoke(app, ["predict", model, "--to", "t4", *more])
        assert ran.exit_code == 2
        assert said in ran.stderr


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured() -> None:
    ran = CliRunner().invoke(
        app, ["roofline", str(CASES / "empty_node_names.onnx"), "--html", "/no/such/folder/x.html"]
    )
    assert ran.exit_code == 2
    assert "Give --html such a path" in ran.stderr
    assert not ran.stdout


def test_a_size_given_twice_is_refused() -> None:
    ran = CliRunner().invoke(app, ["profile", str(CASES / "empty_node_names.onnx"), "--point", "N=2,N=3"])
    assert ran.exit_code == 2
    assert "'N' is there twice" in ran.stderr


def test_a_size_that_is_fixed_at_another_is_not_profiled_or_judged_instead() -> None:
    model = str(CASES / "static_batch4.onnx")
    for arguments in (["profile", model, "--point", "batch=3", "--budget", "2"], ["roofline", model, "--batch", "3"]):
        ran = CliRunner().invoke(app, arguments)
        assert ran.exit_code == 6
        assert "fixed at 4" in ran.stderr
