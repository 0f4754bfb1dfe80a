"""What the walk follows: shapes that the graph computes, local functions, branches; held against ONNX Runtime."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from onnxdyno.domain.models import Signature
from onnxdyno.graphs.declared import fed_inputs
from onnxdyno.graphs.signature import signature_of
from onnxdyno.graphs.tracing import At, Extents, InputDim, Trace
from onnxdyno.graphs.walking import walk

Dims = Sequence[str | int | None]
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def constant(name: str, values: Sequence[int] | int) -> TensorProto:
    return numpy_helper.from_array(np.array(values, dtype=np.int64), name)


def weight(name: str, *shape: int) -> TensorProto:
    return numpy_helper.from_array(np.ones(shape, dtype=np.float32), name)


def value(name: str, dims: Dims | None, dtype: int = FLOAT) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, dims)


def model(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, tuple[int, Dims]],
    stored: Sequence[TensorProto] = (),
    outputs: Sequence[str] | None = None,
) -> ModelProto:
    ends = outputs if outputs is not None else [nodes[-1].output[0]]
    graph = helper.make_graph(
        list(nodes),
        "g",
        [value(name, dims, dtype) for name, (dtype, dims) in inputs.items()],
        [value(name, None) for name in ends],
        list(stored),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def node(op: str, inputs: Sequence[str], *outputs: str, **attributes: Any) -> NodeProto:
    return helper.make_node(op, list(inputs), list(outputs), **attributes)


def traced(made: ModelProto) -> Trace:
    dims = [
        InputDim(input=v.name, position=i, rank=len(v.dims or ()), size=dim.size, symbol=dim.symbol)
        for v in fed_inputs(made)
        for i, dim in enumerate(v.dims or ())
    ]
    return walk(made, tuple(dims))


def axes(found: Signature) -> dict[str, tuple[str, int | None]]:
    return {axis.name: (axis.role.value, axis.size) for axis in found.axes}


def shape(found: Signature, name: str) -> tuple[int | str, ...]:
    dims = next(v.dims for v in (*found.inputs, *found.outputs) if v.name == name)
    assert dims is not None
    return tuple("+".join(dim.axes) if dim.axes else dim.constant for dim in dims)


def split_heads(x: str, out: str) -> list[NodeProto]:
    """[B, S, 8] -> [B, S, 2, 4] by a shape that the graph computes, as exporters write it."""
    return [
        node("Shape", [x], f"{out}_shape"),
        node("Gather", [f"{out}_shape", "zero"], f"{out}_b", axis=0),
        node("Gather", [f"{out}_shape", "one"], f"{out}_s", axis=0),
        node("Unsqueeze", [f"{out}_b", "axis0"], f"{out}_b1"),
        node("Unsqueeze", [f"{out}_s", "axis0"], f"{out}_s1"),
        node("Concat", [f"{out}_b1", f"{out}_s1", "heads", "width"], f"{out}_target", axis=0),
        node("Reshape", [x, f"{out}_target"], out),
    ]


SHAPES = [
    constant("zero", 0), constant("one", 1), constant("axis0", [0]), constant("heads", [2]), constant("width", [4]),
]  # fmt: skip


def test_a_reshape_to_a_computed_shape_keeps_the_dimensions_it_carries() -> None:
    nodes = [
        *split_heads("x", "heads4"),
        node("Transpose", ["heads4"], "moved", perm=[0, 2, 1, 3]),
        node("Transpose", ["moved"], "back", perm=[0, 2, 1, 3]),
        node("Reshape", ["back", "flat"], "y"),
    ]
    trace = traced(model(nodes, {"x": (FLOAT, ["B", "S", 8])}, [*SHAPES, constant("flat", [0, -1, 8])]))
    assert trace.extents["heads4"] == (At(0), At(1), 2, 4)
    assert trace.extents["moved"] == (At(0), 2, At(1), 4)
    assert trace.extents["y"] == (At(0), At(1), 8)


def test_roles_are_found_behind_a_computed_reshape() -> None:
    nodes = [
        node("Shape", ["x"], "s"),
        node("Slice", ["s", "axis0", "heads", "axis0"], "lead"),
        node("Concat", ["lead", "image"], "target", axis=0),
        node("Reshape", ["x", "target"], "lifted"),
        node("Conv", ["lifted", "w"], "y"),
    ]
    stored = [constant("axis0", [0]), constant("heads", [1]), constant("image", [1, -1, 16]), weight("w", 2, 1, 3, 3)]
    found = signature_of(model(nodes, {"x": (FLOAT, [None, None, 16])}, stored))
    assert axes(found) == {"batch": ("batch", None), "height": ("height", None), "width": ("width", 16)}


@pytest.mark.parametrize("depth", [1, 3])
def test_a_local_function_is_followed_as_if_it_were_written_out(depth: int) -> None:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    functions = [
        helper.make_function(
            "own",
            "Step0",
            ["a", "w"],
            ["b"],
            [node("Conv", ["a", "w"], "c"), node("Flatten", ["c"], "b")],
            opsets[:1],
        )
    ]
    functions += [
        helper.make_function(
            "own", f"Step{i}", ["a", "w"], ["b"], [node(f"Step{i - 1}", ["a", "w"], "b", domain="own")], opsets
        )
        for i in range(1, depth)
    ]
    call = node(f"Step{depth - 1}", ["x", "weights"], "y", domain="own")
    made = model([call], {"x": (FLOAT, ["a", None, "b", "c"])}, [weight("weights", 8, 3, 3, 3)])
    made.functions.extend(functions)
    made.opset_import.append(opsets[1])
    found = signature_of(made)
    assert axes(found) == {"a": ("batch", None), "b": ("height", None), "c": ("width", None)}
    assert shape(found, "x") == ("a", 3, "b", "c")
    assert traced(made).extents["y"] == (At(0), None)


def test_an_attribute_of_a_function_comes_from_its_call() -> None:
    inner = node("Transpose", ["a"], "b")
    inner.attribute.append(helper.make_attribute("perm", [0]))
    inner.attribute[0].Clear()
    inner.attribute[0].name, inner.attribute[0].ref_attr_name = "perm", "order"
    made = model([node("Turn", ["x"], "y", domain="own", order=[2, 0, 1])], {"x": (FLOAT, ["A", "B", "C"])})
    function = helper.make_function("own", "Turn", ["a"], ["b"], [inner], [helper.make_opsetid("", 17)], ["order"])
    made.functions.append(function)
    assert traced(made).extents["y"] == (At(2), At(0), At(1))


def test_a_function_sees_nothing_of_its_caller() -> None:
    made = model([node("Peek", [], "y", domain="own")], {"x": (FLOAT, ["A"])})
    body = [node("Identity", ["x"], "b")]
    made.functions.append(helper.make_function("own", "Peek", [], ["b"], body, [helper.make_opsetid("", 17)]))
    assert "y" not in traced(made).extents


def test_functions_that_call_themselves_or_double_at_every_level_end() -> None:
    opset = [helper.make_opsetid("own", 1)]
    made = model([node("F0", ["x"], "y", domain="own")], {"x": (FLOAT, ["A"])})
    for i in range(60):  # 2^60 nodes if written out
        calls = [node(f"F{(i + 1) % 60}", ["a"], name, domain="own") for name in "bc"]
        made.functions.append(helper.make_function("own", f"F{i}", ["a"], ["b"], calls, opset))
    assert axes(signature_of(made)) == {"A": ("batch", None)}


def test_functions_that_hide_their_calls_in_branches_end_too() -> None:
    """Found by the fuzz campaign: only nodes right in a function were counted, not those of its branches."""
    opset = [helper.make_opsetid("own", 1)]
    made = model([node("F0", ["x"], "y", domain="own")], {"x": (FLOAT, ["A"])})
    for i in range(30):  # 2^30 nodes if written out
        branch = helper.make_graph(
            [node(f"F{i + 1}", ["a"], name, domain="own") for name in "bc"], "g", [], [value("b", None)]
        )
        choose = node("If", ["a"], "b", then_branch=branch, else_branch=branch)
        made.functions.append(helper.make_function("own", f"F{i}", ["a"], ["b"], [choose], opset))
    assert axes(signature_of(made)) == {"A": ("batch", None)}


def test_what_both_branches_agree_on_is_known_after_an_if() -> None:
    def branch(name: str, op: str) -> GraphProto:
        return helper.make_graph([node(op, ["x"], name)], name, [], [value(name, None)])

    choose = node("If", ["flag"], "y", then_branch=branch("t", "Relu"), else_branch=branch("e", "Neg"))
    trace = traced(model([choose], {"x": (FLOAT, ["N", 4]), "flag": (TensorProto.BOOL, [])}))
    assert trace.extents["y"] == (At(0), At(1))


def test_a_table_of_positions_limits_the_sequence() -> None:
    nodes = [
        node("Gather", ["words", "ids"], "embedded"),
        node("Shape", ["ids"], "s"),
        node("Gather", ["s", "one"], "steps", axis=0),
        node("Range", ["zero", "steps", "one"], "positions"),
        node("Gather", ["places", "positions"], "placed"),
        node("Add", ["embedded", "placed"], "y"),
    ]
    stored = [weight("words", 90, 8), weight("places", 40, 8), constant("zero", 0), constant("one", 1)]
    found = signature_of(model(nodes, {"ids": (INT64, ["B", "S"])}, stored))
    assert found.limits == (("S", 40),)
    assert found.recipes[0].high == found.recipes[0].bound == 90


def test_positions_that_are_fed_are_limited_by_their_table() -> None:
    nodes = [node("Gather", ["places", "position_ids"], "y")]
    found = signature_of(model(nodes, {"position_ids": (INT64, ["B", "S"])}, [weight("places", 40, 8)]))
    assert found.limits == (("S", 40),)


def test_a_stored_buffer_that_is_cut_to_the_sequence_limits_it() -> None:
    nodes = [
        node("Shape", ["ids"], "s"),
        node("Gather", ["s", "ones"], "steps", axis=0),
        node("Slice", ["buffer", "zeros", "steps", "ones"], "positions"),
        node("Gather", ["places", "positions"], "y"),
    ]
    buffer = numpy_helper.from_array(np.arange(512, dtype=np.int64)[None], "buffer")
    stored = [buffer, weight("places", 512, 8), constant("zeros", [0]), constant("ones", [1])]
    found = signature_of(model(nodes, {"ids": (INT64, ["B", "S"])}, stored))
    assert found.limits == (("S", 512),)
    assert axes(found)["S"] == ("sequence", None)


def test_a_one_hot_spelt_out_bounds_the_values() -> None:
    ramp = numpy_helper.from_array(np.arange(257, dtype=np.int32).reshape(1, 1, 257), "ramp")
    nodes = [node("Unsqueeze", ["bytes", "last"], "lifted"), node("Equal", ["lifted", "ramp"], "y")]
    found = signature_of(model(nodes, {"bytes": (TensorProto.INT32, ["N", 2048])}, [ramp, constant("last", [2])]))
    assert (found.recipes[0].rule, found.recipes[0].high) == ("integers", 257)


def test_one_name_for_two_roles_is_taken_apart() -> None:
    found = signature_of(
        model([node("Conv", ["x", "w"], "y")], {"x": (FLOAT, ["dyn", 3, "dyn", "dyn"])}, [weight("w", 8, 3, 3, 3)])
    )
    assert axes(found) == {"dyn": ("batch", None), "height": ("height", None)}
    assert shape(found, "x") == ("dyn", 3, "height", "height")
    assert any("'dyn'" in note and "separately" in note for note in found.notes)
    ids = {"ids": (INT64, ["d", "d"]), "mask": (INT64, ["d", "d"])}
    found = signature_of(model([node("Gather", ["t", "ids"], "y")], ids, [weight("t", 9, 4)]))
    assert shape(found, "ids") == shape(found, "mask") == ("d", "sequence")


def test_one_name_for_the_steps_of_a_signal_and_of_a_state_stays_one() -> None:
    nodes = [node("Conv", ["x", "w"], "c"), node("Gather", ["t", "ids"], "y")]
    inputs: dict[str, tuple[int, Dims]] = {"x": (FLOAT, ["B", 3, "T"]), "ids": (INT64, ["B", "T"])}
    found = signature_of(model(nodes, inputs, [weight("w", 8, 3, 3), weight("t", 9, 4)]))
    assert list(axes(found)) == ["B", "T"]


def test_a_sum_may_hold_a_dimension_that_weights_fix_and_another_sum() -> None:
    """Found by the fuzz campaign: a term of a sum that is no axis of its own."""
    inputs: dict[str, tuple[int, Dims]] = {
        "ids": (INT64, ["batch_size", "sequence_length"]),
        "past": (FLOAT, ["batch_size", "past_sequence_length", 4]),
        "mask": (INT64, ["batch_size", "past_sequence_length + sequence_length"]),
        "longer": (INT64, ["batch_size", "total_sequence_length + 1"]),
        "all": (INT64, ["batch_size", "total_sequence_length"]),
    }
    nodes = [node("Transpose", ["past"], "turned", perm=[0, 2, 1]), node("MatMul", ["turned", "w"], "y")]
    found = signature_of(model(nodes, inputs, [weight("w", 7, 2)]))
    sequence = next(v.dims for v in found.inputs if v.name == "mask")
    assert sequence is not None
    assert (sequence[1].constant, sequence[1].axes) == (7, ("sequence_length",))
    longer = next(v.dims for v in found.inputs if v.name == "longer")
    assert longer is not None
    assert (longer[1].constant, longer[1].axes) == (8, ("sequence_length",))


def test_a_time_major_recurrence_has_its_batch_second() -> None:
    nodes = [node("LSTM", ["x", "W", "R", "", "lengths"], "y", hidden_size=8)]
    inputs: dict[str, tuple[int, Dims]] = {
        "x": (FLOAT, [None, None, 4]),
        "lengths": (TensorProto.INT32, [None]),
    }
    found = signature_of(model(nodes, inputs, [weight("W", 1, 32, 4), weight("R", 1, 32, 8)]))
    assert shape(found, "x") == ("sequence", "batch", 4)
    assert shape(found, "lengths") == ("batch",)
    assert (found.recipes[1].rule, found.recipes[1].axes) == ("constant", ("sequence",))


def test_volumes_have_five_dimensions_and_pictures_may_have_no_batch() -> None:
    found = signature_of(
        model(
            [node("Conv", ["x", "w"], "y")], {"x": (FLOAT, [None, 1, None, None, None])}, [weight("w", 2, 1, 3, 3, 3)]
        )
    )
    assert [axis.role.value for axis in found.axes] == ["batch", "other", "height", "width"]
    nodes = [node("Unsqueeze", ["x", "front"], "lifted"), node("Conv", ["lifted", "w"], "y")]
    stored = [constant("front", [0]), weight("w", 2, 3, 3, 3)]
    found = signature_of(model(nodes, {"x": (FLOAT, [3, None, None])}, stored))
    assert axes(found) == {"height": ("height", None), "width": ("width", None)}


def test_outputs_name_the_axes_that_reach_them() -> None:
    nodes = [node("Transpose", ["x"], "moved", perm=[1, 0, 2]), node("Relu", ["moved"], "y")]
    made = model(nodes, {"x": (FLOAT, ["T", "N", 4])})
    made.graph.output[0].CopyFrom(value("y", ["a", "b", "c"]))
    assert shape(signature_of(made), "y") == ("N", "T", 4) or shape(signature_of(made), "y") == ("N", "T", 0)


SIZES = (2, 3, 5)
STEPS = st.lists(
    st.sampled_from(
        ["turn", "merge_front", "merge_back", "restore", "lift", "cut", "join", "expand", "split_last", "flatten"]
    ),
    min_size=1,
    max_size=8,
)


def chain(steps: list[str]) -> ModelProto:
    """A pipeline of reshapes as exporters write them, from x[A, B, C, 6]; shapes are computed in the graph."""
    nodes: list[NodeProto] = [node("Shape", ["x"], "s0")]
    stored = [
        constant("i01", [0, 1]), constant("m1", [-1]), constant("k1", [1]), constant("k0", [0]), constant("six", [6]),
        constant("big", [2**62]),
    ]  # fmt: skip
    at = "x"
    for i, step in enumerate(steps):
        out = f"t{i}"
        if step == "turn":
            nodes += [node("Unsqueeze", [at, "k0"], f"{out}u"), node("Transpose", [f"{out}u"], out)]
        elif step == "merge_front":
            nodes += [
                node("Shape", [at], f"{out}s"),
                node("Slice", [f"{out}s", "m1", "big", "k0"], f"{out}e"),
                node("Concat", ["m1", f"{out}e"], f"{out}c", axis=0),
                node("Reshape", [at, f"{out}c"], out),
            ]
        elif step == "merge_back":
            nodes += [
                node("Shape", [at], f"{out}s"),
                node("Gather", [f"{out}s", "k0"], f"{out}e"),
                node("Concat", [f"{out}e", "m1"], f"{out}c", axis=0),
                node("Reshape", [at, f"{out}c"], out),
            ]
        elif step == "restore":
            nodes += [
                node("Gather", ["s0", "i01"], f"{out}e"),
                node("Concat", [f"{out}e", "m1", "six"], f"{out}c", axis=0),
                node("Reshape", [at, f"{out}c"], out),
            ]
        elif step == "lift":
            nodes += [node("Unsqueeze", [at, "m1"], out)]
        elif step == "cut":
            nodes += [node("Slice", [at, "k0", "k1", "k0"], f"{out}a"), node("Concat", [at, f"{out}a"], out, axis=0)]
        elif step == "join":
            nodes += [node("Concat", [at, at], out, axis=-1)]
        elif step == "expand":
            nodes += [
                node("Gather", ["s0", "k1"], f"{out}n"),
                node("Unsqueeze", [at, "m1"], f"{out}u"),
                node("Expand", [f"{out}u", f"{out}n"], out),
            ]
        elif step == "split_last":
            nodes += [node("Split", [at], f"{out}", f"{out}rest", axis=-1)]
        else:
            nodes += [node("Flatten", [at], out, axis=1)]
        at = out
    made = [name for n in nodes for name in n.output]
    return model(nodes, {"x": (FLOAT, ["A", "B", "C", 6])}, stored, made)


@settings(deadline=None)
@given(STEPS)
def test_every_extent_that_the_walk_calls_exact_is_what_the_runtime_makes(steps: list[str]) -> None:
    made = chain(steps)
    trace = traced(made)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    for n in made.graph.output:
        n.type.tensor_type.elem_type = INT64 if n.name.endswith(("s0", "s", "e", "c", "n")) else FLOAT
    try:
        session = ort.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
        results = session.run(None, {"x": np.zeros((*SIZES, 6), dtype=np.float32)})
    except Exception:  # noqa: BLE001  a chain that cannot run says nothing
        return
    for output, result in zip(made.graph.output, results, strict=True):
        assert_agrees(trace.extents.get(output.name), result.shape)
        if result.dtype == np.int64 and output.name in trace.values:
            assert_agrees(trace.values[output.name], tuple(result.reshape(-1).tolist()))


def assert_agrees(extents: Extents | None, sizes: tuple[int, ...]) -> None:
    if extents is None:
        return
    assert len(extents) == len(sizes)
    for extent, size in zip(extents, sizes, strict=True):
        if isinstance(extent, int):
            assert extent == size
        elif isinstance(extent, At) and extent.exact:
            assert (*SIZES, 6)[extent.dim] == size
