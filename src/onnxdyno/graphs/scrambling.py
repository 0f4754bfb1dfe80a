"""A model with seeded random weights in place of its own: tells items apart where constant weights make them equal."""

import hashlib
from math import prod, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from onnxdyno.graphs.reading import open_model
from onnxdyno.graphs.tracing import attribute, small_integers

_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
_MOST_ELEMENTS = 1 << 31


def scramble(path: Path, seed: int, gain: float = 1.0) -> bytes:
    """The serialised model with the weights it stores, or makes by ConstantOfShape, drawn anew.

    The same name and seed give the same weights, so that two models with the same names stay twins. Weights of two and
    more dimensions are normal with He's deviation (He et al. 2015, eq. 10), so that values neither vanish nor explode
    on their way; vectors (scales, variances, biases) are uniform in [0.5, 1.5). `gain` scales the deviation of
    matrices and its square root that of filters: a small one keeps sums over many residual blocks from growing and a
    final Softmax from saturating. External weights stay as they are.
    """
    model = open_model(path)
    shapes = {t.name: values for t in model.graph.initializer if (values := small_integers(t)) is not None}
    for i, node in enumerate(model.graph.node):
        target = shapes.get(node.input[0]) if node.op_type == "ConstantOfShape" and node.input else None
        value = attribute(node, "value")
        if target and value is not None and value.t.data_type in _FLOATS and 1 < prod(target) <= _MOST_ELEMENTS:
            model.graph.node[i].CopyFrom(_random(node, target, value.t.data_type, seed, gain))
    for tensor in model.graph.initializer:
        is_stored = tensor.data_location != TensorProto.EXTERNAL
        if tensor.data_type in _FLOATS and is_stored and prod(tensor.dims) > 1:
            tensor.CopyFrom(_drawn(tensor, seed, gain))
    content: bytes = model.SerializeToString()
    return content


def _random(node: NodeProto, shape: tuple[int, ...], dtype: int, seed: int, gain: float) -> NodeProto:
    """Drawn by the runtime, so that hundreds of millions of weights need no file."""
    given: dict[str, Any] = {
        "shape": list(shape),
        "dtype": dtype,
        "seed": float(_seed(node.output[0], seed) % (1 << 20)),
    }
    if len(shape) < 2:
        return helper.make_node("RandomUniform", [], list(node.output), name=node.name, low=0.5, high=1.5, **given)
    return helper.make_node(
        "RandomNormal", [], list(node.output), name=node.name, scale=_deviation(shape, gain), **given
    )


def _drawn(tensor: TensorProto, seed: int, gain: float) -> TensorProto:
    rng = np.random.default_rng(_seed(tensor.name, seed))
    shape = tuple(int(size) for size in tensor.dims)
    values: Any = rng.uniform(0.5, 1.5, shape)
    if len(shape) > 1:
        values = rng.standard_normal(shape, dtype=np.float32) * _deviation(shape, gain)
    return numpy_helper.from_array(values.astype(helper.tensor_dtype_to_np_dtype(tensor.data_type)), tensor.name)


def _deviation(shape: tuple[int, ...], gain: float) -> float:
    if len(shape) == 2:
        return gain * sqrt(2 / max(1, min(shape)))
    return sqrt(gain * 2 / max(1, prod(shape[1:])))


def _seed(name: str, seed: int) -> int:
    digest = hashlib.sha256(f"{seed}/{name}".encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:8], "little")
