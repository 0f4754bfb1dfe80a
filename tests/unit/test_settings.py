"""Specs as people write them."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxdyno.domain.errors import SpecError
from onnxdyno.domain.plan import BenchmarkSpec, InputRule, Variant
from onnxdyno.domain.sessions import CudnnSearch
from onnxdyno.settings import KEYS, build_spec, parse_yaml

DOCS = Path(__file__).parent.parent.parent / "docs" / "spec.md"


def spec(text: str, folder: Path | None = None) -> BenchmarkSpec:
    return build_spec([("m.bench.yaml", parse_yaml(text, "m.bench.yaml"))], folder=folder)


def test_no_layers_give_the_defaults() -> None:
    assert build_spec([]) == BenchmarkSpec()
    assert spec("") == BenchmarkSpec()


def test_the_documented_example_is_a_spec(tmp_path: Path) -> None:
    match = re.search(r"```yaml\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert match is not None
    np.savez(tmp_path / "anchors.npz", anchors=np.zeros(3))
    written = parse_yaml(match[1], "docs/spec.md")
    assert set(written) == set(KEYS)
    made = build_spec([("docs/spec.md", written)], folder=tmp_path)
    assert made.batches == (1, 2, 4, 8)
    assert made.resolutions_px == ((320, 320), (640, 480))
    assert made.axes == (("num_boxes", (100,)),)
    assert made.inputs[0] == InputRule(name="iou_threshold", value=0.5)
    assert made.inputs[1] == InputRule(name="image", low=0, high=1)
    assert made.inputs[2].path == str((tmp_path / "anchors.npz").resolve())
    assert made.variants == (Variant.DEVICE, Variant.E2E)
    assert (made.latency_target_ms, made.threads) == (20, (1, 4))


def test_the_later_layer_wins_key_by_key() -> None:
    made = build_spec([("sidecar", {"batch": [1], "seed": 3}), ("parameters", {"batch": "2,4", "sequence": None})])
    assert (made.batches, made.seed, made.sequences) == ((2, 4), 3, None)


@pytest.mark.parametrize(
    ("written", "expected"),
    [("320", ((320, 320),)), ("48x320, 64", ((48, 320), (64, 64))), (224, ((224, 224),)), ([[8, 16]], ((8, 16),))],
)
def test_resolutions_come_in_several_forms(written: object, expected: tuple[tuple[int, int], ...]) -> None:
    assert build_spec([("cli", {"resolution": written})]).resolutions_px == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("batchs: [1]", "unknown key `batchs`. Did you mean `batch`?"),
        ("zzz: 1", "Valid keys: batch"),
        ("batch: [0]", "`batch.0` is 0: input should be greater than or equal to 1"),
        ("batch: [4294967296]", "less than or equal to 2147483648"),
        ("batch: []", "at least 1 item"),
        ("batch: [true]", "whole number"),
        ("batch: many", "`batch.0` is 'many'"),
        ("resolution: 3x3x3", "HEIGHTxWIDTH"),
        ("resolution: -3x3", "HEIGHTxWIDTH"),
        ("budget_s: .inf", "finite"),
        ("budget_s: -1", "greater than 0"),
        ("launches: 0", "`launches` is 0"),
        ("inputs: {x: {vaule: 1}}", "Did you mean `value`?"),
        ("inputs: {x: {value: 1, low: 2}}", "exactly one"),
        ("inputs: {x: {low: 2, high: 1}}", "`low` must be below `high`"),
        ("variants: [gpu]", "`variants.0` is 'gpu'"),
        ("batch: [1", "not valid YAML"),
        ("[1, 2]", "found a list"),
        ("!!python/object/apply:os.system [ls]", "not valid YAML"),
        ("a: &x [1]\nbatch: *x", "anchors and aliases"),
        ("x: " + "a" * 70_000, "at most 65,536 bytes"),
        ("batch: " + "[" * 60_000, "nested more than 16 deep"),
        ("- " * 30_000, "nested more than 16 deep"),
    ],
)
def test_a_wrong_spec_is_one_line_that_says_what_to_do(text: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        spec(text)
    line = str(caught.value)
    assert line.startswith("m.bench.yaml: ")
    assert words in line
    assert line.isprintable()


@pytest.mark.parametrize("file", ["../x.npz", "/x.npz", "a/../../x.npz"])
def test_a_file_outside_the_models_folder_is_refused(tmp_path: Path, file: str) -> None:
    with pytest.raises(SpecError, match="must lie in the model's folder"):
        spec(f"inputs: {{x: {{file: '{file}'}}}}", tmp_path)


def test_a_linked_file_outside_the_models_folder_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.zeros(1))
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "x.npz").symlink_to(tmp_path / "x.npz")
    with pytest.raises(SpecError, match="must lie in the model's folder"):
        spec("inputs: {x: {file: x.npz}}", folder)


def test_a_file_without_the_input_says_what_it_holds(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", y=np.zeros(1))
    with pytest.raises(SpecError, match="holds y"):
        spec("inputs: {x: {file: x.npz}}", tmp_path)
    with pytest.raises(SpecError, match=r"no `\.npz` file"):
        spec("inputs: {x: {file: z.npz}}", tmp_path)


def test_factors_of_a_session_are_taken_by_their_own_names(tmp_path: Path) -> None:
    read = spec("{spinning: false, cudnn_search: HEURISTIC, variants: [enqueue, graph]}", tmp_path)
    assert (read.spinning, read.cudnn_search) == (False, CudnnSearch.HEURISTIC)
    assert read.variants == (Variant.ENQUEUE, Variant.GRAPH)
    with pytest.raises(SpecError, match="cudnn_search"):
        spec("cudnn_search: FASTEST", tmp_path)


@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_a_spec_or_a_spec_error(text: str) -> None:
    line = ""
    try:
        spec(text)
    except SpecError as error:
        line = str(error)
    assert line.isprintable()
