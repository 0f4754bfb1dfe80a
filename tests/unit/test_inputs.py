"""Recipes and the values made from them, held against ONNX Runtime itself."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from onnxdyno.domain.axes import AxisSizes, Role, axis_sizes
from onnxdyno.domain.errors import PointError, SpecError
from onnxdyno.domain.models import Dim, InputRecipe
from onnxdyno.domain.outcomes import PointState
from onnxdyno.domain.plan import InputRule
from onnxdyno.graphs.materialise import dim_size, materialise
from onnxdyno.graphs.overrides import override
from onnxdyno.graphs.signature import read_signature, signature_of

CASES = Path(__file__).parent.parent / "cases"
FIXED: AxisSizes = ()


def run(case: str, sizes: dict[str, int], rules: tuple[InputRule, ...] = ()) -> list[Any]:
    path = CASES / f"{case}.onnx"
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    made = override(read_signature(path).recipes, rules)
    feeds = {recipe.name: materialise(recipe, axis_sizes(sizes), 7) for recipe in made}
    return list(session.run(None, feeds))


def recipe(rule: str = "normal", dtype: str = "float32", dims: tuple[int, ...] = (4, 3), **more: Any) -> InputRecipe:
    return InputRecipe(
        name="x",
        kind=more.pop("kind", "tensor"),
        dtype=dtype,
        dims=tuple(Dim(role=Role.OTHER, constant=n) for n in dims),
        rule=rule,
        **more,
    )


@pytest.mark.parametrize(
    ("case", "sizes", "shape"),
    [
        ("text_vocab64", {"batch": 4, "sequence": 16}, (4, 3)),
        ("lstm_state_batch_dim1", {"N": 4, "T": 5}, (4, 5, 8)),
        ("nhwc_dynamic", {"batch": 2, "height": 24, "width": 40}, (2, 24, 40, 4)),
        ("unet_multiple_of_8", {"N": 1, "H": 64, "W": 40}, (1, 1, 64, 40)),
        ("min_resolution_33", {"N": 1, "H": 33, "W": 64}, (1, 2, 1, 1)),
        ("audio_scalar_sr_if", {"batch": 4, "samples": 512}, (4, 1)),
        ("loop_tripcount_input", {"N": 2}, (2, 32)),
        ("decoder_past_kv", {"batch_size": 2, "sequence_length": 3, "past_sequence_length": 7}, (2, 3, 50)),
        ("decoder_past_kv", {"batch_size": 1, "sequence_length": 3, "past_sequence_length": 0}, (1, 3, 50)),
        ("initializer_as_input_ir8", {"N": 3}, (3, 6)),
        ("string_input", {"N": 5}, (5,)),
        ("sequence_input", {"N": 2}, (2, 4)),
        ("qdq_conv", {"N": 2}, (2, 8, 14, 14)),
        ("qlinearmatmul_uint8_io", {"N": 2}, (2, 8)),
        ("fp16_conv", {"N": 1, "H": 8, "W": 8}, (1, 8, 8, 8)),
        ("zero_dim_and_rank0", {"N": 2}, (2, 4)),
        ("same_size_different_names", {"batch_a": 4, "len_a": 3}, (4, 3)),
        ("unnamed_dims", {"batch": 1, "a:1": 1}, (1, 8)),
        ("unnamed_dims", {"batch": 4, "a:1": 3}, (4, 8)),
        ("sklearn_logreg_zipmap", {"batch": 3}, (3,)),
        ("same_names_in_branches", {"N": 2}, (2, 32)),
        ("static_batch4", {}, (4, 8, 1, 1)),
        ("external_ok/model", {"N": 2}, (2, 32)),
    ],
)
def test_made_inputs_run(case: str, sizes: dict[str, int], shape: tuple[int, ...]) -> None:
    assert np.shape(run(case, sizes)[0]) == shape


def test_detections_may_be_empty() -> None:
    (found,) = run("nms_empty_output", {"batch": 1, "num_boxes": 6})
    assert found.shape[1] == 3


def test_a_mask_of_zeros_makes_nan_and_ours_is_of_ones() -> None:
    sizes = {"batch": 1, "sequence": 8}
    (hidden,) = run("text_vocab64", sizes, (InputRule(name="attention_mask", value=0),))
    assert np.isnan(hidden).all()
    assert np.isfinite(run("text_vocab64", sizes)[0]).all()


def test_a_loop_takes_as_long_as_its_scalar_says() -> None:
    one, many = (run("loop_tripcount_input", {"N": 1}, (InputRule(name="n_steps", value=n),))[0] for n in (1, 3))
    assert one.shape == many.shape == (1, 32)
    assert (one != many).any()


def test_ids_lie_in_the_smallest_table_they_index() -> None:
    ids, mask, types = read_signature(CASES / "text_vocab64.onnx").recipes
    assert (ids.rule, ids.low, ids.high) == ("integers", 0, 64)
    assert (mask.rule, mask.low) == ("constant", 1)
    assert (types.rule, types.low) == ("constant", 0)
    values = materialise(ids, axis_sizes({"batch": 64, "sequence": 64}), 0)
    assert values.dtype == np.int64
    assert (int(values.min()), int(values.max())) == (0, 63)
    (logits,) = run("text_vocab64", {"batch": 2, "sequence": 8})
    assert np.isfinite(logits).all()


def test_a_scalar_takes_the_value_that_the_graph_knows() -> None:
    rate = read_signature(CASES / "audio_scalar_sr_if.onnx").recipes[2]
    assert materialise(rate, FIXED, 0) == 16000
    slower = run("audio_scalar_sr_if", {"batch": 1, "samples": 256}, (InputRule(name="sr", value=8000),))
    assert np.shape(slower[0]) == (1, 1)


def test_a_trip_count_is_kept_small() -> None:
    steps = read_signature(CASES / "loop_tripcount_input.onnx").recipes[1]
    assert materialise(steps, FIXED, 0) == 1


def test_wrong_sizes_fail_as_the_cases_say() -> None:
    with pytest.raises(Exception, match="reshape1x256"):
        run("reshape_hardcoded_batch", {"N": 2})
    with pytest.raises(Exception, match="Concat"):
        run("unet_multiple_of_8", {"N": 1, "H": 36, "W": 36})
    with pytest.raises(Exception, match="Invalid input shape"):
        run("min_resolution_33", {"N": 1, "H": 32, "W": 32})


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "bfloat16", "int8", "uint8", "int32", "int64", "bool"]
)
def test_values_have_the_declared_type_and_are_finite(dtype: str) -> None:
    rule = "normal" if "float" in dtype else "integers"
    value = materialise(recipe(rule, dtype, low=0, high=2), FIXED, 3)
    assert value.shape == (4, 3)
    assert value.dtype.name == dtype
    assert np.isfinite(value.astype(np.float64)).all()


def test_a_type_that_numpy_lacks_is_unsupported() -> None:
    with pytest.raises(PointError) as caught:
        materialise(recipe(dtype="float3"), FIXED, 0)
    assert caught.value.state is PointState.UNSUPPORTED


def test_maps_are_unsupported_and_optionals_left_out() -> None:
    with pytest.raises(PointError, match="map"):
        materialise(recipe(kind="map"), FIXED, 0)
    assert materialise(recipe(kind="optional"), FIXED, 0) is None


@settings(deadline=None)
@given(st.integers(0, 2**63 - 1), st.sampled_from(["normal", "uniform", "integers", "strings"]))
def test_the_same_seed_makes_the_same_value_and_another_seed_another(seed: int, rule: str) -> None:
    made = recipe(rule, "string" if rule == "strings" else "float32", (64,), low=0, high=1e6)
    assert (materialise(made, FIXED, seed) == materialise(made, FIXED, seed)).all()
    assert (materialise(made, FIXED, seed) != materialise(made, FIXED, seed + 1)).any()


def test_inputs_of_one_set_differ_and_so_do_the_items_of_a_large_batch() -> None:
    one = recipe(dims=(8, 200_000))
    value = materialise(one, FIXED, 0)
    assert all((value[0] != value[i]).any() for i in range(1, 8))
    other = InputRecipe(name="other", kind="tensor", dtype="float32", dims=one.dims, rule="normal")
    assert (materialise(other, FIXED, 0) != value).any()


def test_positions_count_along_the_last_dimension() -> None:
    assert materialise(recipe("arange", "int64", (2, 3), low=0), FIXED, 0).tolist() == [[0, 1, 2], [0, 1, 2]]
    assert materialise(recipe("arange", "int64", ()), FIXED, 0).shape == ()


def test_position_ids_are_recognised() -> None:
    ids = helper.make_tensor_value_info("position_ids", TensorProto.INT64, ["B", "S"])
    table = TensorProto(name="t", data_type=TensorProto.FLOAT, dims=[512, 8])
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("Gather", ["t", "position_ids"], ["y"])], "g", [ids], [out], [table])
    (made,) = signature_of(helper.make_model(graph)).recipes
    assert (made.rule, made.low, made.high) == ("arange", 0, 512)


def test_an_impossible_size_is_out_of_memory_not_a_crash() -> None:
    with pytest.raises(PointError) as caught:
        materialise(recipe(dims=(1 << 31, 1 << 31)), FIXED, 0)
    assert caught.value.state is PointState.OOM


def test_a_dimension_is_its_constant_and_its_axes() -> None:
    sizes = axis_sizes({"past": 7, "sequence": 3})
    assert dim_size(Dim(role=Role.OTHER, constant=1, axes=("past", "sequence")), sizes) == 11
    assert dim_size(Dim(role=Role.OTHER, axes=("past",), negative=("sequence",)), sizes) == 4
    for bad in (Dim(role=Role.OTHER, axes=("lost",)), Dim(role=Role.OTHER, negative=("past",))):
        with pytest.raises(PointError) as caught:
            dim_size(bad, sizes)
        assert caught.value.state is PointState.SHAPE_ERROR


def test_a_file_gives_the_value_where_its_shape_fits(tmp_path: Path) -> None:
    wanted = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.savez(tmp_path / "in.npz", x=wanted, y=wanted)
    path = str(tmp_path / "in.npz")
    assert (materialise(recipe("file", path=path), FIXED, 0) == wanted).all()
    for bad in (recipe("file", path=path, dims=(5, 3)), recipe("file", "int64", path=path), recipe("file", path="no")):
        with pytest.raises(PointError) as caught:
            materialise(bad, FIXED, 0)
        assert caught.value.state is PointState.SHAPE_ERROR


def test_a_rule_for_an_unknown_input_names_the_nearest() -> None:
    with pytest.raises(SpecError, match="Did you mean 'x'"):
        override((recipe(),), (InputRule(name="xx", value=1),))


@pytest.mark.parametrize(
    ("dtype", "rule"),
    [
        ("uint8", InputRule(name="x", value=300)),
        ("float16", InputRule(name="x", value=1e9)),
        ("uint8", InputRule(name="x", low=-1, high=4)),
        ("string", InputRule(name="x", value=1)),
    ],
)
def test_a_rule_that_the_type_cannot_hold_is_refused(dtype: str, rule: InputRule) -> None:
    with pytest.raises(SpecError, match="does not fit"):
        override((recipe(dtype=dtype),), (rule,))


def test_rules_replace_recipes() -> None:
    (constant,) = override((recipe(),), (InputRule(name="x", value=2.5),))
    assert (materialise(constant, FIXED, 0) == 2.5).all()
    (ranged,) = override((recipe(dtype="int64"),), (InputRule(name="x", low=5, high=7),))
    assert set(materialise(ranged, FIXED, 0).reshape(-1).tolist()) <= {5, 6}
