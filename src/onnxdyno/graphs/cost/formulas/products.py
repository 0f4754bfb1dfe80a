"""Convolutions and matrix products: multiply-accumulates, two FLOPs each. A bias is part of the accumulation."""

from math import prod

from onnxdyno.graphs.cost.formulas.contraction import einsum
from onnxdyno.graphs.cost.operands import Formula, Operands, at

FLOPS_PER_MAC = 2


def conv(weights: int) -> Formula:
    """Each output element sums over its group's channels and the kernel: weights (filters, channels / groups, k…)."""
    return lambda op: FLOPS_PER_MAC * op.made_elements() * prod(op.shape(weights)[1:])


def conv_transpose(op: Operands) -> int:
    """Each input element is spread over its group's filters and the kernel: weights (channels, filters / groups, k…).

    What padding cuts off is counted: kernels compute it (or gather it, which costs the same).
    """
    return FLOPS_PER_MAC * op.elements(0) * prod(op.shape(1)[1:])


def matmul(left: int) -> Formula:
    """Each output element sums over the last dimension of the left operand."""
    return lambda op: FLOPS_PER_MAC * op.made_elements() * at(op.shape(left), -1)


def fused_matmul(op: Operands) -> int:
    """MatMul whose left operand may be transposed."""
    left = op.shape(0)
    return FLOPS_PER_MAC * op.made_elements() * at(left, -2 if op.integer("transA") and len(left) > 1 else -1)


def gemm(op: Operands) -> int:
    """A B, scaled, plus C: only the product counts."""
    return FLOPS_PER_MAC * op.made_elements() * at(op.shape(0), 0 if op.integer("transA") else 1)


def linear_model(op: Operands) -> int:
    """Scikit-learn's linear models: every row times every coefficient."""
    rows = at(op.shape(0), 0) if len(op.shape(0)) > 1 else 1
    return FLOPS_PER_MAC * rows * len(op.attributes["coefficients"].floats if "coefficients" in op.attributes else ())


def support_vectors(op: Operands) -> int:
    """Every row against every support vector, then the coefficients."""
    rows = at(op.shape(0), 0) if len(op.shape(0)) > 1 else 1
    per_row = sum(len(op.attributes[n].floats) for n in ("support_vectors", "coefficients") if n in op.attributes)
    return FLOPS_PER_MAC * rows * per_row


def determinant(op: Operands) -> int:
    """LU factorisation: 2/3 n³ for each matrix (Golub and Van Loan, section 3.2)."""
    return op.elements(0) * at(op.shape(0), -1) * 2 // 3


def inverse(op: Operands) -> int:
    """2 n³ for each matrix (Golub and Van Loan, section 3.4)."""
    return op.elements(0) * at(op.shape(0), -1) * 2


FORMULAS: dict[str, Formula] = {
    **dict.fromkeys(("Conv", "FusedConv", "ConvInteger", "NhwcConv", "NhwcFusedConv"), conv(1)),
    "DeformConv": conv(1),
    "QLinearConv": conv(3),
    "ConvTranspose": conv_transpose,
    **dict.fromkeys(("MatMul", "MatMulInteger", "MatMulIntegerToFloat", "DynamicQuantizeMatMul"), matmul(0)),
    **dict.fromkeys(("QLinearMatMul", "MatMulNBits"), matmul(0)),
    **dict.fromkeys(("FusedMatMul", "TransposeMatMul"), fused_matmul),
    **dict.fromkeys(("Gemm", "FusedGemm", "QGemm"), gemm),
    "Einsum": einsum,
    **dict.fromkeys(("LinearClassifier", "LinearRegressor"), linear_model),
    **dict.fromkeys(("SVMClassifier", "SVMRegressor"), support_vectors),
    "Det": determinant,
    "Inverse": inverse,
}
