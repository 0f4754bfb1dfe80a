"""What is known of a tensor at a point: its type, its shape, and the elements of small ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, TypeProto, helper, numpy_helper

from onnxdyno.graphs.dtypes import bits_of, dtype_name

Shape = tuple[int | None, ...]
"""Sizes by dimension; None = depends on data."""

Elements = np.ndarray[Any, np.dtype[Any]]

MOST_KNOWN_ELEMENTS = 1024
"""Elements kept of a tensor: shapes, axes, indices, position ids. Weights are never looked at."""

MOST_RANK = 64
"""No runtime takes more dimensions; a product over millions of hostile ones would not end."""

MOST_COUNT = 2**63 - 1
"""Beyond this a product of sizes is no size."""

_KNOWN_TYPES = frozenset(
    {
        TensorProto.FLOAT,
        TensorProto.DOUBLE,
        TensorProto.FLOAT16,
        TensorProto.INT8,
        TensorProto.INT16,
        TensorProto.INT32,
        TensorProto.INT64,
        TensorProto.UINT8,
        TensorProto.UINT16,
        TensorProto.UINT32,
        TensorProto.UINT64,
        TensorProto.BOOL,
    }
)


class NotCounted(Exception):
    """Inside this package: something cannot be counted; the text says why. It becomes a reason beside a None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One tensor. `shape` None = rank unknown; `known` = all its elements, if few and certain.

    `is_constant`: it does not change from run to run (a weight, or computed from weights only).
    `other_type` is set for sequences, optionals and maps, which have no shape.
    """

    elem_type: int
    shape: Shape | None
    known: Elements | None = None
    is_constant: bool = False
    other_type: TypeProto | None = None

    @property
    def elements(self) -> int | None:
        """Number of elements, or None if a dimension is unknown or no memory holds so many."""
        if self.shape is None or self.other_type is not None:
            return None
        if 0 in self.shape:
            return 0
        total = 1
        for size in self.shape:
            if size is None:
                return None
            total *= size
        return total if total <= MOST_COUNT else None

    @property
    def size_bytes(self) -> int | None:
        """Bytes, 4-bit types packed; None if unknown, and for texts, whose length is not in their shape."""
        elements = self.elements
        bits = bits_by_type(self.elem_type)
        return None if elements is None or bits == 0 else (elements * bits + 7) // 8

    def varying(self) -> "Value":
        """The same tensor without its elements: they change from run to run or from iteration to iteration."""
        return Value(elem_type=self.elem_type, shape=self.shape, other_type=self.other_type)

    def why_unknown(self, what: str) -> str:
        """Why `what`, this tensor, has no size."""
        if self.other_type is not None:
            return f"{what} is a sequence, map or optional: its size is not in its type"
        if self.shape is None or (None in self.shape and 0 not in self.shape):
            return f"the shape of {what} depends on data or could not be inferred"
        if self.elements is None:
            return f"{what} would have more than {MOST_COUNT} elements"
        return f"elements of {what} have no fixed size (texts, or an unknown type)"


UNKNOWN = Value(elem_type=0, shape=None)

_BITS: dict[int, int] = {}


def bits_by_type(elem_type: int) -> int:
    """Bits of one element of an ONNX element type; 0 if it has no fixed size."""
    if elem_type not in _BITS:
        _BITS[elem_type] = bits_of(dtype_name(elem_type))
    return _BITS[elem_type]


def stored(tensor: TensorProto) -> Value:
    """A tensor of the file. External data and long tensors are not read."""
    shape = tuple(int(size) for size in tensor.dims)
    if len(shape) > MOST_RANK or any(size < 0 for size in shape):
        return Value(elem_type=int(tensor.data_type), shape=None, is_constant=True)
    return Value(elem_type=int(tensor.data_type), shape=shape, known=_elements_of(tensor, shape), is_constant=True)


def _elements_of(tensor: TensorProto, shape: tuple[int, ...]) -> Elements | None:
    is_external = tensor.data_location == TensorProto.EXTERNAL
    if is_external or tensor.data_type not in _KNOWN_TYPES or prod(shape) > MOST_KNOWN_ELEMENTS:
        return None
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except (ValueError, TypeError):
        return None


def constant(node: NodeProto) -> Value:
    """What a Constant node holds."""
    for attribute in node.attribute:
        if attribute.name == "value":
            return stored(attribute.t)
        if attribute.name == "sparse_value":
            shape = tuple(int(size) for size in attribute.sparse_tensor.dims)
            known_rank = len(shape) <= MOST_RANK and all(size >= 0 for size in shape)
            values = attribute.sparse_tensor.values
            return Value(elem_type=values.data_type, shape=shape if known_rank else None, is_constant=True)
        found: Any = None
        if attribute.name in ("value_int", "value_ints"):
            found = np.asarray(attribute.i if attribute.name == "value_int" else attribute.ints, dtype=np.int64)
        elif attribute.name in ("value_float", "value_floats"):
            found = np.asarray(attribute.f if attribute.name == "value_float" else attribute.floats, dtype=np.float32)
        if found is not None:
            return of_elements(found, is_constant=True)
        if attribute.name in ("value_string", "value_strings"):
            shape = () if attribute.name == "value_string" else (len(attribute.strings),)
            return Value(elem_type=TensorProto.STRING, shape=shape, is_constant=True)
    return UNKNOWN


def of_elements(elements: Elements, *, is_constant: bool) -> Value:
    """A tensor all of whose elements are at hand; they are kept if they are few."""
    return Value(
        elem_type=int(helper.np_dtype_to_tensor_dtype(elements.dtype)),
        shape=tuple(int(size) for size in elements.shape),
        known=elements if elements.size <= MOST_KNOWN_ELEMENTS else None,
        is_constant=is_constant,
    )


def declared(type_: TypeProto, *, is_constant: bool = False) -> Value:
    """A value by its type alone."""
    which = type_.WhichOneof("value")
    if which != "tensor_type":
        return Value(elem_type=0, shape=None, other_type=type_) if which is not None else UNKNOWN
    tensor = type_.tensor_type
    shape: Shape | None = None
    if tensor.HasField("shape") and len(tensor.shape.dim) <= MOST_RANK:
        shape = tuple(
            int(d.dim_value) if d.HasField("dim_value") and d.dim_value >= 0 else None for d in tensor.shape.dim
        )
    return Value(elem_type=int(tensor.elem_type), shape=shape, is_constant=is_constant)


def type_of(value: Value) -> TypeProto:
    """The ONNX type of a value."""
    if value.other_type is not None:
        return value.other_type
    made = TypeProto()
    if value.elem_type:
        made.tensor_type.elem_type = value.elem_type
        if value.shape is not None:
            made.tensor_type.shape.SetInParent()
            for size in value.shape:
                dim = made.tensor_type.shape.dim.add()
                if size is not None:
                    dim.dim_value = size
    return made


def found(scope: Mapping[str, Value], names: Sequence[str]) -> list[Value | None]:
    """Values of the inputs of a node: None where an optional one is left out, UNKNOWN where nothing is known."""
    return [scope.get(name, UNKNOWN) if name else None for name in names]
