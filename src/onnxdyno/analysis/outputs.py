"""Whether outputs of one point differ in shape where the model's own declaration leaves no room for it."""

from collections.abc import Sequence
from itertools import pairwise

from onnxdyno.domain.models import Signature, TensorSpec
from onnxdyno.domain.outcomes import Measured


def differ_unlawfully(measured: Sequence[Measured], signature: Signature) -> bool:
    """Whether launches or input sets of one point gave shapes that the signature does not allow to differ.

    Sizes may depend on data only in a dimension that is declared dynamic and is no axis of the inputs: those are the
    same throughout a point. Without a declared rank anything is allowed, and so is the length of a sequence.
    """
    seen = list(dict.fromkeys(outputs for each in measured for outputs in (each.outputs, *each.other_outputs)))
    return any(
        _differs(one, other, spec)
        for before, after in pairwise(seen)
        for one, other, spec in zip(before, after, signature.outputs, strict=False)
    )


def _differs(one: str, other: str, declared: TensorSpec) -> bool:
    if one == other or declared.kind != "tensor" or declared.dims is None:
        return False
    sizes, other_sizes = _sizes(one), _sizes(other)
    if len(sizes) != len(other_sizes) or len(sizes) != len(declared.dims):
        return True
    changed = [dim for dim, a, b in zip(declared.dims, sizes, other_sizes, strict=True) if a != b]
    return any(dim.symbol is None or dim.axes for dim in changed)


def _sizes(described: str) -> list[str]:
    """The sizes in `name float32[1,10]`; a scalar has none."""
    inside = described.rpartition("[")[2].removesuffix("]")
    return inside.split(",") if inside else []
