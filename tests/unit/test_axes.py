"""Axes, roles and weights, as the graph shows them."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper

from onnxdyno.domain.axes import Role
from onnxdyno.domain.models import Signature
from onnxdyno.graphs.signature import read_signature, signature_of
from onnxdyno.reporting.terminal import shape_text

CASES = Path(__file__).parent.parent / "cases"


def signature(case: str) -> Signature:
    return read_signature(CASES / f"{case}.onnx")


def axes(found: Signature) -> dict[str, tuple[str, int | None]]:
    return {axis.name: (axis.role.value, axis.size) for axis in found.axes}


def shape(found: Signature, name: str) -> tuple[int | str, ...]:
    dims = next(value.dims for value in found.inputs if value.name == name)
    assert dims is not None
    return tuple("+".join(dim.axes) if dim.axes else dim.constant for dim in dims)


def model(
    nodes: Sequence[NodeProto],
    inputs: dict[str, tuple[int, Sequence[str | int | None]]],
    weights: dict[str, Sequence[int]] | None = None,
) -> ModelProto:
    values = [helper.make_tensor_value_info(name, dtype, dims) for name, (dtype, dims) in inputs.items()]
    stored = [TensorProto(name=n, data_type=TensorProto.FLOAT, dims=d) for n, d in (weights or {}).items()]
    out = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)
    return helper.make_model(helper.make_graph(list(nodes), "g", values, [out], stored))


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("grouped_conv_counts", {"N": ("batch", None), "height": ("height", 32), "width": ("width", 32)}),
        ("reshape_hardcoded_batch", {"N": ("batch", None), "height": ("height", 4), "width": ("width", 4)}),
        ("static_batch1", {"batch": ("batch", 1), "height": ("height", 16), "width": ("width", 16)}),
        ("static_batch4", {"batch": ("batch", 4), "height": ("height", 16), "width": ("width", 16)}),
        ("text_vocab64", {"batch": ("batch", None), "sequence": ("sequence", None)}),
        ("lstm_state_batch_dim1", {"N": ("batch", None), "T": ("sequence", None)}),
        ("nhwc_dynamic", {"batch": ("batch", None), "height": ("height", None), "width": ("width", None)}),
        ("unet_multiple_of_8", {"N": ("batch", None), "H": ("height", None), "W": ("width", None)}),
        ("min_resolution_33", {"N": ("batch", None), "H": ("height", None), "W": ("width", None)}),
        ("audio_scalar_sr_if", {"batch": ("batch", None), "samples": ("time", None)}),
        ("loop_tripcount_input", {"N": ("batch", None)}),
        ("initializer_as_input_ir8", {"N": ("batch", None)}),
        ("string_input", {"N": ("batch", None)}),
        ("nms_empty_output", {"batch": ("batch", None), "num_boxes": ("other", None)}),
        ("unnamed_dims", {"batch": ("batch", None), "a:1": ("other", None)}),
        ("zero_dim_and_rank0", {"N": ("batch", None)}),
        ("sklearn_logreg_zipmap", {"batch": ("batch", None)}),
    ],
)
def test_the_axes_of_a_case_are_found(case: str, expected: dict[str, tuple[str, int | None]]) -> None:
    assert axes(signature(case)) == expected


def test_the_batch_of_a_recurrent_state_is_its_second_dimension() -> None:
    found = signature("lstm_state_batch_dim1")
    assert shape(found, "x") == ("N", "T", 4)
    assert shape(found, "h0") == shape(found, "c0") == (1, "N", 8)


def test_channels_last_has_its_resolution_in_the_middle() -> None:
    dims = signature("nhwc_dynamic").inputs[0].dims
    assert dims is not None
    assert [dim.role for dim in dims] == [Role.BATCH, Role.HEIGHT, Role.WIDTH, Role.CHANNELS]


def test_a_sum_of_symbols_is_no_axis_of_its_own() -> None:
    found = signature("decoder_past_kv")
    assert axes(found) == {
        "batch_size": ("batch", None),
        "sequence_length": ("sequence", None),
        "past_sequence_length": ("past", None),
    }
    assert shape(found, "attention_mask") == ("batch_size", "past_sequence_length+sequence_length")


def test_dimensions_that_must_be_equal_are_one_axis_whatever_their_names() -> None:
    found = signature("same_size_different_names")
    assert shape(found, "a") == shape(found, "b") == ("batch_a", "len_a")
    assert found.axes[0].symbols == ("batch_a", "batch_b")
    found = signature("unnamed_dims")
    assert shape(found, "a") == ("batch", "a:1")
    assert shape(found, "b") == ("a:1", 8)


def test_a_declared_zero_is_a_size() -> None:
    found = signature("zero_dim_and_rank0")
    assert shape(found, "x") == (0, 4)
    assert shape(found, "alpha") == ()


def test_an_overridable_initializer_is_not_an_input() -> None:
    found = signature("initializer_as_input_ir8")
    assert [value.name for value in found.inputs] == ["x"]
    assert found.parameters == 24


@pytest.mark.parametrize(
    ("case", "parameters", "precision"),
    [
        ("grouped_conv_counts", 304, "float32"),
        ("fp16_conv", 216, "float16"),
        ("bf16_add", 0, "bfloat16"),
        ("qdq_conv", 220, "int8/QDQ"),
        ("qlinearmatmul_uint8_io", 132, "uint8/QLinear"),
        ("huge_constantofshape", 0, "float32"),
        ("same_names_in_branches", 1024, "float32"),
    ],
)
def test_parameters_and_precision(case: str, parameters: int, precision: str) -> None:
    found = signature(case)
    assert (found.parameters, found.precision) == (parameters, precision)


def test_sequences_and_maps_are_named_for_what_they_are() -> None:
    found = signature("sequence_input")
    assert (found.inputs[0].kind, found.inputs[0].dtype) == ("sequence", "float32")
    assert any("xs" in note for note in found.notes)
    output = signature("sklearn_logreg_zipmap").outputs[1]
    assert (output.kind, output.dtype, output.dims) == ("sequence", "map(int64,float32)", None)


def test_an_unnamed_recurrent_batch_is_found_through_a_branch_and_a_slice() -> None:
    x = helper.make_node("Transpose", ["wave"], ["steps"], perm=[1, 0])
    lift = helper.make_node("Unsqueeze", ["steps"], ["x3"], axes=[2])
    lstm = helper.make_node("GRU", ["x3", "W", "R", "", "", "state"], ["y"], hidden_size=8)
    found = signature_of(
        model(
            [x, lift, lstm],
            {"wave": (TensorProto.FLOAT, [None, None]), "state": (TensorProto.FLOAT, [1, None, None])},
            {"W": [1, 24, 1], "R": [1, 24, 8]},
        )
    )
    assert shape(found, "state") == (1, "batch", 8)
    assert shape(found, "wave")[0] == "batch"
    assert any("leave only 8" in note for note in found.notes)


def test_weights_fix_a_dimension_that_is_declared_dynamic() -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    found = signature_of(model([node], {"x": (TensorProto.FLOAT, [None, None])}, {"w": [24, 3]}))
    assert shape(found, "x") == ("batch", 24)


def test_the_graph_is_believed_before_a_name() -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    found = signature_of(
        model([node], {"x": (TensorProto.FLOAT, ["width", 3, "batch", "height"])}, {"w": [8, 3, 3, 3]})
    )
    assert axes(found) == {"width": ("batch", None), "batch": ("height", None), "height": ("width", None)}


def test_one_symbol_for_both_sides_leaves_squares() -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    found = signature_of(model([node], {"x": (TensorProto.FLOAT, ["N", 3, "S", "S"])}, {"w": [8, 3, 3, 3]}))
    assert axes(found) == {"N": ("batch", None), "S": ("height", None)}
    dims = found.inputs[0].dims
    assert dims is not None
    assert [dim.role for dim in dims[2:]] == [Role.HEIGHT, Role.WIDTH]


def test_made_up_symbols_tie_dimensions_but_name_nothing() -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    symbols: list[str | int | None] = ["unk__1", 3, "p2o.DynamicDimension.1", "p2o.DynamicDimension.2"]
    found = signature_of(model([node], {"x": (TensorProto.FLOAT, symbols)}, {"w": [8, 3, 3, 3]}))
    assert list(axes(found)) == ["batch", "height", "width"]


def test_a_made_up_symbol_of_an_output_says_nothing() -> None:
    made = model([helper.make_node("Mystery", ["x"], ["y"])], {"x": (TensorProto.FLOAT, ["N", 4])})
    del made.graph.output[:]
    made.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", "unk__7", "boxes", None, 3]))
    assert shape_text(signature_of(made).outputs[0]) == "[N, ?, boxes, ?, 3]"


def test_a_total_length_is_past_and_present() -> None:
    node = helper.make_node("Identity", ["mask"], ["y"])
    found = signature_of(
        model(
            [node],
            {
                "input_ids": (TensorProto.INT64, ["batch_size", "sequence_length"]),
                "mask": (TensorProto.INT64, ["batch_size", "total_sequence_length"]),
                "past.0": (TensorProto.FLOAT, ["batch_size", 2, "past_sequence_length", 4]),
            },
        )
    )
    assert shape(found, "mask") == ("batch_size", "past_sequence_length+sequence_length")
    assert any("total_sequence_length" in note for note in found.notes)


def test_hyphens_belong_to_names() -> None:
    node = helper.make_node("Identity", ["x"], ["y"])
    found = signature_of(model([node], {"x": (TensorProto.FLOAT, ["batch-size", 4])}))
    assert axes(found) == {"batch-size": ("batch", None)}


def test_hostile_names_of_dimensions_are_escaped() -> None:
    node = helper.make_node("Identity", ["x"], ["y"])
    found = signature_of(model([node], {"x": (TensorProto.FLOAT, ["\x1b[31mN\n", 4])}))
    assert all(axis.name.isprintable() for axis in found.axes)


def test_names_of_axes_are_unique_and_inputs_may_be_many() -> None:
    inputs: dict[str, tuple[int, Sequence[str | int | None]]] = {
        f"x{i}": (TensorProto.FLOAT, [f"N{i}", f"a{i} + b{i}"]) for i in range(5_000)
    }
    found = signature_of(model([helper.make_node("Identity", ["x0"], ["y"])], inputs))
    names = [axis.name for axis in found.axes]
    assert len(set(names)) == len(names) == 15_000
    assert shape(found, "x7") == ("N7", "a7+b7")


def test_ten_thousand_nodes_are_walked_without_recursion() -> None:
    nodes = [helper.make_node("Relu", [f"t{i}"], [f"t{i + 1}"]) for i in range(10_000)]
    found = signature_of(model(nodes, {"t0": (TensorProto.FLOAT, ["N", 4])}))
    assert found.node_count == 10_000
    assert axes(found) == {"N": ("batch", None)}
