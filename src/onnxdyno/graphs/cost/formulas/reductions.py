"""Softmax, normalisations, pooling, reductions: several elements make one."""

from math import prod

from onnxdyno.graphs.cost.operands import Formula, Operands
from onnxdyno.graphs.cost.values import NotCounted

SOFTMAX = 5
"""Per element: maximum, subtract, exp, sum, divide."""

_CENTRED = 5
"""Per element: mean, subtract, square, sum, × 1 / deviation."""

_RMS = 3
"""Per element: square, sum, × 1 / root."""


def _per_input(count: int) -> Formula:
    return lambda op: count * op.elements(0)


def layer_norm(op: Operands) -> int:
    """Centred and scaled; scale and bias one operation each where they are given."""
    return (_CENTRED + op.has(1) + op.has(2)) * op.elements(0)


def skip_layer_norm(op: Operands) -> int:
    """Input + skip (+ bias), then LayerNormalization with its scale and shift."""
    return (1 + op.has(4) + _CENTRED + op.has(2) + op.has(3)) * op.elements(0)


def skip_rms_norm(op: Operands) -> int:
    """Input + skip (+ bias), then RMS normalisation with its scale."""
    return (1 + op.has(3) + _RMS + op.has(2)) * op.elements(0)


def embed_layer_norm(op: Operands) -> int:
    """Words + positions (+ segments), then LayerNormalization with scale and shift."""
    return (1 + op.has(4) + _CENTRED + 2) * op.made_elements()


def local_response(op: Operands) -> int:
    """Squares summed over `size` channels; scale, add, power, divide (Krizhevsky et al. 2012)."""
    return (op.integer("size", 1) + 4) * op.elements(0)


def _kernel(op: Operands) -> int:
    kernel = op.integers("kernel_shape")
    if kernel is None:
        raise NotCounted("kernel_shape is missing")
    return prod(kernel)


def max_pool(op: Operands) -> int:
    """One comparison less than kernel elements."""
    return max(0, _kernel(op) - 1) * op.made_elements()


def average_pool(op: Operands) -> int:
    """Adds and a division."""
    return _kernel(op) * op.made_elements()


def root_pool(op: Operands) -> int:
    """LpPool: power and sum of each, a root."""
    return 2 * _kernel(op) * op.made_elements()


def fewer(op: Operands) -> int:
    """One operation for each element that disappears: sum, product, maximum, index of the maximum."""
    return max(0, op.elements(0) - op.made_elements())


def fewer_and(before: int, after: int) -> Formula:
    """A reduction with `before` operations for each input element and `after` for each output element."""
    return lambda op: fewer(op) + before * op.elements(0) + after * op.made_elements()


FORMULAS: dict[str, Formula] = {
    **dict.fromkeys(("Softmax", "LogSoftmax", "QLinearSoftmax"), _per_input(SOFTMAX)),
    "BiasSoftmax": _per_input(SOFTMAX + 1),
    "BatchNormalization": _per_input(2),  # scale and shift, made of four weights beforehand
    "InstanceNormalization": _per_input(_CENTRED + 2),
    "GroupNormalization": _per_input(_CENTRED + 2),
    "GroupNorm": _per_input(_CENTRED + 2),
    "MeanVarianceNormalization": _per_input(_CENTRED),
    "LpNormalization": _per_input(3),
    "LayerNormalization": layer_norm,
    **dict.fromkeys(("RMSNormalization", "SimplifiedLayerNormalization"), _per_input(_RMS + 1)),
    "SkipLayerNormalization": skip_layer_norm,
    "SkipSimplifiedLayerNormalization": skip_rms_norm,
    "EmbedLayerNormalization": embed_layer_norm,
    "LRN": local_response,
    "MaxPool": max_pool,
    **dict.fromkeys(("AveragePool", "QLinearAveragePool"), average_pool),
    "LpPool": root_pool,
    **dict.fromkeys(("GlobalAveragePool", "QLinearGlobalAveragePool", "ReduceMean", "ReduceLogSum"), _per_input(1)),
    "GlobalMaxPool": fewer,
    "GlobalLpPool": _per_input(2),
    **dict.fromkeys(("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ArgMax", "ArgMin"), fewer),
    "ReduceL1": fewer_and(1, 0),
    "ReduceL2": fewer_and(1, 1),
    "ReduceSumSquare": fewer_and(1, 0),
    "ReduceLogSumExp": fewer_and(1, 1),
}
