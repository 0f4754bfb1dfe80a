"""Shapes of standard operators that onnx infers unsafely or not at all."""

from onnx import TensorProto

from onnxdyno.graphs.cost.operands import Operands, at
from onnxdyno.graphs.cost.shapes import Rule, Typed, same, type_at
from onnxdyno.graphs.cost.values import NotCounted


def normalise(op: Operands) -> list[Typed]:
    """LayerNormalization and its kin: the result, mean and 1 / deviation of each row."""
    shape = op.shape(0)
    axis = op.integer("axis", -1) % max(1, len(shape))
    row = tuple(1 if i >= axis else size for i, size in enumerate(shape))
    return [(type_at(op), shape), (TensorProto.FLOAT, row), (TensorProto.FLOAT, row)]


def _gather_nd(op: Operands) -> list[Typed]:
    table, indices = op.shape(0), op.shape(1)
    batch, depth = op.integer("batch_dims"), at(indices, -1)
    if not 0 <= batch < len(indices) or not 1 <= depth <= len(table) - batch:
        raise NotCounted("batch_dims or the last size of the indices is out of range")
    return [(type_at(op), (*indices[:-1], *table[batch + depth :]))]


def _split(op: Operands) -> list[Typed]:
    """As listed, or in equal parts of which the last may be smaller."""
    shape, parts = op.shape(0), len(op.node.output)
    at(shape, op.integer("axis"))
    if parts == 0:
        raise NotCounted("it has no outputs")
    axis = op.integer("axis") % len(shape)
    even = -(-shape[axis] // parts)
    listed = op.known(1) if op.has(1) else op.integers("split")
    sizes = listed or tuple(max(0, min(even, shape[axis] - i * even)) for i in range(parts))
    if len(sizes) != parts or sum(sizes) != shape[axis] or min(sizes) < 0:
        raise NotCounted(f"parts {list(sizes[:8])} of a dimension of {shape[axis]} for {parts} outputs")
    return [(type_at(op), (*shape[:axis], size, *shape[axis + 1 :])) for size in sizes]


def _floats(op: Operands) -> list[Typed]:
    return [(TensorProto.FLOAT, op.shape(0))]


def _scores(op: Operands) -> list[Typed]:
    """Regressors of ai.onnx.ml: one row of targets for each row."""
    return [(TensorProto.FLOAT, (at(op.shape(0), 0), max(1, op.integer("targets", op.integer("n_targets", 1)))))]


def _classes(op: Operands) -> list[Typed]:
    """Classifiers of ai.onnx.ml: a label and a row of scores for each row."""
    names = [op.attributes[name] for name in _CLASS_LABELS if name in op.attributes]
    known = max((max(len(each.strings), len(each.ints)) for each in names), default=0)
    texts = any(each.strings for each in names)
    if not known:
        raise NotCounted("a classifier without class labels")
    rows = at(op.shape(0), 0)
    return [(TensorProto.STRING if texts else TensorProto.INT64, (rows,)), (TensorProto.FLOAT, (rows, known))]


_CLASS_LABELS = ("classlabels_strings", "classlabels_ints", "classlabels_int64s")

RULES: dict[str, Rule] = {
    "GatherND": _gather_nd,
    "Split": _split,
    "LayerNormalization": normalise,
    **dict.fromkeys(("Scaler", "Normalizer"), _floats),
    **dict.fromkeys(("Imputer", "Binarizer"), same),
    **dict.fromkeys(("LinearRegressor", "SVMRegressor", "TreeEnsembleRegressor"), _scores),
    **dict.fromkeys(("LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier"), _classes),
}
