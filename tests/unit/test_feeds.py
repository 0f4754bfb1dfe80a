"""Values are held against the model before a run; what broadcasting would hide is caught. Types run in ONNX Runtime."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from onnxdyno.domain.axes import AxisSizes, axis_sizes
from onnxdyno.domain.errors import PointError, SpecError
from onnxdyno.domain.models import InputRecipe
from onnxdyno.domain.outcomes import PointState
from onnxdyno.domain.plan import InputRule
from onnxdyno.graphs.dtypes import dtype_name
from onnxdyno.graphs.feeds import check
from onnxdyno.graphs.materialise import materialise
from onnxdyno.graphs.overrides import override
from onnxdyno.graphs.signature import read_signature, signature_of
from onnxdyno.settings import named_files

CASES = Path(__file__).parent.parent / "cases"
DECODER = axis_sizes({"batch_size": 1, "sequence_length": 3, "past_sequence_length": 7})


def recipes(case: str) -> tuple[InputRecipe, ...]:
    return read_signature(CASES / f"{case}.onnx").recipes


def feeds(made: tuple[InputRecipe, ...], sizes: AxisSizes) -> dict[str, Any]:
    return {recipe.name: materialise(recipe, sizes, 0) for recipe in made}


def refusal(values: dict[str, Any], made: tuple[InputRecipe, ...], sizes: AxisSizes) -> str:
    with pytest.raises(PointError) as caught:
        check(values, made, sizes)
    assert caught.value.state is PointState.SHAPE_ERROR
    assert str(caught.value).isprintable()
    return caught.value.reason


@pytest.mark.parametrize(
    ("case", "sizes"),
    [
        ("decoder_past_kv", dict(DECODER)),
        ("text_vocab64", {"batch": 2, "sequence": 5}),
        ("lstm_state_batch_dim1", {"N": 4, "T": 5}),
        ("audio_scalar_sr_if", {"batch": 2, "samples": 512}),
        ("string_input", {"N": 3}),
        ("sequence_input", {"N": 3}),
        ("fp16_conv", {"N": 1, "H": 8, "W": 8}),
        ("qlinearmatmul_uint8_io", {"N": 2}),
        ("zero_dim_and_rank0", {"N": 2}),
    ],
)
def test_what_recipes_make_is_right(case: str, sizes: dict[str, int]) -> None:
    made = recipes(case)
    check(feeds(made, axis_sizes(sizes)), made, axis_sizes(sizes))


def test_a_mask_of_length_one_is_caught_although_it_would_run() -> None:
    made = recipes("decoder_past_kv")
    values = feeds(made, DECODER)
    values["attention_mask"] = values["attention_mask"][:, :1]
    session = ort.InferenceSession(str(CASES / "decoder_past_kv.onnx"), providers=["CPUExecutionProvider"])
    assert session.run(None, values)[0].shape == (1, 3, 50)
    reason = refusal(values, made, DECODER)
    assert "'attention_mask' is [1, 1]; this point needs [1, 10]" in reason
    assert "past_sequence_length + sequence_length" in reason


def test_a_cache_must_agree_with_the_lengths() -> None:
    made = recipes("decoder_past_kv")
    values = feeds(made, DECODER)
    name = next(name for name in values if name.endswith("key"))
    values[name] = values[name][:, :, :6]
    assert "this point needs" in refusal(values, made, DECODER)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"input_idz": np.zeros((1, 2), dtype=np.int64)}, "did you mean 'input_ids'?"),
        ({"input_ids": None}, "'input_ids' has no value"),
        ({"input_ids": np.zeros((1, 2), dtype=np.int32)}, "holds int32; the model takes int64"),
        ({"input_ids": [[1, 2]]}, "is a list; it must be an array"),
        ({"input_ids": np.full((1, 2), 64)}, "holds 64 … 64; the table that it indexes has 64 rows"),
        ({"input_ids": np.full((1, 2), -65)}, "the table that it indexes has 64 rows"),
    ],
)
def test_what_the_model_does_not_take_is_named(change: dict[str, Any], words: str) -> None:
    made, sizes = recipes("text_vocab64"), axis_sizes({"batch": 1, "sequence": 2})
    assert words in refusal({**feeds(made, sizes), **change}, made, sizes)


def test_every_element_of_a_sequence_is_looked_at() -> None:
    made, sizes = recipes("sequence_input"), axis_sizes({"N": 3})
    values = feeds(made, sizes)
    (name,) = values
    assert "must be a list" in refusal({name: values[name][0]}, made, sizes)
    assert "this point needs" in refusal({name: [values[name][0], values[name][1][:1]]}, made, sizes)


TYPES = [
    TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.BOOL,
    TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64,
    TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64, TensorProto.STRING,
]  # fmt: skip


@pytest.mark.parametrize("elem_type", TYPES, ids=dtype_name)
def test_every_element_type_that_the_runtime_takes_is_made(elem_type: int) -> None:
    x, y = (helper.make_tensor_value_info(name, elem_type, ["N", 4]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    made, sizes = signature_of(model).recipes, axis_sizes({"N": 3})
    values = feeds(made, sizes)
    check(values, made, sizes)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    if dtype_name(elem_type) == "bfloat16":  # numpy has no such type of its own: bound, not fed
        binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy_with_onnx_type(values["x"], elem_type))
        binding.bind_output("y")
        session.run_with_iobinding(binding)
        assert binding.get_outputs()[0].shape() == [3, 4]
    else:
        assert session.run(None, values)[0].shape == (3, 4)


def test_values_of_narrow_integers_span_their_type() -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.UINT8, [1, 64, 64, 3]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [x], [y])
    (recipe,) = signature_of(helper.make_model(graph)).recipes
    value = materialise(recipe, (), 0)
    assert (int(value.min()), int(value.max())) == (0, 255)


@pytest.mark.parametrize(
    "elem_type", [TensorProto.UINT4, TensorProto.INT4, TensorProto.FLOAT8E4M3FN, TensorProto.INT8, TensorProto.FLOAT16]
)
def test_a_constant_that_its_type_cannot_hold_is_cut_to_what_it_can(elem_type: int) -> None:
    """Found by the fuzz campaign: a sampling rate of 16000 as a 4-bit integer."""
    sr = helper.make_tensor_value_info("sr", elem_type, [])
    graph = helper.make_graph([helper.make_node("Identity", ["sr"], ["y"])], "g", [sr], [sr])
    (recipe,) = signature_of(helper.make_model(graph)).recipes
    value = materialise(recipe, (), 0)
    assert np.isfinite(value.astype(np.float64))
    assert float(value) in (15, 7, 448, 127, 16000)


def inputs_of(**declared: tuple[int, list[int | str]]) -> tuple[InputRecipe, ...]:
    values = [helper.make_tensor_value_info(name, dtype, dims) for name, (dtype, dims) in declared.items()]
    first = values[0].name
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    return signature_of(
        helper.make_model(helper.make_graph([helper.make_node("Identity", [first], ["y"])], "g", values, [y]))
    ).recipes


def value_of(made: tuple[InputRecipe, ...], name: str, sizes: dict[str, int]) -> Any:
    return materialise(next(recipe for recipe in made if recipe.name == name), axis_sizes(sizes), 0)


@settings(deadline=None)
@given(st.integers(1, 4), st.integers(1, 300))
def test_lengths_agree_with_their_sequence_at_every_point(batch: int, steps: int) -> None:
    made = inputs_of(
        audio=(TensorProto.FLOAT, ["batch", 80, "frames"]),
        audio_lengths=(TensorProto.INT64, ["batch"]),
        text=(TensorProto.INT64, ["batch", "tokens"]),
        text_len=(TensorProto.INT32, ["batch"]),
    )
    sizes = {"batch": batch, "frames": steps, "tokens": 7}
    assert value_of(made, "audio_lengths", sizes).tolist() == [steps] * batch
    assert value_of(made, "text_len", sizes).tolist() == [7] * batch
    assert value_of(made, "text_len", sizes).dtype == np.int32


def test_a_length_of_a_fixed_sequence_is_its_size() -> None:
    made = inputs_of(tokens=(TensorProto.INT64, ["N", 48]), tokens_length=(TensorProto.INT64, ["N"]))
    assert value_of(made, "tokens_length", {"N": 2}).tolist() == [48, 48]


def test_total_lengths_of_a_cached_decoder_count_the_past() -> None:
    made = inputs_of(
        input_ids=(TensorProto.INT64, ["batch_size", "sequence_length"]),
        position_ids=(TensorProto.INT64, ["batch_size", "sequence_length"]),
        past_key=(TensorProto.FLOAT, ["batch_size", 2, "past_sequence_length", 8]),
        seqlens_k=(TensorProto.INT32, ["batch_size"]),
        total_sequence_length=(TensorProto.INT32, []),
    )
    sizes = {"batch_size": 2, "sequence_length": 3, "past_sequence_length": 16}
    assert value_of(made, "seqlens_k", sizes).tolist() == [18, 18]
    assert value_of(made, "total_sequence_length", sizes).tolist() == 19
    assert value_of(made, "position_ids", sizes).tolist() == [[16, 17, 18]] * 2


def test_a_spec_replaces_a_length_by_just_its_value() -> None:
    made = inputs_of(audio=(TensorProto.FLOAT, ["N", "T"]), audio_lengths=(TensorProto.INT64, ["N"]))
    changed = override(made, (InputRule(name="audio_lengths", value=5),))
    assert value_of(changed, "audio_lengths", {"N": 2, "T": 50}).tolist() == [5, 5]


def test_files_that_a_spec_names_are_listed_for_fetching() -> None:
    layer = {"inputs": {"a": {"file": "x.npz"}, "b": {"file": "./in/y.npz"}, "c": {"file": "x.npz"}, "d": {"value": 1}}}
    assert named_files("m.bench.yaml", layer) == ("x.npz", "in/y.npz")


@pytest.mark.parametrize("file", ["../x.npz", "/x.npz", "a\\..\\x.npz", "c:x.npz", "", "x\n.npz", "a/../../x.npz"])
def test_files_that_could_leave_the_folder_are_refused_before_anything_is_asked(file: str) -> None:
    with pytest.raises(SpecError, match="must lie in the model's folder") as caught:
        named_files("m.bench.yaml", {"inputs": {"a": {"file": file}}})
    assert str(caught.value).isprintable()
