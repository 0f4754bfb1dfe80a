"""Copies with a dynamic batch, and the proof that must be able to refuse them; outputs come from ONNX Runtime."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from onnxdyno.domain.errors import RebatchRefused
from onnxdyno.graphs.proof import Proof, prove
from onnxdyno.graphs.rebatch import Rebatched, rebatch
from onnxdyno.graphs.scrambling import scramble
from onnxdyno.graphs.signature import read_signature

CASES = Path(__file__).parent.parent / "cases"
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
RNG = np.random.default_rng(0)


def run(path: Path, feeds: Mapping[str, Any]) -> Sequence[tuple[str, Any]]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return list(zip([output.name for output in session.get_outputs()], session.run(None, dict(feeds)), strict=True))


def weight(name: str, *shape: int) -> TensorProto:
    return numpy_helper.from_array(RNG.standard_normal(shape).astype(np.float32), name)


def numbers(name: str, values: Sequence[int]) -> TensorProto:
    return numpy_helper.from_array(np.array(values, dtype=np.int64), name)


def node(op: str, inputs: Sequence[str], *outputs: str, **attributes: Any) -> NodeProto:
    return helper.make_node(op, list(inputs), list(outputs), name=outputs[0], **attributes)


def saved(
    folder: Path, nodes: Sequence[NodeProto], dims: Sequence[int | str], stored: Sequence[TensorProto] = ()
) -> Path:
    y = nodes[-1].output[0]
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)],
        [helper.make_tensor_value_info(y, TensorProto.FLOAT, None)],
        list(stored),
    )
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def proven(path: Path, folder: Path) -> tuple[Rebatched, Proof]:
    made = rebatch(path, folder / "copy.onnx")
    return made, prove(made, run=run)


def attention(batch: int, steps: int = 5) -> tuple[list[NodeProto], list[TensorProto]]:
    """Self-attention over a class token and patches, every shape written in, as a static export looks."""
    nodes = [
        node("Concat", ["token", "x"], "joined", axis=1),
        node("Add", ["joined", "places"], "placed"),
        node("MatMul", ["placed", "wq"], "q0"),
        node("Reshape", ["q0", "heads"], "q1"),
        node("Transpose", ["q1"], "q", perm=[0, 2, 1, 3]),
        node("MatMul", ["placed", "wk"], "k0"),
        node("Reshape", ["k0", "heads"], "k1"),
        node("Transpose", ["k1"], "k", perm=[0, 2, 3, 1]),
        node("MatMul", ["q", "k"], "scores"),
        node("Softmax", ["scores"], "shares", axis=-1),
        node("MatMul", ["shares", "q"], "mixed"),
        node("Transpose", ["mixed"], "back", perm=[0, 2, 1, 3]),
        node("Reshape", ["back", "rows"], "flat"),
        node("MatMul", ["flat", "wo"], "out"),
        node("Reshape", ["out", "again"], "y"),
    ]
    stored = [
        weight("token", batch, 1, 8),
        weight("places", 1, steps, 8),
        *(weight(name, 8, 8) for name in ("wq", "wk", "wo")),
        numbers("heads", [batch, steps, 2, 4]),
        numbers("rows", [batch * steps, 8]),
        numbers("again", [batch, -1, 8]),
    ]
    return nodes, stored


@pytest.mark.parametrize(
    ("case", "was", "weights"),
    [("static_batch1", 1, "own"), ("static_batch4", 4, "own"), ("reshape_hardcoded_batch", 1, "own")],
)
def test_the_cases_with_a_fixed_batch_get_a_dynamic_one(tmp_path: Path, case: str, was: int, weights: str) -> None:
    path = CASES / f"{case}.onnx"
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    made, proof = proven(path, tmp_path)
    assert (made.was, proof.weights, proof.items) == (was, weights, 3)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    batch = next(axis for axis in read_signature(made.path).axes if axis.role.value == "batch")
    assert (batch.name, batch.size) == (made.axis, None)
    assert np.shape(run(made.path, {"x": np.ones((7, *_shape(path)), dtype=np.float32)})[0][1])[0] == 7


def _shape(path: Path) -> tuple[int, ...]:
    dims = read_signature(path).inputs[0].dims
    assert dims is not None
    return tuple(dim.constant for dim in dims[1:])


@pytest.mark.parametrize("name", ["squeezenet", "resnet50", "shufflenet"])
def test_networks_of_constant_weights_are_proven_with_random_ones(tmp_path: Path, name: str) -> None:
    made, proof = proven(LIGHT / f"light_{name}.onnx", tmp_path)
    assert proof.weights == "seeded random"
    assert proof.worst_error < 1e-4
    dims = onnx.load(made.path).graph.output[0].type.tensor_type.shape.dim
    assert dims[0].dim_param == made.axis


def test_a_class_token_is_repeated_and_shapes_of_attention_follow(tmp_path: Path) -> None:
    nodes, stored = attention(1)
    made, proof = proven(saved(tmp_path, nodes, [1, 4, 8], stored), tmp_path)
    assert proof.worst_error < 1e-4
    assert "Concat 'joined': input 0 is repeated for every item" in made.changes
    assert "Reshape 'y': its shape [1, -1, 8] is [batch, -1, 8]" in made.changes
    assert np.shape(run(made.path, {"x": np.ones((6, 4, 8), dtype=np.float32)})[0][1]) == (6, 5, 8)


def test_a_constant_joined_to_a_batch_of_four_is_refused(tmp_path: Path) -> None:
    nodes, stored = attention(4)
    with pytest.raises(RebatchRefused, match=r"Concat 'joined' joins a constant of 4 to the batch"):
        rebatch(saved(tmp_path, nodes, [4, 4, 8], stored), tmp_path / "copy.onnx")


def test_initial_states_that_are_stored_are_repeated(tmp_path: Path) -> None:
    nodes = [
        node("Transpose", ["x"], "steps", perm=[1, 0, 2]),
        node("LSTM", ["steps", "W", "R", "", "", "h", "c"], "all", "y", hidden_size=8),
    ]
    stored = [weight("W", 1, 32, 4), weight("R", 1, 32, 8), weight("h", 1, 1, 8), weight("c", 1, 1, 8)]
    path = saved(tmp_path, nodes, [1, 5, 4], stored)
    model = onnx.load(path)
    model.graph.output[0].name = "y"
    onnx.save(model, path)
    made, proof = proven(path, tmp_path)
    assert sum("repeated" in change for change in made.changes) == 2
    assert proof.worst_error < 1e-4


@pytest.mark.parametrize("batch", [1, 4])
def test_targets_of_expand_and_resize_follow(tmp_path: Path, batch: int) -> None:
    nodes = [
        node("Expand", ["x", "wide"], "wider"),
        node("Resize", ["wider", "", "", "large"], "larger", mode="nearest"),
        node("Conv", ["larger", "w"], "y"),
    ]
    stored = [numbers("wide", [batch, 2, 4, 4]), numbers("large", [batch, 2, 8, 8]), weight("w", 3, 2, 3, 3)]
    made, _ = proven(saved(tmp_path, nodes, [batch, 1, 4, 4], stored), tmp_path)
    assert any("Resize" in change and "batch" in change for change in made.changes)


def test_other_dimensions_may_be_dynamic(tmp_path: Path) -> None:
    nodes = [
        node("Conv", ["x", "w"], "c"),
        node("GlobalAveragePool", ["c"], "p"),
        node("Reshape", ["p", "flat"], "y"),
    ]
    path = saved(tmp_path, nodes, [1, 2, "H", "W"], [weight("w", 3, 2, 3, 3), numbers("flat", [1, 3])])
    made = rebatch(path, tmp_path / "copy.onnx")
    assert prove(made, run=run).weights == "own"
    assert prove(made, run=run, sizes=(("H", 9), ("W", 11))).weights == "own"
    with pytest.raises(RebatchRefused, match="the original fails"):
        prove(made, run=run, sizes=(("H", 1), ("W", 1)))


def test_external_data_comes_with_the_copy(tmp_path: Path) -> None:
    path = saved(tmp_path, [node("MatMul", ["x", "w"], "y")], [1, 64], [weight("w", 64, 64)])
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    made, _ = proven(path, tmp_path / "elsewhere")
    assert (tmp_path / "elsewhere" / "w.bin").read_bytes() == (tmp_path / "w.bin").read_bytes()
    assert made.path.parent == tmp_path / "elsewhere"


@pytest.mark.parametrize(
    ("nodes", "dims", "words"),
    [
        ([node("Relu", ["x"], "y")], ["N", 4], "dynamic already"),
        ([node("Squeeze", ["x", "front"], "y")], [1, 4], "drops the batch"),
        ([node("Reshape", ["x", "odd"], "y")], [4, 6], "no multiple of a batch fits"),
        ([node("Relu", ["x"], "y")], [], "no dimension of its inputs is a batch"),
    ],
)
def test_what_cannot_follow_a_batch_is_refused_with_the_reason(
    tmp_path: Path, nodes: list[NodeProto], dims: list[int | str], words: str
) -> None:
    path = saved(tmp_path, nodes, dims, [numbers("front", [0]), numbers("odd", [3, 8])])
    with pytest.raises(RebatchRefused, match=words) as caught:
        rebatch(path, tmp_path / "copy.onnx")
    assert str(caught.value).isprintable()


def test_a_model_of_sequences_is_refused(tmp_path: Path) -> None:
    """Found by the fuzz campaign: a sequence has no dimensions of its own to make dynamic."""
    with pytest.raises(RebatchRefused, match="not plain tensors"):
        rebatch(CASES / "sequence_input.onnx", tmp_path / "copy.onnx")


def test_the_copy_never_replaces_the_original(tmp_path: Path) -> None:
    path = saved(tmp_path, [node("Relu", ["x"], "y")], [1, 4])
    with pytest.raises(RebatchRefused, match="replace the original"):
        rebatch(path, path)


def test_hostile_names_of_nodes_are_escaped(tmp_path: Path) -> None:
    bad = node("Squeeze", ["x", "front"], "y")
    bad.name = "\x1b[31mred\n<script>"
    with pytest.raises(RebatchRefused) as caught:
        rebatch(saved(tmp_path, [bad], [1, 4], [numbers("front", [0])]), tmp_path / "copy.onnx")
    assert str(caught.value).isprintable()


def _swap_items(model: ModelProto) -> None:
    _after_input(model, [node("Slice", ["x", "from", "to", "axis", "back"], "turned")])
    model.graph.initializer.extend(
        [numbers("from", [-1]), numbers("to", [-(2**31)]), numbers("axis", [0]), numbers("back", [-1])]
    )


def _use_the_first_item_for_all(model: ModelProto) -> None:
    nodes = [
        node("Slice", ["x", "from", "to", "axis"], "first"),
        node("Shape", ["x"], "whole"),
        node("Expand", ["first", "whole"], "turned"),
    ]
    _after_input(model, nodes)
    model.graph.initializer.extend([numbers("from", [0]), numbers("to", [1]), numbers("axis", [0])])


def _subtract_the_mean_of_the_batch(model: ModelProto) -> None:
    nodes = [node("ReduceMean", ["x"], "mean", axes=[0], keepdims=1), node("Sub", ["x", "mean"], "turned")]
    _after_input(model, nodes)


def _mix_items_in_memory(model: ModelProto) -> None:
    nodes = [
        node("Shape", ["x"], "whole"),
        node("Transpose", ["x"], "mixed", perm=[1, 0, 2, 3]),
        node("Reshape", ["mixed", "whole"], "turned"),
    ]
    _after_input(model, nodes)


def _keep_the_first_item_only(model: ModelProto) -> None:
    _after_input(model, [node("Slice", ["x", "from", "to", "axis"], "turned")])
    model.graph.initializer.extend([numbers("from", [0]), numbers("to", [1]), numbers("axis", [0])])


def _after_input(model: ModelProto, nodes: list[NodeProto]) -> None:
    """Put nodes between the input and everything else; the last one makes `turned`."""
    old = list(model.graph.node)
    for each in old:
        for i, name in enumerate(each.input):
            if name == "x":
                each.input[i] = "turned"
    del model.graph.node[:]
    model.graph.node.extend([*nodes, *old])


@pytest.mark.parametrize(
    "spoil",
    [
        _swap_items,
        _use_the_first_item_for_all,
        _subtract_the_mean_of_the_batch,
        _mix_items_in_memory,
        _keep_the_first_item_only,
    ],
)
def test_a_wrong_copy_is_refused(tmp_path: Path, spoil: Callable[[ModelProto], None]) -> None:
    made, _ = proven(CASES / "static_batch1.onnx", tmp_path)
    model = onnx.load(made.path)
    spoil(model)
    onnx.save(model, tmp_path / "wrong.onnx")
    with pytest.raises(RebatchRefused, match="cannot be proven equal"):
        prove(replace(made, path=tmp_path / "wrong.onnx"), run=run)


def test_a_wrong_copy_of_constant_weights_is_refused_too(tmp_path: Path) -> None:
    """Every item has the same output with its own weights: a proof with those could not fail."""
    filled = helper.make_node(
        "ConstantOfShape", ["w_shape"], ["w"], value=numpy_helper.from_array(np.array([0.02], dtype=np.float32))
    )
    nodes = [filled, node("MatMul", ["x", "w"], "z"), node("Softmax", ["z"], "y", axis=-1)]
    path = saved(tmp_path, nodes, [1, 6, 4, 16], [numbers("w_shape", [16, 8])])
    made, proof = proven(path, tmp_path)
    assert proof.weights == "seeded random"
    model = onnx.load(made.path)
    _swap_items(model)
    onnx.save(model, tmp_path / "wrong.onnx")
    with pytest.raises(RebatchRefused, match="differs from the original's"):
        prove(replace(made, path=tmp_path / "wrong.onnx"), run=run)


def test_a_model_that_ignores_its_input_cannot_be_proven(tmp_path: Path) -> None:
    nodes = [node("Mul", ["x", "nought"], "y")]
    path = saved(tmp_path, nodes, [1, 4], [numpy_helper.from_array(np.zeros((), dtype=np.float32), "nought")])
    made = rebatch(path, tmp_path / "copy.onnx")
    with pytest.raises(RebatchRefused, match="same for different inputs"):
        prove(made, run=run)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["copy.onnx", "model.onnx"]


def test_the_same_seed_gives_the_same_random_weights_and_another_seed_others(tmp_path: Path) -> None:
    path = saved(tmp_path, [node("MatMul", ["x", "w"], "y")], [1, 4], [weight("w", 4, 4)])
    assert scramble(path, 1) == scramble(path, 1) != scramble(path, 2)
