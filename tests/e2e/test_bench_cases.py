"""Every case through `onnxdyno bench`, as CASES.md asks: the right state, no traceback, no hang, a live parent."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from commands import CASES, Ran

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "schema" / "bench.schema.json").read_text())
ERROR_SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "schema" / "error.schema.json").read_text())
QUICK = ("--json", "--budget", "6", "--launches", "1")
MEASURED = frozenset({"ok", "noisy", "not_steady", "unconverged", "disturbed"})

REFUSED = {
    "O18": ("string_normalizer_locale.onnx", "environment", "locale"),
    "O19": ("custom_domain_op.onnx", "unsupported", "com.acme.ops:MyInverse"),
    "O20": ("ir_version_too_new.onnx", "unsupported", "IR version: 99"),
    "O21": ("opset_too_new.onnx", "unsupported", "Opset 99"),
    "O22": ("git_lfs_pointer.onnx", "invalid_file", "Git LFS pointer"),
    "O23": ("zero_bytes.onnx", "invalid_file", "empty object"),
    "O24": ("html_error_page.onnx", "invalid_file", "HTML"),
    "O25": ("zip_of_model.onnx", "invalid_file", "zip"),
    "O26": ("truncated_60pct.onnx", "invalid_file", "cut short"),
    "O28": ("duplicate_node_names_invalid.onnx", "invalid_file", "two nodes with same node name"),
    "O32": ("bf16_add.onnx", "unsupported", "Add(14)"),
    "O49": ("external_missing/model.onnx", "missing_external_data", "model.onnx_data"),
    "O50": ("external_traversal/model.onnx", "unsafe", "/etc/passwd"),
    "O51": ("external_short/model.onnx", "missing_external_data", "partial upload"),
}

RUNS = {
    "O01": "grouped_conv_counts.onnx",
    "O07": "lstm_state_batch_dim1.onnx",
    "O08": "nhwc_dynamic.onnx",
    "O10": "min_resolution_33.onnx",
    "O11": "audio_scalar_sr_if.onnx",
    "O12": "loop_tripcount_input.onnx",
    "O13": "loop20_profile_double_count.onnx",
    "O14": "decoder_past_kv.onnx",
    "O15": "initializer_as_input_ir8.onnx",
    "O16": "string_input.onnx",
    "O17": "sequence_input.onnx",
    "O27": "empty_node_names.onnx",
    "O29": "same_names_in_branches.onnx",
    "O31": "fp16_conv.onnx",
    "O33": "qdq_conv.onnx",
    "O34": "qlinearmatmul_uint8_io.onnx",
    "O35": "nms_empty_output.onnx",
    "O36": "zero_dim_and_rank0.onnx",
    "O39": "sklearn_logreg_zipmap.onnx",
    "O40": "same_size_different_names.onnx",
    "O41": "unnamed_dims.onnx",
    "O48": "external_ok/model.onnx",
}


def has_locale(name: str) -> bool:
    """Whether a process here could use this locale."""
    known = subprocess.run(["locale", "-a"], capture_output=True, text=True, check=False).stdout
    return name.lower().replace("-", "") in known.lower().replace("-", "").split()


def states(document: dict[str, Any], role: str = "batch") -> dict[int, str]:
    """Size of the first axis of this role -> state."""
    name = next(axis["name"] for axis in document["axes"] if axis["role"] == role)
    return {point["axes"][name]: point["state"] for point in document["points"]}


@pytest.mark.parametrize("case", REFUSED)
def test_a_model_that_cannot_run_is_refused_in_one_line(onnxdyno: Callable[..., Ran], case: str) -> None:
    file, state, word = REFUSED[case]
    if case == "O18" and has_locale("en_US.UTF-8"):
        pytest.skip("this machine has the locale en_US.UTF-8, with which the model runs")
    ran = onnxdyno("bench", CASES / file, *QUICK)
    jsonschema.validate(ran.document, ERROR_SCHEMA)
    error = ran.document["error"]
    assert (ran.code, error["state"]) == (3, state)
    assert word in error["reason"]
    assert error["remedy"]
    assert ran.err.strip().splitlines()[-1].startswith(f"onnxdyno: {state}: ")


@pytest.mark.parametrize("case", RUNS)
def test_a_model_that_can_run_is_measured_without_a_spec(onnxdyno: Callable[..., Ran], case: str) -> None:
    ran = onnxdyno("bench", CASES / RUNS[case], *QUICK, "--batch", "1,2")
    jsonschema.validate(ran.document, SCHEMA)
    assert ran.code == 0
    assert {states(ran.document)[1], states(ran.document)[2]} <= MEASURED
    for point in ran.document["points"]:
        assert (point["p50_ms"] is None) == (point["state"] not in MEASURED)


def test_a_hard_coded_batch_keeps_the_row_that_runs(onnxdyno: Callable[..., Ran]) -> None:  # O02
    ran = onnxdyno("bench", CASES / "reshape_hardcoded_batch.onnx", *QUICK)
    found = states(ran.document)
    assert ran.code == 0
    assert found.pop(1) in MEASURED
    assert set(found.values()) == {"shape_error"}
    refused = next(point for point in ran.document["points"] if point["state"] == "shape_error")
    assert "reshape1x256" in refused["reason"]


def test_a_batch_that_collapses_claims_no_throughput(onnxdyno: Callable[..., Ran]) -> None:  # O03
    ran = onnxdyno("bench", CASES / "batch_collapses.onnx", *QUICK, "--batch", "1,4")
    one, four = ran.document["points"]
    assert one["throughput_items_per_s"] > 0
    assert four["flags"] == ["batch_not_scaled"]
    assert four["throughput_items_per_s"] is None


@pytest.mark.parametrize(("case", "fixed"), [("static_batch1", 1), ("static_batch4", 4)])
def test_a_fixed_batch_is_the_only_one_tried(onnxdyno: Callable[..., Ran], case: str, fixed: int) -> None:  # O04, O05
    ran = onnxdyno("bench", CASES / f"{case}.onnx", *QUICK)
    found = states(ran.document)
    assert found.pop(fixed) in MEASURED
    assert set(found.values()) == {"not_applicable"}
    point = next(point for point in ran.document["points"] if point["p50_ms"] is not None)
    at_best = fixed / (point["p50_ms"] / 1e3)
    assert 0.3 * at_best < point["throughput_items_per_s"] < 1.1 * at_best


def test_token_ids_stay_inside_the_table(onnxdyno: Callable[..., Ran]) -> None:  # O06
    ran = onnxdyno("bench", CASES / "text_vocab64.onnx", *QUICK, "--batch", "1,2", "--sequence", "16")
    assert set(states(ran.document).values()) <= MEASURED
    assert all(point["flags"] == [] for point in ran.document["points"])  # a mask of zeros would give NaN


def test_sizes_that_a_skip_connection_refuses_are_rows(onnxdyno: Callable[..., Ran]) -> None:  # O09
    sizes = "32x32,64x40,36x36,33x40,4x4"
    ran = onnxdyno("bench", CASES / "unet_multiple_of_8.onnx", *QUICK, "--batch", "1", "--resolution", sizes)
    found = {(point["axes"]["H"], point["axes"]["W"]): point for point in ran.document["points"]}
    assert {size for size, point in found.items() if point["state"] in MEASURED} == {(32, 32), (64, 40)}
    assert all("skip" in found[size]["reason"] for size in ((36, 36), (33, 40), (4, 4)))


def test_outputs_that_are_not_finite_are_flagged_and_the_json_stays_valid(onnxdyno: Callable[..., Ran]) -> None:  # O30
    ran = onnxdyno("bench", CASES / "nan_inf_outputs.onnx", *QUICK, "--batch", "1")
    assert ran.document["points"][0]["flags"] == ["non_finite"]
    assert ran.document["points"][0]["state"] in MEASURED
    assert "NaN" not in ran.out.replace("NaN or infinite", "")
    assert "Infinity" not in ran.out


def test_a_model_that_asks_for_terabytes_is_a_row(onnxdyno: Callable[..., Ran]) -> None:  # O38
    ran = onnxdyno("bench", CASES / "huge_constantofshape.onnx", *QUICK)
    jsonschema.validate(ran.document, SCHEMA)
    assert set(states(ran.document).values()) == {"oom"}
    assert ran.code == 6
    assert "bomb" in ran.document["points"][0]["reason"]


def test_a_batch_that_does_not_fit_leaves_the_others_alone(onnxdyno: Callable[..., Ran]) -> None:  # O37
    ran = onnxdyno("bench", CASES / "batch_oom_64MiB_per_item.onnx", *QUICK, "--batch", "1,100000", "--budget", "12")
    found = states(ran.document)
    assert found[1] in MEASURED
    assert found[100000] in ("oom", "timeout")


def test_a_fixed_batch_is_swept_on_a_proven_copy_when_asked(onnxdyno: Callable[..., Ran], tmp_path: Path) -> None:
    for _ in range(2):  # the second time the copy is there already
        ran = onnxdyno("bench", CASES / "static_batch1.onnx", *QUICK, "--batch", "1,2,4", "--rebatch")
        jsonschema.validate(ran.document, SCHEMA)
        assert set(states(ran.document).values()) <= MEASURED
        assert list(states(ran.document)) == [1, 2, 4]
        assert "equal item by item" in ran.document["model"]["copy_how"]
        assert ran.document["model"]["copy_of_sha256"] != ran.document["model"]["sha256"]
    assert len(list((tmp_path / "cache" / "copies").iterdir())) == 1


def test_a_batch_that_cannot_be_freed_honestly_is_refused(onnxdyno: Callable[..., Ran], tmp_path: Path) -> None:
    ran = onnxdyno("bench", CASES / "batch_collapses.onnx", *QUICK, "--rebatch")
    assert ran.code == 2
    assert ran.document["error"]["reason"].startswith("rebatch: ")
    copies = tmp_path / "cache" / "copies"
    assert not copies.exists() or list(copies.iterdir()) == []


def test_inserted_casts_are_told_beside_a_half_precision_model(onnxdyno: Callable[..., Ran]) -> None:  # O31
    ran = onnxdyno("bench", CASES / "fp16_conv.onnx", *QUICK, "--batch", "1", "--resolution", "64x64")
    assert ran.document["model"]["precision"] == "float16"
    assert ran.document["points"][0]["flags"] == ["casts_inserted"]
