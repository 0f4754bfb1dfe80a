"""Graphs inside nodes: branches, loops, scans, functions of the model's own."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from onnxdyno.domain.axes import axis_sizes
from onnxdyno.domain.cost import Cost
from onnxdyno.graphs.cost import cost_at
from onnxdyno.graphs.signature import read_signature
from small_models import cost_of, model_of, subgraph

CASES = Path(__file__).parent.parent / "cases"
BOOL, I64 = TensorProto.BOOL, TensorProto.INT64
W = np.ones((8, 8), np.float32)
MATMUL = 2 * 4 * 8 * 8
"""FLOPs of x[4, 8] times w[8, 8]."""


def node(op_type: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    names = ["" if name == "-" else name for name in inputs.split()]
    return helper.make_node(op_type, names, outputs.split(), name=outputs.split(maxsplit=1)[0], **attributes)


def case(file: str, **sizes: int) -> Cost:
    path = CASES / file
    return cost_at(path, read_signature(path), axis_sizes(sizes))


def branching(condition: Any, stored: dict[str, Any] | None = None) -> Cost:
    """A small then-branch (Relu) and a large else-branch (two products)."""
    small = subgraph([node("Relu", "x", "t")], {}, ["t"])
    large = subgraph([node("MatMul", "x w", "u"), node("MatMul", "u w", "e")], {}, ["e"])
    fed = {"x": (4, 8)} | ({"c": ((), BOOL)} if condition is None else {})
    choice = node("If", "c", "y", then_branch=small, else_branch=large)
    return cost_of(model_of([choice], fed, ["y"], stored={"w": W} | (stored or {})))


def test_an_if_counts_its_larger_branch() -> None:
    cost = branching(None)
    assert cost.flops.value == 2 * MATMUL
    assert [(each.path, each.op_type, each.runs) for each in cost.nodes] == [
        ("", "If", 1),
        ("y/else_branch", "MatMul", 1),
        ("y/else_branch", "MatMul", 1),
        ("y/then_branch", "Relu", 0),
    ]
    assert any("else_branch is counted, it is the larger" in note for note in cost.notes)


@pytest.mark.parametrize(("truth", "flops"), [(True, 4 * 8), (False, 2 * MATMUL)])
def test_an_if_whose_condition_is_known_counts_the_branch_that_runs(truth: bool, flops: int) -> None:
    cost = branching(truth, {"c": np.array(truth)})
    assert cost.flops.value == flops


def test_an_unknown_operator_in_the_smaller_branch_makes_it_unknown_which_is_larger() -> None:
    small = subgraph([helper.make_node("Mystery", ["x"], ["t"], domain="own")], {}, ["t"])
    large = subgraph([node("MatMul", "x w", "e")], {}, ["e"])
    choice = node("If", "c", "y", then_branch=small, else_branch=large)
    cost = cost_of(model_of([choice], {"x": (4, 8), "c": ((), BOOL)}, ["y"], stored={"w": W}))
    assert cost.flops.value is None
    assert cost.least_flops == MATMUL
    assert "which branch is larger is not known" in (cost.flops.reason or "")


def test_nodes_of_the_same_name_in_the_graph_and_in_a_branch_are_told_apart() -> None:
    cost = case("same_names_in_branches.onnx", N=1)
    same = [(each.path, each.index) for each in cost.nodes if each.name == "same/Relu"]
    assert len(same) == len(set(same)) == 3


def looping(trips: Any, condition: str, body_condition: list[Any], *, fed: dict[str, Any] | None = None) -> Cost:
    body = subgraph(
        [node("MatMul", "h w", "h2"), *body_condition],
        {"i": ((), I64), "go": ((), BOOL), "h": (4, 8)},
        ["go2", "h2", "h2"],
    )
    loop = node("Loop", f"m {condition} x", "y rows", body=body)
    stored = {"w": W} | ({} if trips is None else {"m": np.array(trips, np.int64)})
    return cost_of(model_of([loop], {"x": (4, 8)} | (fed or {}), ["y", "rows"], stored=stored))


GO_ON = [node("Identity", "go", "go2")]


@pytest.mark.parametrize("trips", [0, 1, 7, 2**40])
def test_a_loop_counts_its_body_times_its_trips(trips: int) -> None:
    cost = looping(trips, "-", GO_ON)
    assert cost.flops.value == trips * MATMUL
    assert sum(each.runs or 0 for each in cost.nodes if each.op_type == "MatMul") == trips


def test_rows_that_a_loop_collects_are_stacked() -> None:
    model_cost = looping(7, "-", GO_ON)
    assert model_cost.nodes[0].output_shapes == ((4, 8), (7, 4, 8))


@pytest.mark.parametrize(
    ("trips", "condition", "body", "fed"),
    [
        (None, "-", GO_ON, {"m": ((2,), I64)}),
        (9, "c", GO_ON, {"c": ((), BOOL)}),
        (9, "-", [node("ReduceMax", "h2", "top", keepdims=0), node("Greater", "top top", "go2")], {}),
    ],
    ids=["the trip count is fed", "the condition is fed", "the body decides"],
)
def test_a_loop_whose_trips_depend_on_data_is_unknown_and_tells_what_a_trip_costs(
    trips: Any, condition: str, body: list[Any], fed: dict[str, Any]
) -> None:
    cost = looping(trips, condition, body, fed=fed)
    assert cost.flops.value is None
    assert cost.least_flops == 0
    inner = next(each for each in cost.nodes if each.op_type == "MatMul")
    assert inner.runs is None
    assert f"{MATMUL} FLOPs each time" in (inner.reason or "")


def test_a_body_that_says_stop_runs_once() -> None:
    body = [node("Constant", "", "go2", value=helper.make_tensor("f", BOOL, [], [False]))]
    assert looping(9, "-", body).flops.value == MATMUL


def test_a_fed_trip_count_is_taken_from_how_the_model_is_fed() -> None:
    cost = case("loop_tripcount_input.onnx", N=1)
    assert cost.flops.value == 2_048
    assert any("1 trips" in note for note in cost.notes)


def test_twenty_trips_of_a_loop_are_counted_twenty_times() -> None:
    cost = case("loop20_profile_double_count.onnx", N=1)
    assert {each.runs for each in cost.nodes if each.path == "outer_loop" and each.op_type == "MatMul"} == {20}


def test_a_tensor_that_grows_from_trip_to_trip_has_no_known_shape() -> None:
    body = subgraph(
        [node("Concat", "h h", "h2", axis=0), node("Relu", "h2", "r"), *GO_ON],
        {"i": ((), I64), "go": ((), BOOL), "h": ("n", 8)},
        ["go2", "r"],
    )
    model = model_of([node("Loop", "m - x", "y", body=body)], {"x": (4, 8)}, ["y"], stored={"m": np.array(3)})
    cost = cost_of(model)
    assert cost.flops.value is None
    assert cost.nodes[0].output_shapes == ((None, 8),)


def test_a_scan_counts_its_body_for_every_step() -> None:
    body = subgraph([node("Add", "s v", "s2"), node("Exp", "s2", "o")], {"s": (8,), "v": (8,)}, ["s2", "o"])
    scan = node("Scan", "x0 x", "last all", body=body, num_scan_inputs=1)
    cost = cost_of(model_of([scan], {"x0": (8,), "x": ("T", 8)}, ["last", "all"]), T=11)
    assert cost.flops.value == 11 * (8 + 8)
    assert cost.nodes[0].output_shapes == ((8,), (11, 8))


def test_an_if_inside_a_loop_multiplies() -> None:
    inner = node(
        "If",
        "flag",
        "h2",
        then_branch=subgraph([node("MatMul", "h w", "a")], {}, ["a"]),
        else_branch=subgraph([node("Identity", "h", "b")], {}, ["b"]),
    )
    body = subgraph([inner, *GO_ON], {"i": ((), I64), "go": ((), BOOL), "h": (4, 8)}, ["go2", "h2"])
    model = model_of(
        [node("Loop", "m - x", "y", body=body)],
        {"x": (4, 8), "flag": ((), BOOL)},
        ["y"],
        stored={"w": W, "m": np.array(5)},
    )
    assert cost_of(model).flops.value == 5 * MATMUL


def test_functions_of_the_model_are_counted_where_they_are_called() -> None:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    inner = helper.make_function("own", "Twice", ["a"], ["c"],
                                 [node("Exp", "a", "b"), node("Exp", "b", "c")], opsets)  # fmt: skip
    outer = helper.make_function(
        "own",
        "Four",
        ["a"],
        ["c"],
        [helper.make_node("Twice", ["a"], ["b"], domain="own"), helper.make_node("Twice", ["b"], ["c"], domain="own")],
        opsets,
    )
    call = helper.make_node("Four", ["x"], ["y"], domain="own")
    cost = cost_of(model_of([call], {"x": ("N", 5)}, ["y"], functions=[inner, outer]), N=3)
    assert cost.flops.value == 4 * 15
    assert [each.op_type for each in cost.nodes] == ["Exp"] * 4


def test_a_sampling_rate_chooses_its_branch() -> None:
    cost = case("audio_scalar_sr_if.onnx", batch=1, samples=512)
    assert cost.flops.value is not None
    assert any("runs at this point" in note for note in cost.notes)
