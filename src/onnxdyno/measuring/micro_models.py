"""Micro-models as ONNX files with the inputs for them; onnx is loaded only where this module is."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnxdyno.domain.micros import BFLOAT16, FLOAT16, FLOAT64, INT8, Micro

_OPSET, _IR = 20, 10
_NEWER_OPSETS = {BFLOAT16: 22}
"""Conv takes bfloat16 from there on."""
_NUMPY = {FLOAT16: np.float16, FLOAT64: np.float64}
_Array = np.ndarray[Any, Any]
_Built = tuple[list[Any], Mapping[str, _Array], Mapping[str, _Array], Any]
"""Nodes from `x` to `y`, constants, inputs, and the element type of `y`."""


def write(micro: Micro, path: Path) -> dict[str, Any]:
    """Write the model; returns its inputs by name."""
    build = _BUILDERS.get(micro.op, _unary)
    nodes, constants, feeds, element = build(micro)
    graph = helper.make_graph(
        nodes,
        "micro",
        [helper.make_tensor_value_info(name, _element(value), value.shape) for name, value in feeds.items()],
        [helper.make_tensor_value_info("y", element, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opset = helper.make_opsetid("", _NEWER_OPSETS.get(micro.dtype, _OPSET))
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=_IR), str(path))
    return dict(feeds)


def operators_of(path: Path) -> tuple[str, ...]:
    """Operators of a model's graph, in order."""
    return tuple(node.op_type for node in onnx.load(str(path), load_external_data=False).graph.node)


def _values(shape: tuple[int, ...], dtype: str = "float32") -> _Array:
    rng = np.random.default_rng(0)
    if dtype == INT8:
        return rng.integers(0, 100, shape, dtype=np.uint8)
    return rng.uniform(0.1, 1.0, shape).astype(_NUMPY.get(dtype, np.float32))


def _element(value: _Array) -> Any:
    return helper.np_dtype_to_tensor_dtype(value.dtype)


def _chain(micro: Micro) -> _Built:
    names = ["x", *(f"t{at}" for at in range(micro.nodes - 1)), "y"]
    nodes = [helper.make_node("Add", [names[at], "c"], [names[at + 1]]) for at in range(micro.nodes)]
    x = _values(micro.shape)
    return nodes, {"c": np.array([1e-3], np.float32)}, {"x": x}, onnx.TensorProto.FLOAT


def _row(micro: Micro, **attributes: Any) -> list[Any]:
    """Contractions one behind the other, with casts around them where numpy cannot hold their type."""
    is_cast = micro.dtype == BFLOAT16
    first, weights, last = ("xc", "wc", "yc") if is_cast else ("x", "w", "y")
    names = [first, *(f"t{at}" for at in range(micro.nodes - 1)), last]
    nodes = [
        helper.make_node(micro.op, [names[at], weights], [names[at + 1]], **attributes) for at in range(micro.nodes)
    ]
    if not is_cast:
        return nodes
    to, back = onnx.TensorProto.BFLOAT16, onnx.TensorProto.FLOAT
    casts = [helper.make_node("Cast", [name], [f"{name}c"], to=to) for name in "xw"]
    return [*casts, *nodes, helper.make_node("Cast", ["yc"], ["y"], to=back)]


def _matmul(micro: Micro) -> _Built:
    x, w = _values(micro.shape, micro.dtype), _values(micro.weights, micro.dtype)
    if micro.dtype == INT8:
        node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
        return [node], {"w": w.astype(np.int8)}, {"x": x}, onnx.TensorProto.INT32
    return _row(micro), {"w": w}, {"x": x}, _element(x)


def _conv(micro: Micro) -> _Built:
    x, w = _values(micro.shape, micro.dtype), _values(micro.weights, micro.dtype)
    if micro.dtype == INT8:
        scale, zero = np.array(0.01, np.float32), np.array(0, np.uint8)
        constants: dict[str, _Array] = {"s": scale, "z": zero, "w": w.astype(np.int8), "wz": np.array(0, np.int8)}
        names = ["x", "s", "z", "w", "s", "wz", "s", "z"]
        return [helper.make_node("QLinearConv", names, ["y"], pads=[1, 1, 1, 1])], constants, {"x": x}, _element(x)
    return _row(micro, pads=[1, 1, 1, 1]), {"w": w}, {"x": x}, _element(x)


def _depthwise(micro: Micro) -> _Built:
    channels = micro.shape[1]
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1], group=channels)
    return [node], {"w": _values((channels, 1, 3, 3))}, {"x": _values(micro.shape)}, onnx.TensorProto.FLOAT


def _pool(micro: Micro) -> _Built:
    node = helper.make_node(micro.op, ["x"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    return [node], {}, {"x": _values(micro.shape)}, onnx.TensorProto.FLOAT


def _unary(micro: Micro) -> _Built:
    return [helper.make_node(micro.op, ["x"], ["y"])], {}, {"x": _values(micro.shape)}, onnx.TensorProto.FLOAT


def _binary(micro: Micro) -> _Built:
    node = helper.make_node("Div", ["x", "d"], ["y"])
    return [node], {}, {"x": _values(micro.shape), "d": _values(micro.shape)}, onnx.TensorProto.FLOAT


def _pow(micro: Micro) -> _Built:
    node = helper.make_node("Pow", ["x", "e"], ["y"])
    return [node], {"e": np.array(1.7, np.float32)}, {"x": _values(micro.shape)}, onnx.TensorProto.FLOAT


def _norm(micro: Micro) -> _Built:
    weights = {"s": _values(micro.shape[-1:])}
    node = helper.make_node("LayerNormalization", ["x", "s"], ["y"])
    return [node], weights, {"x": _values(micro.shape)}, onnx.TensorProto.FLOAT


def _reduce(micro: Micro) -> _Built:
    node = helper.make_node("ReduceMean", ["x", "a"], ["y"], keepdims=1)
    return [node], {"a": np.array([-1])}, {"x": _values(micro.shape)}, onnx.TensorProto.FLOAT


def _gather(micro: Micro) -> _Built:
    rows, width = micro.shape[0] * 16, micro.shape[1] // 16
    at = np.random.default_rng(0).integers(0, rows, rows)
    return [helper.make_node("Gather", ["w", "x"], ["y"])], {"w": _values((rows, width))}, {"x": at}, 1


def _concat(micro: Micro) -> _Built:
    halves = (micro.shape[0], micro.shape[1] // 2)
    node = helper.make_node("Concat", ["x", "d"], ["y"], axis=1)
    return [node], {}, {"x": _values(halves), "d": _values(halves)}, onnx.TensorProto.FLOAT


def _where(micro: Micro) -> _Built:
    x = _values(micro.shape)
    node = helper.make_node("Where", ["b", "x", "d"], ["y"])
    return [node], {}, {"b": x > 0.5, "x": x, "d": x.copy()}, onnx.TensorProto.FLOAT


def _resize(micro: Micro) -> _Built:
    x = _values((1, micro.shape[0] // 4, 32, micro.shape[1] // 32))
    node = helper.make_node("Resize", ["x", "", "r"], ["y"], mode="nearest")
    return [node], {"r": np.array([1, 1, 2, 2], np.float32)}, {"x": x}, onnx.TensorProto.FLOAT


def _quantize(micro: Micro) -> _Built:
    is_to_int = micro.op == "QuantizeLinear"
    constants: dict[str, _Array] = {"s": np.array(0.01, np.float32), "z": np.array(0, np.uint8)}
    x = _values(micro.shape, "float32" if is_to_int else INT8)
    element = onnx.TensorProto.UINT8 if is_to_int else onnx.TensorProto.FLOAT
    return [helper.make_node(micro.op, ["x", "s", "z"], ["y"])], constants, {"x": x}, element


def _lstm(micro: Micro) -> _Built:
    width = micro.shape[-1]
    weights = {name: _values((1, 4 * width, width)) for name in ("w", "r")}
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=width)
    return [node], weights, {"x": _values(micro.shape)}, onnx.TensorProto.FLOAT


_BUILDERS: dict[str, Callable[[Micro], _Built]] = {
    "Add": _chain,
    "MatMul": _matmul,
    "Conv": _conv,
    "ConvDepthwise": _depthwise,
    "MaxPool": _pool,
    "AveragePool": _pool,
    "Div": _binary,
    "Pow": _pow,
    "LayerNormalization": _norm,
    "ReduceMean": _reduce,
    "Gather": _gather,
    "Concat": _concat,
    "Where": _where,
    "Resize": _resize,
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _quantize,
    "LSTM": _lstm,
}
