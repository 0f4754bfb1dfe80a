"""Names of element types: numpy's where numpy has the type, else `bfloat16`, `string` or ONNX's own in lower case."""

from onnx import TensorProto, helper

_EXTENDED: dict[int, str] = {
    TensorProto.BFLOAT16: "bfloat16",
    TensorProto.STRING: "string",
    TensorProto.FLOAT8E4M3FN: "float8_e4m3fn",
    TensorProto.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    TensorProto.FLOAT8E5M2: "float8_e5m2",
    TensorProto.FLOAT8E5M2FNUZ: "float8_e5m2fnuz",
    TensorProto.INT4: "int4",
    TensorProto.UINT4: "uint4",
    TensorProto.FLOAT4E2M1: "float4_e2m1fn",
}
_BITS = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "bfloat16": 16, "string": 0, "unknown": 0}


def dtype_name(elem_type: int) -> str:
    """`float32` for `TensorProto.FLOAT` and so on; `unknown` for a number that is no type."""
    if elem_type in _EXTENDED:
        return _EXTENDED[elem_type]
    try:
        return str(helper.tensor_dtype_to_np_dtype(elem_type).name)
    except (KeyError, TypeError, ValueError):
        return "unknown"


def bits_of(dtype: str) -> int:
    """Bits of one element; 0 for strings and what is unknown."""
    if dtype in _BITS:
        return _BITS[dtype]
    if dtype.startswith("float8"):
        return 8
    if dtype == "bool":
        return 8
    digits = "".join(c for c in dtype if c.isdigit())
    return int(digits) if digits else 0
