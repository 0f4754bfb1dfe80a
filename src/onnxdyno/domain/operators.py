"""Operators by what they mean for a measurement."""

COMPUTE_OPS = frozenset(
    """
    Conv ConvTranspose ConvInteger QLinearConv FusedConv MatMul MatMulInteger MatMulNBits QLinearMatMul FusedMatMul
    DynamicQuantizeMatMul Gemm FusedGemm Einsum LSTM GRU RNN Attention MultiHeadAttention GroupQueryAttention QAttention
    """.split()
)
"""An op of these on the CPU makes a GPU number a lie (protocol, section 0)."""

COPY_OPS = frozenset({"MemcpyFromHost", "MemcpyToHost"})
"""Between host and device; the runtime puts them where providers meet."""
