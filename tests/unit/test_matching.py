"""Nodes of real profiles and what the file's own arithmetic says of them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import factories as make
from factories import node, point
from onnxdyno.domain.cost import Cost, NodeWork
from onnxdyno.domain.outcomes import Profile
from onnxdyno.graphs.cost import cost_at
from onnxdyno.graphs.matching import match
from onnxdyno.graphs.signature import read_signature
from onnxdyno.measuring.profiling import summarise

CASES = Path(__file__).parents[1] / "cases"
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def matched(
    model: Path, folder: Path, feeds: dict[str, Any], sizes: tuple[tuple[str, int], ...] = ()
) -> tuple[Profile, tuple[NodeWork, ...], Cost]:
    """The profile of a model with all optimisations, the work of its nodes, the cost of the file."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    for _ in range(3):
        session.run(None, feeds)
    profile = summarise(Path(session.end_profiling()), point(), keep_runs=2)
    cost = cost_at(model, read_signature(model), sizes)
    return profile, match(model, cost, profile.nodes), cost


@pytest.mark.parametrize("name", ["squeezenet", "densenet121", "inception_v2", "shufflenet"])
def test_every_node_of_a_cnn_is_matched_and_flops_are_those_of_the_file(name: str, tmp_path: Path) -> None:
    """Layouts, fused sums, activations and scales: what is left out is small work that the runtime saves."""
    model = LIGHT / f"light_{name}.onnx"
    fed = read_signature(model).recipes[0]
    profile, work, cost = matched(model, tmp_path, {fed.name: np.ones((1, 3, 224, 224), np.float32)})
    total_ns = sum(each.self_ns for each in profile.nodes)
    known_ns = sum(each.self_ns for each, did in zip(profile.nodes, work, strict=True) if did.flops is not None)
    assert known_ns >= 0.95 * total_ns
    assert 0.97 * cost.least_flops <= sum(did.flops or 0 for did in work) <= 1.001 * cost.least_flops
    convs = [did for each, did in zip(profile.nodes, work, strict=True) if each.op_type == "Conv"]
    assert all(did.flops and did.read_bytes and did.written_bytes for did in convs)


def test_nodes_of_loops_and_branches_are_matched_on_their_level(tmp_path: Path) -> None:
    x = np.zeros((64, 256), np.float32)
    profile, work, cost = matched(CASES / "loop20_profile_double_count.onnx", tmp_path, {"x": x}, (("N", 64),))
    assert sum(did.flops or 0 for did in work) == cost.flops.value
    assert all(did.basis is not None for did in work), [each.name for each in profile.nodes]


def test_unnamed_nodes_are_matched_by_the_names_the_runtime_gives(tmp_path: Path) -> None:
    _, work, cost = matched(CASES / "empty_node_names.onnx", tmp_path, {"x": np.ones((1, 32), np.float32)}, (("N", 1),))
    assert sum(did.flops or 0 for did in work) == cost.flops.value


def test_a_fused_activation_belongs_to_its_node(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.ones((8, 4), np.float32), "w")
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["g"], name="dense", transB=1),
        helper.make_node("Relu", ["g"], ["y"], name="act"),
    ]
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, size]) for name, size in (("x", 4), ("y", 8))]
    graph = helper.make_graph(nodes, "g", value[:1], value[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    profile, work, cost = matched(tmp_path / "m.onnx", tmp_path, {"x": np.ones((2, 4), np.float32)})
    assert [each.name for each in profile.nodes] == ["fused dense"]
    assert work[0] == NodeWork(flops=cost.flops.value, read_bytes=32 + 128, written_bytes=64, basis="fused")


def test_a_node_of_the_runtimes_own_is_counted_by_its_shapes() -> None:
    model, cost = _empty()
    reorder = node("ReorderOutput_token_4", op_type="ReorderOutput", input_shapes="float[1,16,8,8]")
    norm = node("Skip_7", op_type="SkipLayerNormalization", input_shapes="float[2,8] float[2,8] float[8] float[8]")
    odd = node("Mystery_1", op_type="MyOwnOp", input_shapes="float[1]")
    lost = node("Cast_9", op_type="Cast", input_shapes="seq(float)")
    timings = [
        _made(reorder, "float[1,10,8,8]"),
        _made(norm, "float[2,8]"),
        _made(odd, "float[1]"),
        _made(lost, "float[1]"),
    ]
    moved, normed, unknown, untold = match(model, cost, timings)
    assert moved == NodeWork(flops=0, read_bytes=4096, written_bytes=2560, basis="shapes")
    assert normed.basis == "shapes"
    assert normed.flops
    assert normed.read_bytes == 4 * (16 + 16 + 8 + 8)
    assert (unknown.basis, unknown.reason) == (None, "MyOwnOp has no counterpart of its name in the file")
    assert (untold.basis, untold.reason) == (None, "the profile does not tell its shapes")


def _made(timing: Any, output_shapes: str) -> Any:
    return replace(timing, output_shapes=output_shapes)


def _empty() -> tuple[onnx.ModelProto, Cost]:
    return helper.make_model(helper.make_graph([], "empty", [], [])), make.cost()


def test_nodes_made_again_in_another_type_are_matched_with_the_bytes_of_that_type(tmp_path: Path) -> None:
    """O31, O33: `InsertedPrecisionFreeCast_y_nchwc` is the Conv of `y` in float32, `conv_token_1` the Conv in uint8."""
    half = CASES / "fp16_conv.onnx"
    sizes = (("N", 1), ("H", 16), ("W", 16))
    profile, work, cost = matched(half, tmp_path, {"x": np.ones((1, 3, 16, 16), np.float16)}, sizes)
    conv = next(did for each, did in zip(profile.nodes, work, strict=True) if each.op_type == "Conv")
    (counted,) = (each for each in cost.nodes if each.op_type == "Conv")
    assert conv.flops == cost.flops.value, "the Relu went into it"
    assert conv.written_bytes == 2 * (counted.written_bytes or 0)
    assert conv.read_bytes == 2 * (counted.read_bytes or 0)
    quantised = CASES / "qdq_conv.onnx"
    profile, work, cost = matched(quantised, tmp_path, {"x": np.ones((1, 3, 16, 16), np.float32)}, (("N", 1),))
    conv = next(did for each, did in zip(profile.nodes, work, strict=True) if each.op_type == "QLinearConv")
    (counted,) = (each for each in cost.nodes if each.op_type == "Conv")
    assert conv.flops == counted.flops
    assert 4 * (conv.written_bytes or 0) == counted.written_bytes


@pytest.mark.parametrize("name", ["\x1b[31mred\nline\x07", "\u202egnp", "x" * 3000])
def test_a_node_is_matched_whatever_its_name(name: str, tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name=name)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 16])],
        [numpy_helper.from_array(np.ones((16, 16), np.float32), "w")],
    )
    path = tmp_path / "named.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    _, work, _ = matched(path, tmp_path, {"x": np.ones((1, 16), np.float32)}, (("N", 1),))
    assert [did.flops for did in work] == [512]
