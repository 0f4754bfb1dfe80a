"""Shapes at a point, shape arithmetic, bytes, parameters and liveness of small models."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from onnxdyno.domain.axes import axis_sizes
from onnxdyno.domain.cost import Cost
from onnxdyno.domain.errors import PointError
from onnxdyno.graphs.cost import cost_at
from onnxdyno.graphs.signature import read_signature
from small_models import cost_of, cost_of_one, model_of

CASES = Path(__file__).parent.parent / "cases"
I64 = TensorProto.INT64


def node(op_type: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(op_type, inputs.split(), outputs.split(), name=outputs.split(maxsplit=1)[0], **attributes)


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.int64)


def case(file: str, **sizes: int) -> Cost:
    path = CASES / file
    return cost_at(path, read_signature(path), axis_sizes(sizes))


def shapes(cost: Cost) -> dict[str, tuple[int | None, ...] | None]:
    return {each.output: each.output_shapes[0] for each in cost.nodes}


def test_grouped_convolution_counts_147456_flops_and_304_parameters_and_grows_with_the_batch() -> None:
    assert [case("grouped_conv_counts.onnx", N=n).flops.value for n in (1, 2, 16)] == [
        147_456,
        2 * 147_456,
        16 * 147_456,
    ]
    assert case("grouped_conv_counts.onnx", N=1).parameters == 304


def test_quantise_pairs_cost_no_flops() -> None:
    cost = case("qdq_conv.onnx", N=2)
    by_type = {each.op_type: each.flops for each in cost.nodes}
    assert by_type["QuantizeLinear"] == by_type["DequantizeLinear"] == 0
    assert cost.flops.value == by_type["Conv"] == 2 * 84_672


def test_a_quantised_product_costs_128_macs_an_item() -> None:
    assert case("qlinearmatmul_uint8_io.onnx", N=5).flops.value == 5 * 2 * 128


def test_external_weights_count_and_are_not_read() -> None:
    present = case("external_ok/model.onnx", N=1)
    absent = case("external_missing/model.onnx", N=1)
    assert present.parameters == absent.parameters == 2_048
    assert present.weight_bytes == 8_192
    assert present.flops.value == absent.flops.value == 2 * 2_048


def test_an_overridable_initializer_is_a_parameter_once() -> None:
    assert case("initializer_as_input_ir8.onnx", N=1).parameters == 24


def test_a_point_without_a_size_for_an_axis_is_a_shape_error() -> None:
    with pytest.raises(PointError, match="has no size"):
        case("grouped_conv_counts.onnx")


def test_a_point_that_the_graph_cannot_run_has_no_count_and_says_why() -> None:
    cost = case("unet_multiple_of_8.onnx", N=1, H=36, W=36)
    assert cost.flops.value is None
    assert "Concat" in (cost.flops.reason or "")
    assert case("unet_multiple_of_8.onnx", N=1, H=64, W=40).flops.value


def test_a_reshape_target_computed_from_shapes_is_followed() -> None:
    model = model_of(
        [
            node("Shape", "x", "s"),
            node("Gather", "s zero", "n", axis=0),
            node("Unsqueeze", "n first", "n1"),
            node("Concat", "n1 minus", "target", axis=0),
            node("Reshape", "x target", "flat"),
            node("MatMul", "flat w", "y"),
        ],
        {"x": ("N", 4, "H", 5)},
        ["y"],
        stored={
            "zero": np.array(0, np.int64),
            "first": ints(0),
            "minus": ints(-1),
            "w": np.ones((60, 7), np.float32),
        },
    )
    cost = cost_of(model, N=2, H=3)
    assert shapes(cost)["flat"] == (2, 60)
    assert cost.flops.value == 2 * 2 * 60 * 7


def test_sizes_computed_by_division_and_rounding_are_followed_to_resize() -> None:
    model = model_of(
        [
            node("Shape", "x", "s"),
            node("Slice", "s two four", "hw"),
            node("Cast", "hw", "f", to=TensorProto.FLOAT),
            node("Mul", "f scale", "g"),
            node("Floor", "g", "h"),
            node("Cast", "h", "i", to=TensorProto.INT64),
            node("Slice", "s zero two", "nc"),
            node("Concat", "nc i", "sizes", axis=0),
            helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear"),
        ],
        {"x": (1, 3, "H", "W")},
        ["y"],
        stored={"zero": ints(0), "two": ints(2), "four": ints(4), "scale": np.array([1.5], np.float32)},
    )
    cost = cost_of(model, H=5, W=6)
    assert shapes(cost)["y"] == (1, 3, 7, 9)
    assert cost.flops.value == 2 * 4 * 3 * 7 * 9


@pytest.mark.parametrize(
    ("nodes", "target"),
    [
        ([node("Expand", "n1 two", "t")], (4, 4)),
        ([node("ConstantOfShape", "n1", "t", value=helper.make_tensor("v", I64, [1], [3]))], (3,) * 4),
        ([node("Div", "n1 two", "t")], (2,)),
        ([node("Where", "yes n1 two", "t")], (4,)),
        ([node("Equal", "n1 two", "e"), node("Where", "e two n1", "t")], (4,)),
        ([node("ReduceProd", "s", "p", keepdims=1), node("Mod", "p five", "t")], (4 * 3 % 5,)),
        ([node("Max", "n1 five", "t")], (5,)),
        ([node("Mul", "n1 two", "a"), node("Sub", "a one", "b"), node("Neg", "b", "c"), node("Abs", "c", "t")], (7,)),
        ([node("Split", "s", "t u", axis=0)], (4,)),
        ([node("Squeeze", "n1", "a"), node("Range", "zero a one", "t")], (0, 1, 2, 3)),
        ([node("Tile", "n1 two", "t")], (4, 4)),
        ([node("Size", "x", "a"), node("Unsqueeze", "a first", "t")], (12,)),
        ([node("Transpose", "s", "t")], (4, 3)),
        ([node("Clip", "n1 zero one", "t")], (1,)),
        ([node("Pow", "n1 two", "t")], (16,)),
        ([node("Less", "n1 five", "e"), node("Not", "e", "f"), node("Cast", "f", "t", to=I64)], (0,)),
        ([node("Gather", "s last", "t")], (3,)),
        ([node("Slice", "s last_i first_i first minus", "t")], (3,)),
    ],
)
def test_shape_arithmetic_is_exact(nodes: list[Any], target: tuple[int, ...]) -> None:
    """`t` is computed from the sizes of x; ConstantOfShape makes its elements visible as a shape."""
    stored = {
        "zero": np.array(0, np.int64),
        "one": np.array(1, np.int64),
        "two": ints(2),
        "five": ints(5),
        "first": ints(0),
        "last": ints(-1),
        "last_i": ints(1),
        "first_i": ints(0),
        "minus": ints(-1),
        "yes": np.array(True),
    }
    head = [node("Shape", "x", "s"), node("Slice", "s first_i last_i", "n1")]
    tail = [node("ConstantOfShape", "t", "y")]
    cost = cost_of(model_of([*head, *nodes, *tail], {"x": ("N", 3)}, ["y"], stored=stored), N=4)
    assert shapes(cost)["y"] == target
    assert cost.flops.value == 0


def test_nodes_of_shape_arithmetic_cost_no_flops() -> None:
    model = model_of(
        [node("Shape", "x", "s"), node("Mul", "s two", "d"), node("ConstantOfShape", "d", "y")],
        {"x": ("N", 3)},
        ["y"],
        stored={"two": ints(2, 2)},
    )
    assert cost_of(model, N=4).flops.value == 0


def test_what_is_computed_from_weights_alone_is_computed_once_at_load() -> None:
    model = model_of(
        [node("Transpose", "w", "wt"), node("Mul", "wt two", "w2"), node("MatMul", "x w2", "y")],
        {"x": ("N", 4)},
        ["y"],
        stored={"w": np.ones((5, 4), np.float32), "two": np.array(2, np.float32)},
    )
    cost = cost_of(model, N=3)
    assert [each.runs for each in cost.nodes] == [0, 0, 1]
    assert cost.flops.value == 2 * 3 * 4 * 5
    assert cost.activation_peak_bytes.value == 3 * 5 * 4


def test_bytes_are_those_of_operands_views_move_nothing_and_look_ups_read_what_they_take() -> None:
    model = model_of(
        [node("Gather", "table ids", "e"), node("Reshape", "e flat", "f"), node("Add", "f f", "y")],
        {"ids": ((2, 3), I64)},
        ["y"],
        stored={"table": np.ones((1000, 8), np.float32), "flat": ints(6, 8)},
    )
    gather, reshape, add = cost_of(model).nodes
    taken = 2 * 3 * 8 * 4
    assert (gather.read_bytes, gather.written_bytes) == (taken + 2 * 3 * 8, taken)
    assert (reshape.read_bytes, reshape.written_bytes, reshape.output_bytes) == (0, 0, taken)
    assert (add.read_bytes, add.written_bytes) == (taken, taken)


def test_types_of_four_bits_are_packed() -> None:
    cost = cost_of_one("DequantizeLinear", ((6, 4), TensorProto.INT4), np.array(1, np.float32), opset=21)
    assert cost.nodes[0].read_bytes == 12 + 4


def test_a_chain_keeps_two_tensors_alive_and_in_place_ops_keep_one() -> None:
    size = 4 * 1000
    plain = model_of([node("Exp", "x", "a"), node("Exp", "a", "b"), node("Exp", "b", "y")], {"x": (1000,)}, ["y"])
    assert cost_of(plain).activation_peak_bytes.value == 2 * size
    chain = [node("Exp", "x", "a"), node("Relu", "a", "b"), node("Relu", "b", "c"), node("ReduceMax", "c", "y")]
    inplace = model_of(chain, {"x": (1000,)}, ["y"])
    assert cost_of(inplace).activation_peak_bytes.value == size + 4


def test_an_input_that_is_still_needed_is_not_overwritten() -> None:
    model = model_of([node("Exp", "x", "a"), node("Relu", "a", "b"), node("Add", "a b", "y")], {"x": (1000,)}, ["y"])
    assert cost_of(model).activation_peak_bytes.value == 3 * 4000


def test_a_view_keeps_its_source_alive() -> None:
    model = model_of(
        [node("Exp", "x", "a"), node("Flatten", "a", "v"), node("Exp", "v", "b"), node("Exp", "b", "c"),
         node("ReduceMax", "c", "y")],
        {"x": (10, 100)}, ["y"],
    )  # fmt: skip
    assert cost_of(model).activation_peak_bytes.value == 2 * 4000


def test_a_long_skip_connection_stays_alive_to_its_end() -> None:
    chain = [node("Exp", "x", "skip"), node("Exp", "skip", "a0")]
    chain += [node("Exp", f"a{i}", f"a{i + 1}") for i in range(5)]
    model = model_of([*chain, node("Add", "a5 skip", "y")], {"x": (1000,)}, ["y"])
    assert cost_of(model).activation_peak_bytes.value == 3 * 4000


def test_an_output_that_nobody_reads_dies_at_once() -> None:
    model = model_of([node("Exp", "x", "a"), node("Exp", "x", "b"), node("Exp", "x", "y")], {"x": (1000,)}, ["y"])
    assert cost_of(model).activation_peak_bytes.value == 4000


def test_a_giant_constant_of_shape_is_an_activation_and_its_size_is_told() -> None:
    cost = case("huge_constantofshape.onnx", N=1)
    assert (cost.activation_peak_bytes.value or 0) >= 4 << 40


def test_every_null_has_a_reason() -> None:
    for file in ("custom_domain_op.onnx", "nms_empty_output.onnx", "sklearn_logreg_zipmap.onnx", "sequence_input.onnx"):
        path = CASES / file
        signature = read_signature(path)
        cost = cost_at(path, signature, axis_sizes({axis.name: 3 for axis in signature.axes}))
        counts = (cost.flops, cost.read_bytes, cost.written_bytes, cost.output_bytes, cost.activation_peak_bytes)
        assert any(count.value is None for count in counts)
        assert all(count.reason for count in counts if count.value is None)
        for each in cost.nodes:
            if None in (each.flops, each.read_bytes, each.written_bytes, each.output_bytes):
                assert each.reason


def test_hostile_names_come_out_printable() -> None:
    model = model_of(
        [helper.make_node("Relu", ["x"], ["y\n\x1b[31m"], name="bad\x1b]0;owned\x07\nname")],
        {"x": (2,)},
        ["y\n\x1b[31m"],
    )
    only = cost_of(model).nodes[0]
    assert only.name.isprintable()
    assert only.output.isprintable()


def test_nodes_that_look_alike_are_told_apart_by_what_they_read() -> None:
    """Equal nodes with equal operands are counted once: whatever changes a count must tell two of them apart."""
    foreign = helper.make_node("Add", ["x", "z"], ["foreign"], domain="own")
    nodes = [
        node("Add", "x z", "two"),
        node("Add", "x x", "twice"),
        node("Add", "v w", "constant"),
        node("Concat", "x z", "rows", axis=0),
        node("Concat", "x z", "columns", axis=1),
        node("Expand", "x small", "few"),
        node("Expand", "x large", "many"),
        node("Add", "x w", "weighted"),
        node("Add", "z w", "again"),
        foreign,
    ]
    given = {"v": np.ones((4, 8), np.float32), "w": np.ones((4, 8), np.float32)}
    cost = cost_of(
        model_of(
            nodes, {"x": (4, 8), "z": (4, 8)}, ["two"], stored=given | {"small": ints(1, 1), "large": ints(3, 1, 1)}
        )
    )
    found = {each.output: each for each in cost.nodes}
    size = 4 * 8 * 4
    assert (found["two"].read_bytes, found["twice"].read_bytes) == (2 * size, size)
    assert (found["two"].flops, found["constant"].flops, found["constant"].runs) == (32, 0, 0)
    assert shapes(cost)["rows"] == (8, 8)
    assert shapes(cost)["columns"] == (4, 16)
    assert shapes(cost)["few"] == (4, 8)
    assert shapes(cost)["many"] == (3, 4, 8)
    assert found["foreign"].flops is None
    same = (found["weighted"].flops, found["weighted"].read_bytes, found["weighted"].output_shapes)
    assert same == (found["again"].flops, found["again"].read_bytes, found["again"].output_shapes)
    assert found["weighted"].name != found["again"].name
