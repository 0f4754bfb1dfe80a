"""Micro-models for benchmarks/verdicts.py: each tells its FLOPs, bytes and nodes, so that a change of one is known."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

Shape = tuple[int, ...]
_OPSET, _IR = 20, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A model with its inputs, and what one call of it computes, moves and starts; `calls` make up the same work."""

    model: Any
    feeds: dict[str, Any]
    flops: float
    moved_bytes: float
    starts: float
    calls: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model and its interventions. `nearer`: the same work in calls whose bytes lie in a nearer cache."""

    name: str
    base: Callable[[], Made]
    variants: tuple[Callable[[], Made], ...] = ()
    nearer: Callable[[], Made] | None = None


def values(*shape: int, dtype: Any = np.float32) -> Any:
    """Numbers that no kernel treats specially."""
    rng = np.random.default_rng(0)
    if np.issubdtype(dtype, np.integer):
        return rng.integers(0, 100, shape).astype(dtype)
    return rng.uniform(0.1, 1.0, shape).astype(dtype)


def made(nodes: list[Any], weights: dict[str, Any], outputs: dict[str, int], **told: Any) -> Made:
    """A model of these nodes; inputs are `feeds`, outputs (name, element type)."""
    feeds = told["feeds"]
    graph = helper.make_graph(
        nodes,
        "verdict",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            for name, value in feeds.items()
        ],
        [helper.make_tensor_value_info(name, element, None) for name, element in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR)
    return Made(model=model, **told)


def product(rows: int, inner: int, columns: int, *, parts: int = 1, dtype: Any = np.float32) -> Made:
    """A vector or matrix times a constant matrix, in `parts` nodes of equal width."""
    is_int = dtype is np.uint8
    op, element = ("MatMulInteger", TensorProto.INT32) if is_int else ("MatMul", TensorProto.FLOAT)
    width = columns // parts
    weights = {f"w{at}": values(inner, width, dtype=np.int8 if is_int else dtype) for at in range(parts)}
    size = np.dtype(dtype).itemsize
    return made(
        [helper.make_node(op, ["x", f"w{at}"], [f"y{at}"]) for at in range(parts)],
        weights,
        {f"y{at}": element for at in range(parts)},
        feeds={"x": values(rows, inner, dtype=dtype)},
        flops=2.0 * rows * inner * columns,
        moved_bytes=float(size * (rows * inner * parts + inner * columns) + 4 * rows * columns),
        starts=parts,
    )


def batched(count: int, rows: int, inner: int, columns: int) -> Made:
    """A product of two stacks of matrices, both inputs."""
    return made(
        [helper.make_node("MatMul", ["x", "z"], ["y"])],
        {},
        {"y": TensorProto.FLOAT},
        feeds={"x": values(count, rows, inner), "z": values(count, inner, columns)},
        flops=2.0 * count * rows * inner * columns,
        moved_bytes=4.0 * count * (rows * inner + inner * columns + rows * columns),
        starts=1,
    )


def conv(channels: int, filters: int, side: int, kernel: Shape = (3, 3), *, parts: int = 1, groups: int = 1) -> Made:
    """A convolution that keeps the size, in `parts` nodes of equally many filters."""
    pads = [(size - 1) // 2 for size in kernel] + [size // 2 for size in kernel]
    each = filters // parts
    weights = {f"w{at}": values(each, channels // groups, *kernel) for at in range(parts)}
    per_pixel = channels // groups * prod(kernel)
    return made(
        [
            helper.make_node("Conv", ["x", f"w{at}"], [f"y{at}"], pads=pads, group=groups, kernel_shape=list(kernel))
            for at in range(parts)
        ],
        weights,
        {f"y{at}": TensorProto.FLOAT for at in range(parts)},
        feeds={"x": values(1, channels, side, side)},
        flops=2.0 * filters * per_pixel * side * side,
        moved_bytes=4.0 * (channels * side * side * parts + filters * per_pixel + filters * side * side),
        starts=parts,
    )


def pool(op: str, channels: int, side: int, kernel: Shape) -> Made:
    """A pooling that keeps the size."""
    pads = [(size - 1) // 2 for size in kernel] + [size // 2 for size in kernel]
    return made(
        [helper.make_node(op, ["x"], ["y"], kernel_shape=list(kernel), pads=pads)],
        {},
        {"y": TensorProto.FLOAT},
        feeds={"x": values(1, channels, side, side)},
        flops=float(channels * side * side * prod(kernel)),
        moved_bytes=8.0 * channels * side * side,
        starts=1,
    )


def unary(op: str, rows: int, width: int, *, calls: int = 1) -> Made:
    """One operator over a matrix, row by row where it has an axis."""
    x = values(rows, width)
    names, weights = ["x"], {}
    if op == "LayerNormalization":
        names, weights = ["x", "s"], {"s": values(width)}
    if op == "Pow":
        names, weights = ["x", "e"], {"e": np.array(1.7, np.float32)}
    if op == "ReduceMean":
        names, weights = ["x", "a"], {"a": np.array([1])}
    if op == "Add":
        names, weights = ["x", "c"], {"c": np.array([0.5], np.float32)}
    written = rows if op == "ReduceMean" else rows * width
    return made(
        [helper.make_node(op, names, ["y"])],
        weights,
        {"y": TensorProto.FLOAT},
        feeds={"x": x},
        flops=float(rows * width),
        moved_bytes=4.0 * (rows * width + written),
        starts=1,
        calls=calls,
    )


def mover(op: str, rows: int, width: int, *, parts: int = 1) -> Made:
    """An operator without FLOPs over a matrix, or over `parts` slices of it."""
    each = rows // parts
    feeds = {f"x{at}": values(each, width) for at in range(parts)}
    weights: dict[str, Any] = {}
    nodes = []
    for at in range(parts):
        source, target = f"x{at}", f"y{at}"
        match op:
            case "Transpose":
                nodes.append(helper.make_node(op, [source], [target], perm=[1, 0]))
            case "Concat":
                nodes.append(helper.make_node(op, [source, source], [target], axis=1))
            case "Gather":
                feeds[source] = np.random.default_rng(at).integers(0, 200_000, each)
                weights["table"] = values(200_000, width)
                nodes.append(helper.make_node(op, ["table", source], [target]))
            case "Pad":
                weights["p"] = np.array([1, 0, 1, 0])
                nodes.append(helper.make_node(op, [source, "p"], [target]))
            case "Tile":
                weights["r"] = np.array([1, 2])
                nodes.append(helper.make_node(op, [source, "r"], [target]))
            case _:
                nodes.append(helper.make_node(op, [source], [target]))
    copies = 2 if op in ("Concat", "Tile") else 1
    return made(
        nodes,
        weights,
        {f"y{at}": TensorProto.FLOAT for at in range(parts)},
        feeds=feeds,
        flops=0.0,
        moved_bytes=4.0 * rows * width * (1 + copies),
        starts=parts,
    )


def chain(count: int, elements: int, ops: tuple[str, ...] = ("Add",)) -> Made:
    """Many small nodes one after the other."""
    nodes = []
    for at in range(count):
        op = ops[at % len(ops)]
        names = [f"t{at}", "c"] if op in ("Add", "Mul", "Sub") else [f"t{at}"]
        nodes.append(helper.make_node(op, names, [f"t{at + 1}"]))
    return made(
        nodes,
        {"c": np.array([0.99], np.float32)},
        {f"t{count}": TensorProto.FLOAT},
        feeds={"t0": values(elements)},
        flops=float(count * elements),
        moved_bytes=8.0 * count * elements,
        starts=count,
    )


def products_chain(count: int, rows: int, width: int) -> Made:
    """Small products one after the other."""
    return made(
        [helper.make_node("MatMul", [f"t{at}", "w"], [f"t{at + 1}"]) for at in range(count)],
        {"w": values(width, width) / width},
        {f"t{count}": TensorProto.FLOAT},
        feeds={"t0": values(rows, width)},
        flops=2.0 * count * rows * width * width,
        moved_bytes=4.0 * count * (width * width + 2 * rows * width),
        starts=count,
    )


def loop(trips: int, elements: int) -> Made:
    """A Loop with one addition in it."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Add", ["v", "k"], ["u"])],
        "body",
        [
            helper.make_tensor_value_info("at", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, [elements]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("u", TensorProto.FLOAT, [elements]),
        ],
        [numpy_helper.from_array(np.array([0.5], np.float32), "k")],
    )
    return made(
        [helper.make_node("Loop", ["n", "yes", "x"], ["y"], body=body)],
        {"n": np.array(trips), "yes": np.array(True)},
        {"y": TensorProto.FLOAT},
        feeds={"x": values(elements)},
        flops=float(trips * elements),
        moved_bytes=8.0 * trips * elements,
        starts=2 * trips,
    )


def lstm(steps: int, rows: int, width: int) -> Made:
    """One layer; its weights are read in every step."""
    return made(
        [helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=width)],
        {name: values(1, 4 * width, width) / width for name in ("w", "r")},
        {"y": TensorProto.FLOAT},
        feeds={"x": values(steps, rows, width)},
        flops=2.0 * steps * rows * 8 * width * width,
        moved_bytes=4.0 * steps * (8 * width * width + 2 * rows * width),
        starts=1,
    )
