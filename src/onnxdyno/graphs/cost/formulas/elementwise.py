"""Ops that do the same to every element: so many elementary operations each (an add, a compare, an exp, a sqrt …)."""

from onnxdyno.graphs.cost.operands import Formula, Operands

PER_ELEMENT: dict[str, int] = {
    **dict.fromkeys(
        (
            "Add Sub Mul Div Mod Pow And Or Xor Equal Less Greater LessOrEqual GreaterOrEqual BitShift BitwiseAnd "
            "BitwiseOr BitwiseXor QLinearAdd QLinearMul BiasAdd "
            "Abs Neg Sign Reciprocal Floor Ceil Round Exp Log Sqrt Erf Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh "
            "Acosh Atanh Tanh Not BitwiseNot IsNaN IsInf Relu ThresholdedRelu Hardmax CumSum CumProd Imputer Binarizer"
        ).split(),
        1,
    ),
    **dict.fromkeys("LeakyRelu PRelu Clip Shrink Scaler QLinearLeakyRelu".split(), 2),
    **dict.fromkeys("Elu Softplus Softsign Normalizer".split(), 3),  # exp, sub, mul; exp, add, log; abs, add, div
    **dict.fromkeys("Sigmoid HardSigmoid Selu Celu QLinearSigmoid".split(), 4),  # sigmoid: neg, exp, add, div
    "HardSwish": 5,  # HardSigmoid and a product
    "Mish": 5,  # Softplus, tanh, product
    "QuickGelu": 6,  # scale, sigmoid, product
    "Swish": 6,
    "BiasGelu": 6,  # add, then Gelu by erf
    "BiasSplitGelu": 7,
    "RotaryEmbedding": 3,  # x cos + rotated x sin
    "GemmaRotaryEmbedding": 3,
}

_GELU_ERF = 5
"""x / sqrt(2), erf, + 1, × x, × 0.5 (Hendrycks and Gimpel 2016)."""

_GELU_TANH = 9
"""x³ (2), × 0.044715, + x, × sqrt(2 / pi), tanh, + 1, × x, × 0.5 (the same paper's approximation)."""


def elementwise(per_element: int) -> Formula:
    """`per_element` operations for each element of the output."""
    return lambda op: per_element * op.made_elements()


def among(op: Operands) -> int:
    """Max, Min, Sum: one operation less than operands."""
    return max(0, len(op.inputs) - 1) * op.made_elements()


def mean(op: Operands) -> int:
    """Sum and a division."""
    return len(op.inputs) * op.made_elements()


def gelu(op: Operands) -> int:
    """Exact by default."""
    return (_GELU_TANH if op.text("approximate") == "tanh" else _GELU_ERF) * op.made_elements()


def fast_gelu(op: Operands) -> int:
    """The tanh form, with an optional bias."""
    return (_GELU_TANH + op.has(1)) * op.made_elements()


FORMULAS: dict[str, Formula] = {
    **{op_type: elementwise(count) for op_type, count in PER_ELEMENT.items()},
    **dict.fromkeys(("Max", "Min", "Sum"), among),
    "Mean": mean,
    "Gelu": gelu,
    "FastGelu": fast_gelu,
}
