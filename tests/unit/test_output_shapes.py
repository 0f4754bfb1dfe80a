"""Outputs of one point that differ in shape: allowed where the model declares room for it, else flagged."""

from dataclasses import replace

import numpy as np
import pytest

import factories as make
from onnxdyno.analysis.findings import analyse
from onnxdyno.analysis.outputs import differ_unlawfully
from onnxdyno.domain.axes import Role
from onnxdyno.domain.models import Dim, TensorSpec
from onnxdyno.domain.outcomes import Flag, Measured
from onnxdyno.execution.outputs import other_shapes

ONE = make.point(batch=1, height=32, width=32)
AXIS = Dim(role=Role.BATCH, axes=("batch",), symbol="batch")
FREE = Dim(role=Role.OTHER, symbol="found")
TEN = Dim(role=Role.OTHER, constant=10)


def launches(*outputs: tuple[tuple[str, ...], ...]) -> list[Measured]:
    """One launch for each; the first of its tuples came from the first input set."""
    return [
        make.measured(ONE, launch=at, outputs=first, other_outputs=others)
        for at, (first, *rest) in enumerate(outputs, start=1)
        for others in [tuple(rest)]
    ]


@pytest.mark.parametrize(
    ("dims", "one", "other", "differ"),
    [
        ((AXIS, TEN), "y float32[1,10]", "y float32[1,10]", False),
        ((FREE, TEN), "y float32[7,10]", "y float32[0,10]", False),
        ((FREE, TEN), "y float32[7,10]", "y float32[7,11]", True),
        ((AXIS, TEN), "y float32[1,10]", "y float32[2,10]", True),  # the batch is the same throughout a point
        ((FREE, TEN), "y float32[7,10]", "y float32[7]", True),
        ((), "y float32[]", "y float32[1]", True),
        (None, "y float32[7,10]", "y float32[7]", False),
    ],
)
@pytest.mark.parametrize("where", ["launches", "input sets"])
def test_only_a_dimension_declared_dynamic_may_depend_on_data(
    dims: tuple[Dim, ...] | None, one: str, other: str, differ: bool, where: str
) -> None:
    spec = TensorSpec(name="y", kind="tensor", dtype="float32", dims=dims)
    signature = make.image_signature(outputs=(spec,))
    seen = launches(((one,),), ((other,),)) if where == "launches" else launches(((one,), (other,)))
    assert differ_unlawfully(seen, signature) is differ


def test_the_length_of_a_sequence_is_data() -> None:
    spec = TensorSpec(name="y", kind="sequence", dtype="float32", dims=(TEN,))
    seen = launches((("y list(2)",),), (("y list(3)",),))
    assert not differ_unlawfully(seen, make.image_signature(outputs=(spec,)))


def test_a_point_whose_outputs_differ_is_flagged_and_the_run_says_so() -> None:
    run = make.benchmark_run((make.measured(ONE, outputs=("scores float32[1,10]",)),))
    assert analyse(run).points[0].flags == ()
    odd = make.measured(ONE, launch=2, outputs=("scores float32[1,9]",))
    found = analyse(replace(run, outcomes=(*run.outcomes, odd)))
    assert found.points[0].flags == (Flag.OUTPUT_SHAPE_DIFFERS,)
    assert any("differ in shape" in warning for warning in found.warnings)


def test_only_shapes_other_than_the_first_are_kept() -> None:
    sets = [[("y", np.zeros((size, 2), np.float32))] for size in (1, 1, 3, 1, 3)]
    assert other_shapes(sets) == (("y float32[3,2]",),)
    assert other_shapes(sets[:2]) == ()
