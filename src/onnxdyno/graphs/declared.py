"""What a model declares about its inputs and outputs, before anything is concluded from it."""

import re
from dataclasses import dataclass

from onnx import ModelProto, TensorShapeProto, TypeProto, ValueInfoProto

from onnxdyno.domain.text import printable
from onnxdyno.graphs.dtypes import dtype_name

_GENERATED = re.compile(
    r"(unk__|p2o\.|DynamicDimension|dynamic_axes_|dim_param|^\?$|^-1$|^None$|^s\d+$|^unknown)", re.IGNORECASE
)
"""Symbols that an exporter made up: they tie dimensions together but mean nothing to a person."""

_TERM = r"\s*(?:[A-Za-z_][\w.]*|\d+)\s*"
_SUM = re.compile(rf"{_TERM}(?:[+-]{_TERM})+")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredDim:
    """`size` None = dynamic; `symbol` None = unnamed."""

    size: int | None
    symbol: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """One input or output; `dims` None = no rank declared."""

    name: str
    kind: str
    dtype: str
    dims: tuple[DeclaredDim, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """A symbol such as `past_sequence_length + sequence_length`, taken apart."""

    plus: tuple[str, ...]
    minus: tuple[str, ...]
    constant: int


def fed_inputs(model: ModelProto) -> tuple[Declared, ...]:
    """Inputs that a caller must feed: those that no initializer provides."""
    provided = {tensor.name for tensor in model.graph.initializer}
    provided.update(sparse.values.name for sparse in model.graph.sparse_initializer)
    return tuple(declared(value) for value in model.graph.input if value.name not in provided)


def declared(value: ValueInfoProto) -> Declared:
    """The declaration of one value."""
    kind, dtype, shape = _describe(value.type)
    return Declared(name=value.name, kind=kind, dtype=dtype, dims=shape)


def is_generated(symbol: str) -> bool:
    """Whether an exporter made this symbol up."""
    return _GENERATED.search(symbol) is not None


def as_sum(symbol: str, known: frozenset[str]) -> Sum | None:
    """The sum that a symbol spells, or None for a plain name. `batch-size` is a name unless both parts are known."""
    if _SUM.fullmatch(symbol) is None:
        return None
    signs = [1, *(1 if sign == "+" else -1 for sign in re.findall(r"[+-]", symbol))]
    terms = [term.strip() for term in re.split(r"[+-]", symbol)]
    names = [term for term in terms if not term.isdigit()]
    if not names or ("+" not in symbol and not known.issuperset(names)):
        return None
    signed = list(zip(signs, terms, strict=True))
    return Sum(
        plus=tuple(term for sign, term in signed if sign > 0 and not term.isdigit()),
        minus=tuple(term for sign, term in signed if sign < 0 and not term.isdigit()),
        constant=sum(sign * int(term) for sign, term in signed if term.isdigit()),
    )


def _describe(type_: TypeProto) -> tuple[str, str, tuple[DeclaredDim, ...] | None]:
    kind = "tensor"
    for _ in range(8):  # sequence(optional(...)) nests; real files use at most two levels
        which = type_.WhichOneof("value")
        if which == "sequence_type":
            kind, type_ = ("sequence" if kind == "tensor" else kind), type_.sequence_type.elem_type
        elif which == "optional_type":
            kind, type_ = "optional", type_.optional_type.elem_type
        else:
            break
    if which == "map_type":
        key, value = dtype_name(type_.map_type.key_type), _describe_leaf(type_.map_type.value_type)
        return ("map" if kind == "tensor" else kind), f"map({key},{value})", None
    if which in ("tensor_type", "sparse_tensor_type"):
        tensor = type_.tensor_type if which == "tensor_type" else type_.sparse_tensor_type
        dims = tuple(_dim(dim) for dim in tensor.shape.dim) if tensor.HasField("shape") else None
        return ("sparse" if which != "tensor_type" else kind), dtype_name(tensor.elem_type), dims
    return kind, "unknown", None


def _describe_leaf(type_: TypeProto) -> str:
    return dtype_name(type_.tensor_type.elem_type) if type_.HasField("tensor_type") else "unknown"


def _dim(dim: TensorShapeProto.Dimension) -> DeclaredDim:
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return DeclaredDim(size=int(dim.dim_value), symbol=None)
    symbol = dim.dim_param if dim.HasField("dim_param") else ""
    is_unnamed = symbol.strip() in ("", "?", "-1", "None")
    return DeclaredDim(size=None, symbol=None if is_unnamed else printable(symbol))
