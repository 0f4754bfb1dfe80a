"""What one call computes and moves, by class of node: nothing is lost by it, and it is kept within bounds."""

from dataclasses import replace
from pathlib import Path

import pytest

import factories as make
from onnxdyno.analysis.requirements.arithmetic import MOST_EXECUTIONS, as_nodes, nodes_at, point_work
from onnxdyno.app.counting import counted, kept
from onnxdyno.domain.axes import axis_sizes
from onnxdyno.domain.cost import Cost, Count, NodeCost, NodeWork, PointWork, WorkClass
from onnxdyno.domain.findings import NodeFinding
from onnxdyno.graphs.reading import load
from onnxdyno.graphs.signature import read_signature
from onnxdyno.storage.tables import from_rows
from onnxdyno.storage.work import work_rows, works_of

CASES = Path(__file__).parents[1] / "cases"
AT = make.point(batch=1, height=32, width=32).sizes
RELU = WorkClass(op_type="Relu", flops=1e3, moved_bytes=8e3, count=2)


def node_cost(op_type: str = "Relu", runs: int | None = 1, flops: int = 1000) -> NodeCost:
    return NodeCost(
        path="",
        index=0,
        name="",
        op_type=op_type,
        output="",
        runs=runs,
        flops=flops,
        read_bytes=4000,
        written_bytes=4000,
        output_bytes=4000,
        output_shapes=(),
    )


def work(batch: int = 1, *classes: WorkClass, reason: str | None = None) -> PointWork:
    return PointWork(sizes=make.point(batch=batch, height=32, width=32).sizes, classes=classes, reason=reason)


def test_nodes_that_compute_and_move_the_same_are_one_class_and_all_of_them_come_back() -> None:
    found = point_work(make.cost(AT, nodes=(node_cost(), node_cost("Conv"), node_cost())))
    assert found.classes == (RELU, replace(RELU, op_type="Conv", count=1))
    assert found.executions == 3
    assert [(each.kind, each.flops, each.bytes) for each in as_nodes(found)] == [
        ("Relu", 1e3, 8e3),
        ("Relu", 1e3, 8e3),
        ("Conv", 1e3, 8e3),
    ]


def test_a_loop_is_its_executions_at_their_mean_and_what_does_not_run_is_none() -> None:
    found = point_work(make.cost(AT, nodes=(node_cost(runs=10), node_cost("Conv", runs=0))))
    assert found.classes == (WorkClass(op_type="Relu", flops=100.0, moved_bytes=800.0, count=10),)


@pytest.mark.parametrize(
    ("cost", "said"),
    [
        (make.cost(AT, flops=Count(value=None, reason="1 × Custom")), "1 × Custom"),
        (make.cost(AT, read_bytes=Count(value=None, reason="a shape depends on data")), "a shape depends on data"),
        (make.cost(AT, nodes=(node_cost(runs=None),)), "how often a loop runs"),
        (make.cost(AT, nodes=(node_cost(runs=MOST_EXECUTIONS + 1),)), "more than 100,000 nodes"),
        (make.cost(AT), "no node runs"),
    ],
)
def test_what_is_not_known_whole_is_nothing_with_a_reason(cost: Cost, said: str) -> None:
    found = point_work(cost)
    assert found.classes == ()
    assert said in (found.reason or "")


def test_the_files_arithmetic_comes_before_that_of_the_profile_and_neither_is_a_reason() -> None:
    known = NodeWork(flops=10, read_bytes=10, written_bytes=10, basis="name")
    profiled = (NodeFinding(node=make.node(), share=1.0, work=known),)
    assert nodes_at(work(1, RELU), profiled, "run R")[2] == "arithmetic of the file's 2 nodes"
    assert nodes_at(work(reason="not known"), profiled, "run R")[2] == "arithmetic of the profiled nodes (1)"
    assert nodes_at(work(reason="not known"), (), "run R")[:2] == ((), "not known")
    assert "run R has neither arithmetic nor a profile" in (nodes_at(None, (), "run R")[1] or "")


def test_a_run_keeps_the_first_points_while_they_are_few_and_always_the_very_first() -> None:
    many = tuple(replace(RELU, flops=float(each)) for each in range(3))
    first, second, third = kept((work(1, *many), work(2, *many), work(4, *many)), most=6)
    assert (first.classes, second.classes) == (many, many)
    assert (third.classes, third.sizes) == ((), work(4).sizes)
    assert "more than 6 kinds" in (third.reason or "")
    assert kept((work(1, *many),), most=1)[0].classes == many


@pytest.mark.parametrize(("nodes", "is_counted"), [(3, True), (30_000, False)])
def test_every_planned_point_is_counted_but_of_a_huge_graph_the_first_alone(nodes: int, is_counted: bool) -> None:
    path = CASES / "nhwc_dynamic.onnx"
    signature = replace(read_signature(path), node_count=nodes)
    names = [axis.name for axis in signature.axes if axis.size is None]
    points = tuple(
        replace(make.point(batch=1), sizes=axis_sizes(dict.fromkeys(names, 32) | {names[0]: batch})) for batch in (1, 2)
    )
    planned = make.plan(points, model=load(path))
    run = counted(make.benchmark_run(tuple(map(make.measured, points)), plan=planned, signature=signature, profiles=()))
    assert [each.sizes for each in run.arithmetic] == [each.sizes for each in points]
    assert [bool(each.classes) for each in run.arithmetic] == [True, is_counted]
    assert len(run.costs) == 1 + is_counted
    assert all(cost.nodes == () for cost in run.costs)
    assert is_counted or "more than 20,000 nodes" in (run.arithmetic[1].reason or "")


def test_rows_come_back_as_they_were_and_a_point_without_work_is_a_row_with_a_reason() -> None:
    known = (work(1, RELU, replace(RELU, op_type="Conv")), work(2, reason="a loop depends on data"))
    rows = from_rows("work", work_rows(make.benchmark_run(arithmetic=known))).to_pylist()
    assert [(row["batch"], row["op_type"], row["executions"], row["reason"]) for row in rows] == [
        (1, "Relu", 2, None),
        (1, "Conv", 2, None),
        (2, None, None, "a loop depends on data"),
    ]
    assert works_of(rows) == known
