"""Files made to hang, crash or exhaust whoever counts them."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from onnxdyno.graphs.cost.inference import Inference
from onnxdyno.graphs.cost.ordering import Order
from onnxdyno.graphs.cost.values import MOST_COUNT
from onnxdyno.graphs.cost.walking import Walk
from small_models import cost_of, cost_of_one, model_of, subgraph

I64, BOOL = TensorProto.INT64, TensorProto.BOOL


def node(op_type: str, inputs: str, outputs: str, **attributes: Any) -> NodeProto:
    return helper.make_node(op_type, inputs.split(), outputs.split(), **attributes)


def test_a_cycle_has_no_count_and_says_so() -> None:
    model = model_of([node("Add", "x b", "a"), node("Relu", "a", "b"), node("Exp", "x", "y")], {"x": (4,)}, ["y"])
    cost = cost_of(model)
    assert cost.flops.value is None
    assert cost.least_flops == 4
    assert "waits" in (cost.flops.reason or "")
    assert "cycle" in (cost.activation_peak_bytes.reason or "")


def test_a_node_that_waits_for_itself_has_no_count() -> None:
    assert cost_of(model_of([node("Add", "x y", "y")], {"x": (4,)}, ["y"])).flops.value is None


def test_nodes_out_of_order_are_counted_as_if_in_order() -> None:
    chain = [node("Exp", f"a{i}" if i else "x", f"a{i + 1}") for i in range(50)]
    forward = cost_of(model_of(chain, {"x": (4,)}, ["a50"]))
    backward = cost_of(model_of(chain[::-1], {"x": (4,)}, ["a50"]))
    assert forward.flops.value == backward.flops.value == 50 * 4
    assert forward.activation_peak_bytes == backward.activation_peak_bytes


@pytest.mark.parametrize("count", [2_000, 20_000])
def test_a_long_chain_is_walked_without_recursion(count: int) -> None:
    chain = [node("Exp", f"a{i}" if i else "x", f"a{i + 1}") for i in range(count)]
    assert cost_of(model_of(chain, {"x": (4,)}, [f"a{count}"])).flops.value == count * 4


def test_every_node_is_visited_once_however_many_there_are() -> None:
    for count in (100, 1000):
        nodes = [node("Exp", f"a{i}" if i else "x", f"a{i + 1}") for i in range(count)]
        walk = Walk(Inference({"": 17}, 8), most_visits=count)
        walk.graph(model_of(nodes, {"x": (4,)}, [f"a{count}"]).graph, {}, "")
        assert walk.is_spent
        assert len(Order(GraphProto(node=nodes)).places) == count


def test_loops_in_loops_whose_shapes_never_settle_do_not_multiply() -> None:
    body = subgraph(
        [node("Concat", "h h", "h2", axis=0), node("Identity", "go", "go2")],
        {"i": ((), I64), "go": ((), BOOL), "h": ("n", 2)},
        ["go2", "h2"],
    )
    for depth in range(12):
        loop = helper.make_node("Loop", ["m", "", "h"], ["h2"], name=f"loop{depth}", body=body)
        body = subgraph(
            [loop, node("Identity", "go", "go2")], {"i": ((), I64), "go": ((), BOOL), "h": ("n", 2)}, ["go2", "h2"]
        )
    outer = helper.make_node("Loop", ["m", "", "x"], ["y"], name="outer", body=body)
    cost = cost_of(model_of([outer], {"x": (4, 2)}, ["y"], stored={"m": np.array(3)}))
    assert len(cost.nodes) < 1000


def functions_of_functions(depth: int, width: int) -> ModelProto:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    made = []
    for level in range(depth):
        name = f"F{level}"
        called, domain = (f"F{level - 1}", "own") if level else ("Exp", "")
        body = [helper.make_node(called, [f"a{i}"], [f"a{i + 1}"], domain=domain) for i in range(width)]
        made.append(helper.make_function("own", name, ["a0"], [f"a{width}"], body, opsets))
    call = helper.make_node(f"F{depth - 1}", ["x"], ["y"], domain="own")
    return model_of([call], {"x": (4,)}, ["y"], functions=made)


def test_functions_that_would_grow_beyond_bounds_are_not_written_out() -> None:
    cost = cost_of(functions_of_functions(depth=30, width=10))
    assert cost.flops.value is None
    assert "written out" in (cost.flops.reason or "")
    assert cost_of(functions_of_functions(depth=3, width=4)).flops.value == 4**3 * 4


def test_functions_nested_too_deeply_are_not_written_out() -> None:
    assert "deep" in (cost_of(functions_of_functions(depth=3000, width=1)).flops.reason or "")


def test_functions_that_call_themselves_are_refused() -> None:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    body = [helper.make_node("F", ["a"], ["b"], domain="own")]
    model = model_of(
        [helper.make_node("F", ["x"], ["y"], domain="own")],
        {"x": (4,)},
        ["y"],
        functions=[helper.make_function("own", "F", ["a"], ["b"], body, opsets)],
    )
    assert "circle" in (cost_of(model).flops.reason or "")


@pytest.mark.parametrize(
    ("op_type", "operands", "how"),
    [
        ("GatherND", ((1, 4, 8), ((3,), I64)), {"batch_dims": -7}),
        ("LayerNormalization", ((1, 4, 8), np.ones(8, np.float32)), {"axis": 64}),
        ("Split", ((4, 4), np.array([1, 1, 1, 1], np.int64)), {"outputs": 2, "opset": 18}),
        ("Split", ((4, 4),), {"num_outputs": 2**62, "outputs": 2, "opset": 18}),
        ("Expand", ((4, 4), ((2**40,), I64)), {}),
        ("Conv", ((1, 1, 8, 8), np.ones((1, 1, 3, 3), np.float32)), {"strides": [0, 0]}),
        ("DFT", ((1, 8, 1), None, np.array([], np.int64)), {"opset": 20}),
        ("STFT", ((1, 8), np.array(0, np.int64), np.array([], np.float32)), {}),
        ("Tile", ((4, 4), np.array([2**62, 2**62], np.int64)), {}),
        ("ConstantOfShape", (np.array([2**62, 2**62], np.int64),), {}),
        ("Range", (np.array(0, np.int64), np.array(2**62, np.int64), np.array(1, np.int64)), {}),
        ("Einsum", ((4, 4),), {"equation": "...->,,,->"}),
    ],
)
def test_hostile_attributes_and_sizes_neither_crash_nor_fill_memory(
    op_type: str, operands: tuple[Any, ...], how: dict[str, Any]
) -> None:
    """The first five made onnx 1.23's own inference abort or run out of memory; found by fuzzing."""
    cost = cost_of_one(op_type, *operands, **how)
    assert len(cost.nodes) == 1
    assert cost.flops.value is None or cost.flops.value <= MOST_COUNT


SIDES = {"a": (1024, 1, 1, 1), "b": (1, 1024, 1, 1), "c": (1, 1, 64, 1), "d": (1, 1, 1, 64)}


@pytest.mark.parametrize(
    ("op_type", "stored"),
    [
        ("ConstantOfShape", {"a": np.array([2**20, 2**10], np.int64)}),
        ("Range", {"a": np.array(0), "b": np.array(2**30), "c": np.array(1)}),
        ("Range", {"a": np.array(-(2**63)), "b": np.array(2**63 - 1), "c": np.array(2**34)}),
        ("Tile", {"a": np.ones((1, 1), np.int64), "b": np.array([2**30, 0])}),
        ("Tile", {"a": np.ones((1, 1), np.int64), "b": np.array([2**30, 1])}),
        ("Max", {name: np.ones(shape, np.int64) for name, shape in SIDES.items()}),
        ("Clip", {name: np.ones(shape, np.int64) for name, shape in list(SIDES.items())[:3]}),
        ("Where", {"a": np.ones((1024, 1, 1), bool), "b": np.ones((1, 1024, 1)), "c": np.ones((1, 1, 64))}),
    ],
)
@pytest.mark.parametrize("output", ["t", ""], ids=["asked for", "left out"])
def test_a_size_is_checked_before_elements_are_computed(op_type: str, stored: dict[str, Any], output: str) -> None:
    """An output that is left out has no inferred shape that would bound it; found by fuzzing."""
    nodes = [helper.make_node(op_type, list(stored), [output]), node("Exp", "x", "y")]
    model = model_of(nodes, {"x": (4,)}, ["y"], stored=stored)
    tracemalloc.start()
    try:
        assert len(cost_of(model).nodes) == 2
        assert tracemalloc.get_traced_memory()[1] < 2**25
    finally:
        tracemalloc.stop()


def test_sizes_that_no_memory_holds_are_unknown_not_wrong() -> None:
    cost = cost_of(model_of([node("Exp", "x", "y")], {"x": (2**40, 2**40)}, ["y"]))
    assert cost.flops.value is None
    assert str(MOST_COUNT) in (cost.flops.reason or "")


def test_a_tensor_of_a_million_dimensions_is_unknown() -> None:
    model = model_of([node("Exp", "w", "y")], {}, ["y"])
    model.graph.initializer.append(TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3] * 1_000_000))
    assert cost_of(model).activation_peak_bytes.value in (0, None)


def test_a_node_whose_name_is_not_utf8_is_counted_and_printable() -> None:
    model = model_of([helper.make_node("Exp", ["x"], ["y"], name="NAME")], {"x": (4,)}, ["y"])
    broken = ModelProto.FromString(model.SerializeToString().replace(b"NAME", b"NA\xffE"))
    cost = cost_of(broken)
    assert cost.flops.value == 4
    assert cost.nodes[0].name.isprintable()


def test_a_graph_that_names_an_input_nobody_makes_is_unknown() -> None:
    assert cost_of(model_of([node("Exp", "nowhere", "y")], {"x": (4,)}, ["y"])).flops.value is None


def test_nodes_that_wait_for_one_another_are_unknown_whatever_they_are() -> None:
    """Found by the fuzz campaign: an operator that moves bytes, in a circle."""
    nodes = [helper.make_node("Concat", ["b", "x"], ["a"], axis=0), helper.make_node("Add", ["a", "x"], ["b"])]
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    graph = helper.make_graph(nodes, "circle", [value], [helper.make_tensor_value_info("a", TensorProto.FLOAT, [8])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    cost = cost_of(model)
    assert cost.flops.value is None
    assert cost.flops.reason
    assert all(node.read_bytes is None for node in cost.nodes)
