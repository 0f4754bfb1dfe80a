"""FLOPs of single operators, against counts made by hand: one MAC is two FLOPs."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from onnxdyno.graphs.cost.formulas.table import FORMULAS
from small_models import cost_of_one

I8, U8, I32, I64, BOOL = (TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL)
MS = {"domain": "com.microsoft"}


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.int64)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, dtype=np.float32)


def scalar(value: float, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.array(value, dtype=dtype)


def quantised(*shape: int) -> tuple[tuple[int, ...], int]:
    return shape, U8


SCALES = (scalar(0, np.uint8), scalar(1), scalar(0, np.uint8))
"""Zero point of the second operand, scale and zero point of the result."""

X = (2, 3, 4, 5)  # 120 elements
BY_HAND: list[tuple[str, tuple[Any, ...], dict[str, Any], int]] = [
    # convolutions: 2 × outputs × (channels / groups × kernel)
    ("Conv", ((1, 8, 10), floats(4, 8, 3)), {}, 2 * (4 * 8) * (8 * 3)),
    ("Conv", ((1, 3, 8, 8), floats(4, 3, 3, 3)), {"pads": [1] * 4}, 2 * (4 * 64) * (3 * 9)),
    ("Conv", ((1, 2, 4, 4, 4), floats(4, 2, 2, 2, 2)), {}, 2 * (4 * 27) * (2 * 8)),
    ("Conv", ((1, 8, 8, 8), floats(8, 1, 3, 3)), {"group": 8, "strides": [2, 2], "pads": [1] * 4}, 2 * (8 * 16) * 9),
    ("Conv", ((1, 3, 9, 9), floats(4, 3, 3, 3), floats(4)), {"dilations": [2, 2]}, 2 * (4 * 25) * 27),
    ("ConvTranspose", ((1, 4, 5, 5), floats(4, 2, 3, 3)), {"strides": [2, 2]}, 2 * (4 * 25) * (2 * 9)),
    ("ConvTranspose", ((1, 4, 5, 5), floats(4, 1, 3, 3)), {"group": 2}, 2 * (4 * 25) * 9),
    ("ConvInteger", (quantised(1, 3, 8, 8), quantised(4, 3, 3, 3)), {}, 2 * (4 * 36) * 27),
    (
        "QLinearConv",
        (quantised(1, 3, 8, 8), scalar(1), scalar(0, np.uint8), np.ones((4, 3, 3, 3), np.uint8), scalar(1), *SCALES),
        {},
        2 * (4 * 36) * 27,
    ),
    ("FusedConv", ((1, 3, 8, 8), floats(4, 3, 3, 3)), MS | {"activation": "Relu"}, 2 * (4 * 36) * 27),
    # matrix products: 2 × outputs × inner size
    ("MatMul", ((2, 3, 4), (4, 5)), {}, 2 * 2 * 3 * 4 * 5),
    ("MatMul", ((7, 1, 3, 4), (5, 4, 6)), {}, 2 * 7 * 5 * 3 * 4 * 6),
    ("MatMul", ((4,), (4,)), {}, 2 * 4),
    ("MatMulInteger", (quantised(2, 16), quantised(16, 8)), {}, 2 * 2 * 16 * 8),
    (
        "QLinearMatMul",
        (quantised(1, 16), scalar(1), scalar(0, np.uint8), np.ones((16, 8), np.uint8), scalar(1), *SCALES),
        {},
        2 * 128,
    ),
    ("Gemm", ((3, 4), floats(4, 5), floats(5)), {"alpha": 0.5}, 2 * 3 * 4 * 5),
    ("Gemm", ((4, 3), floats(5, 4)), {"transA": 1, "transB": 1}, 2 * 3 * 4 * 5),
    ("FusedMatMul", ((2, 4, 3), (2, 4, 5)), MS | {"transA": 1}, 2 * 2 * 3 * 4 * 5),
    ("MatMulIntegerToFloat", (quantised(3, 4), quantised(4, 5), scalar(1), scalar(1)), MS, 2 * 3 * 4 * 5),
    ("DynamicQuantizeMatMul", ((3, 4), quantised(4, 5), scalar(1)), MS, 2 * 3 * 4 * 5),
    (
        "MatMulNBits",
        ((1, 7, 64), np.ones((32, 2, 16), np.uint8), floats(32 * 2)),
        MS | {"K": 64, "N": 32, "bits": 4, "block_size": 32},
        2 * 7 * 64 * 32,
    ),
    ("Einsum", ((3, 4), (4, 5)), {"equation": "ij,jk->ik"}, 2 * 3 * 4 * 5),
    ("Einsum", ((2, 6, 8), (2, 7, 8)), {"equation": "bqd,bkd->bqk"}, 2 * 2 * 6 * 7 * 8),
    ("Einsum", ((3,), (4,)), {"equation": "i,j->ij"}, 3 * 4),
    ("Einsum", ((2, 3), (3, 4), (4, 5)), {"equation": "ab,bc,cd->ad"}, 2 * 2 * 3 * 4 + 2 * 2 * 4 * 5),
    ("Einsum", ((9, 2, 3), (9, 3, 4)), {"equation": "...ij,...jk"}, 2 * 9 * 2 * 3 * 4),
    ("Einsum", ((3, 4),), {"equation": "ij->ji"}, 0),
    ("Det", ((5, 3, 3),), {}, 5 * 9 * 3 * 2 // 3),
    # recurrent: each step and direction: gates × (input + hidden) MACs a hidden unit, and what the unit computes
    ("LSTM", ((7, 2, 5), floats(1, 12, 5), floats(1, 12, 3)), {"hidden_size": 3}, 14 * 3 * (4 * 8 * 2 + 18)),
    (
        "LSTM",
        ((7, 2, 5), floats(2, 12, 5), floats(2, 12, 3)),
        {"hidden_size": 3, "direction": "bidirectional"},
        2 * 14 * 3 * (4 * 8 * 2 + 18),
    ),
    ("GRU", ((7, 2, 5), floats(1, 9, 5), floats(1, 9, 3)), {"hidden_size": 3}, 14 * 3 * (3 * 8 * 2 + 14)),
    ("RNN", ((7, 2, 5), floats(1, 3, 5), floats(1, 3, 3)), {"hidden_size": 3}, 14 * 3 * (8 * 2 + 1)),
    # attention: scores and weighted sum 2 MACs a pair and element, softmax 5 a pair
    (
        "Attention",
        ((2, 6, 8), floats(8, 24), floats(24)),
        MS | {"num_heads": 2},
        2 * (2 * 6) * 8 * 24 + (2 * 2 * 6 * 6) * (2 * 4 + 2 * 4 + 5),
    ),
    ("MultiHeadAttention", ((2, 6, 8), (2, 9, 8), (2, 9, 8)), MS | {"num_heads": 2}, (2 * 2 * 6 * 9) * (8 + 8 + 5)),
    (
        "GroupQueryAttention",
        ((1, 4, 16), (1, 4, 8), (1, 4, 8), (1, 2, 6, 4), (1, 2, 6, 4), np.array([9], np.int32), scalar(10, np.int32)),
        MS | {"num_heads": 4, "kv_num_heads": 2, "outputs": 3},
        (4 * 4 * 10) * (2 * 4 + 2 * 4 + 5),
    ),
    ("Attention", ((1, 2, 6, 4), (1, 2, 9, 4), (1, 2, 9, 4)), {"opset": 23}, (2 * 6 * 9) * (8 + 8 + 5)),
    # normalisations and softmax, per element
    ("Softmax", (X,), {}, 5 * 120),
    ("LogSoftmax", (X,), {}, 5 * 120),
    ("BatchNormalization", (X, floats(3), floats(3), floats(3), floats(3)), {}, 2 * 120),
    ("InstanceNormalization", (X, floats(3), floats(3)), {}, 7 * 120),
    ("LayerNormalization", (X, floats(5), floats(5)), {}, 7 * 120),
    ("LayerNormalization", (X, floats(5)), {}, 6 * 120),
    ("LpNormalization", (X,), {}, 3 * 120),
    ("MeanVarianceNormalization", (X,), {}, 5 * 120),
    ("GroupNormalization", ((2, 4, 5), floats(4), floats(4)), {"num_groups": 2, "opset": 21}, 7 * 40),
    ("SkipLayerNormalization", ((2, 3, 4), (2, 3, 4), floats(4), floats(4)), MS, (1 + 7) * 24),
    ("SkipSimplifiedLayerNormalization", ((2, 3, 4), (2, 3, 4), floats(4)), MS, (1 + 4) * 24),
    ("SimplifiedLayerNormalization", ((2, 3, 4), floats(4)), {}, 4 * 24),
    (
        "EmbedLayerNormalization",
        (((2, 3), I32), ((2, 3), I32), floats(50, 8), floats(16, 8), floats(2, 8), floats(8), floats(8)),
        MS | {"outputs": 2},
        (2 + 7) * 2 * 3 * 8,
    ),
    ("LRN", (X,), {"size": 3}, (3 + 4) * 120),
    # pooling and reductions
    ("MaxPool", ((1, 2, 6, 6),), {"kernel_shape": [3, 3]}, (9 - 1) * 2 * 16),
    ("AveragePool", ((1, 2, 6, 6),), {"kernel_shape": [2, 2], "strides": [2, 2]}, 4 * 2 * 9),
    ("LpPool", ((1, 2, 6, 6),), {"kernel_shape": [2, 2], "strides": [2, 2]}, 2 * 4 * 2 * 9),
    ("GlobalAveragePool", (X,), {}, 120),
    ("GlobalMaxPool", (X,), {}, 120 - 6),
    ("ReduceSum", (X, ints(1)), {}, 120 - 40),
    ("ReduceMean", (X,), {"axes": [2, 3]}, 120),
    ("ReduceMax", (X,), {"axes": [3], "keepdims": 0}, 120 - 24),
    ("ReduceL1", (X,), {}, 120 + 119),
    ("ReduceL2", (X,), {}, 120 + 119 + 1),
    ("ReduceSumSquare", (X,), {}, 120 + 119),
    ("ReduceLogSumExp", (X,), {}, 120 + 119 + 1),
    ("ArgMax", (X,), {"axis": 1}, 120 - 40),
    ("CumSum", (X, scalar(1, np.int64)), {}, 120),
    ("TopK", ((2, 50), ints(5)), {"outputs": 2}, 100),
    # elementwise
    ("Add", (X, (4, 1)), {}, 120),
    ("Sub", (X, X), {}, 120),
    ("Mul", ((4, 1), (1, 6)), {}, 24),
    ("Div", (X, scalar(2)), {}, 120),
    ("Pow", (X, scalar(2)), {}, 120),
    ("Max", (X, X, X), {}, 2 * 120),
    ("Mean", (X, X), {}, 2 * 120),
    ("Greater", (X, scalar(0)), {}, 120),
    ("Relu", (X,), {}, 120),
    ("LeakyRelu", (X,), {}, 240),
    ("PRelu", (X, floats(3, 1, 1)), {}, 240),
    ("Clip", (X, scalar(0), scalar(6)), {}, 240),
    ("Exp", (X,), {}, 120),
    ("Sqrt", (X,), {}, 120),
    ("Erf", (X,), {}, 120),
    ("Tanh", (X,), {}, 120),
    ("Sigmoid", (X,), {}, 480),
    ("HardSigmoid", (X,), {}, 480),
    ("HardSwish", (X,), {}, 600),
    ("Elu", (X,), {}, 360),
    ("Softplus", (X,), {}, 360),
    ("Mish", (X,), {"opset": 18}, 600),
    ("Gelu", (X,), {"opset": 20}, 600),
    ("Gelu", (X,), {"opset": 20, "approximate": "tanh"}, 9 * 120),
    ("Gelu", (X,), MS, 600),
    ("FastGelu", (X, floats(5)), MS, 10 * 120),
    ("QuickGelu", (X,), MS, 6 * 120),
    ("BiasGelu", (X, floats(5)), MS, 6 * 120),
    ("QLinearAdd", (quantised(2, 3), scalar(1), scalar(0, np.uint8), quantised(2, 3), scalar(1), *SCALES), MS, 6),
    # resampling and scatter
    ("Resize", ((1, 2, 4, 4), None, np.array([1, 1, 2, 2], np.float32)), {"mode": "nearest"}, 0),
    ("Resize", ((1, 2, 4, 4), None, np.array([1, 1, 2, 2], np.float32)), {"mode": "linear"}, 2 * 4 * 128),
    ("Resize", ((1, 2, 4, 4), None, None, ints(1, 2, 4, 8)), {"mode": "cubic"}, 2 * 4 * 64),
    ("GridSample", ((1, 2, 4, 4), (1, 5, 6, 2)), {}, 2 * 4 * 2 * 30),
    ("RoiAlign", ((1, 2, 8, 8), (3, 4), ((3,), I64)),
     {"sampling_ratio": 2, "output_height": 2, "output_width": 2}, (3 * 2 * 4) * 4 * 9),
    ("ScatterND", (X, ((1, 1), I64), (1, 3, 4, 5)), {"reduction": "add"}, 60),
    ("ScatterElements", ((4, 5), ((2, 5), I64), (2, 5)), {}, 0),
    ("DFT", ((1, 16, 1),), {}, 5 * 16 * 4),
    ("HannWindow", (scalar(8, np.int64),), {}, 0),
    # classic models
    ("LinearRegressor", ((6, 4),), {"domain": "ai.onnx.ml", "coefficients": [1.0] * 4}, 2 * 6 * 4),
    ("Scaler", ((6, 4),), {"domain": "ai.onnx.ml", "scale": [1.0], "offset": [0.0]}, 2 * 24),
]  # fmt: skip


def _case_id(case: Any) -> str:
    return case if isinstance(case, str) else ""


@pytest.mark.parametrize(("op_type", "operands", "how", "by_hand"), BY_HAND, ids=_case_id)
def test_flops_of_one_operator_equal_the_count_by_hand(
    op_type: str, operands: tuple[Any, ...], how: dict[str, Any], by_hand: int
) -> None:
    cost = cost_of_one(op_type, *operands, **how)
    assert cost.flops.value == by_hand, cost.flops.reason
    assert cost.least_flops == by_hand


def test_the_hand_counts_cover_more_than_forty_operators_and_the_formulas_more_than_sixty() -> None:
    assert len({op_type for op_type, *_ in BY_HAND}) >= 60
    assert len(FORMULAS) >= 200


@pytest.mark.parametrize(
    ("op_type", "operands", "how"),
    [
        ("Transpose", (X,), {}),
        ("Reshape", (X, ints(6, 20)), {}),
        ("Concat", (X, X), {"axis": 1}),
        ("Slice", (X, ints(0), ints(1)), {}),
        ("Gather", (X, ((7,), I64)), {}),
        ("Pad", (X, ints(*[1] * 8)), {}),
        ("Cast", (X,), {"to": TensorProto.FLOAT16}),
        ("Where", ((X, BOOL), X, X), {}),
        ("Expand", ((4, 1), ints(2, 4, 5)), {}),
        ("Tile", ((2, 3), ints(2, 2)), {}),
        ("QuantizeLinear", (X, scalar(1), scalar(0, np.uint8)), {}),
        ("DequantizeLinear", ((X, U8), scalar(1), scalar(0, np.uint8)), {}),
        ("DepthToSpace", ((1, 8, 2, 2),), {"blocksize": 2}),
        ("OneHot", (((3,), I64), scalar(5, np.int64), floats(2)), {}),
    ],
)
def test_moving_and_retyping_costs_bytes_but_no_flops(
    op_type: str, operands: tuple[Any, ...], how: dict[str, Any]
) -> None:
    cost = cost_of_one(op_type, *operands, **how)
    assert cost.flops.value == 0
    assert (cost.written_bytes.value or 0) > 0 or op_type == "Reshape"


def test_an_operator_without_a_formula_makes_the_total_unknown_and_is_listed() -> None:
    cost = cost_of_one("MyInverse", (4, 4), domain="own")
    assert cost.flops.value is None
    assert cost.least_flops == 0
    assert [(each.op_type, each.nodes) for each in cost.uncounted] == [("own:MyInverse", 1)]
    assert "own:MyInverse" in (cost.flops.reason or "")
    assert cost.nodes[0].reason


def test_a_known_name_in_a_foreign_domain_is_not_taken_for_the_known_operator() -> None:
    assert cost_of_one("Relu", (4, 4), domain="own").flops.value is None


@pytest.mark.parametrize(
    ("op_type", "operands", "how", "word"),
    [
        ("NonMaxSuppression", ((1, 6, 4), (1, 1, 6)), {}, "scores"),
        ("RoiAlign", ((1, 2, 8, 8), (3, 4), ((3,), I64)), {}, "regions"),
        ("Unique", ((9,),), {}, "sort"),
    ],
)
def test_work_that_only_the_data_decides_is_unknown_with_the_reason(
    op_type: str, operands: tuple[Any, ...], how: dict[str, Any], word: str
) -> None:
    cost = cost_of_one(op_type, *operands, **how)
    assert cost.flops.value is None
    assert word in (cost.flops.reason or "")
