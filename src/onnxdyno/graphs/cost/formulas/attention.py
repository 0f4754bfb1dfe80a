"""Attention: scores, softmax and the weighted sum; the fused ops also project."""

from onnxdyno.graphs.cost.formulas.products import FLOPS_PER_MAC
from onnxdyno.graphs.cost.formulas.reductions import SOFTMAX
from onnxdyno.graphs.cost.operands import Formula, Operands, at
from onnxdyno.graphs.cost.values import NotCounted


def scored(*, pairs: int, key_wide: int, value_wide: int) -> int:
    """`pairs` = batch × heads × queries × keys; a causal mask skips nothing (kernels differ in what they skip)."""
    return pairs * (FLOPS_PER_MAC * (key_wide + value_wide) + SOFTMAX)


def packed(op: Operands) -> int:
    """com.microsoft Attention and QAttention: input (batch, sequence, hidden), one weight for q, k and v."""
    x, weights = op.shape(0), op.shape(1)
    if len(x) != 3 or len(weights) != 2:
        raise NotCounted("expected an input of rank 3 and a weight matrix")
    batch, length, wide = x
    heads = max(1, op.integer("num_heads", 1))
    q_k_v = op.integers("qkv_hidden_sizes") or (weights[1] // 3,) * 3
    past = at(op.made(1), 3) - length if op.makes(1) else 0
    scores = scored(
        pairs=batch * heads * length * (length + past), key_wide=q_k_v[0] // heads, value_wide=q_k_v[-1] // heads
    )
    return FLOPS_PER_MAC * batch * length * wide * weights[1] + scores


def multi_head(op: Operands) -> int:
    """com.microsoft MultiHeadAttention: query (batch, sequence, hidden), already projected."""
    query = op.shape(0)
    heads = max(1, op.integer("num_heads", 1))
    if len(query) == 5:  # (batch, sequence, heads, 3, head size): all three packed
        pairs = query[0] * heads * query[1] ** 2
        return scored(pairs=pairs, key_wide=query[4], value_wide=query[4])
    batch, length, wide = query
    key = op.shape(1)
    keys = at(key, 1) if len(key) in (3, 5) else at(key, 2)
    past = at(op.shape(6), 2) if op.has(6) and len(key) == 3 else 0
    return scored(
        pairs=batch * heads * length * (keys + past),
        key_wide=wide // heads,
        value_wide=at(op.made(0), -1) // heads,
    )


def group_query(op: Operands) -> int:
    """com.microsoft GroupQueryAttention: heads of the query share keys and values, past ones included."""
    batch, length, wide = op.shape(0)
    heads, shared = max(1, op.integer("num_heads", 1)), max(1, op.integer("kv_num_heads", 1))
    head_wide = (wide // heads) if op.has(1) else wide // (heads + 2 * shared)
    keys = at(op.made(1), 2) if op.makes(1) else length + (at(op.shape(3), 2) if op.has(3) else 0)
    return scored(pairs=batch * heads * length * keys, key_wide=head_wide, value_wide=head_wide)


def standard(op: Operands) -> int:
    """ONNX Attention (opset 23): (batch, heads, sequence, size), or (batch, sequence, heads × size)."""
    query, key, value = op.shape(0), op.shape(1), op.shape(2)
    past = at(op.shape(4), 2) if op.has(4) else 0
    if len(query) == 4:
        pairs = query[0] * query[1] * query[2] * (at(key, 2) + past)
        return scored(pairs=pairs, key_wide=query[3], value_wide=at(value, 3))
    heads, shared = op.integer("q_num_heads"), op.integer("kv_num_heads")
    if len(query) != 3 or heads < 1 or shared < 1:
        raise NotCounted("the number of heads is not given")
    pairs = query[0] * heads * query[1] * (at(key, 1) + past)
    return scored(pairs=pairs, key_wide=query[2] // heads, value_wide=at(value, 2) // shared)


def attention(op: Operands) -> int:
    """Two operators share the name; the domain tells them apart."""
    return packed(op) if op.node.domain == "com.microsoft" else standard(op)


FORMULAS: dict[str, Formula] = {
    "Attention": attention,
    "QAttention": packed,
    "MultiHeadAttention": multi_head,
    "GroupQueryAttention": group_query,
}
