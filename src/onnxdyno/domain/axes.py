"""Axes: the named dimensions of a model's inputs that can be varied, and the sizes chosen for them."""

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What a dimension means to the model."""

    BATCH = "batch"
    HEIGHT = "height"
    WIDTH = "width"
    CHANNELS = "channels"
    SEQUENCE = "sequence"
    PAST = "past"
    TIME = "time"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One free (or, for batch/height/width/sequence, fixed) dimension; `size` is None when it is dynamic.

    `name` is the model's own symbol where it has one, else the role, else `<input>:<dimension>`.
    `symbols` are the dimension parameters of the file that this axis stands for.
    """

    name: str
    role: Role
    size: int | None
    symbols: tuple[str, ...] = ()


AxisSizes = tuple[tuple[str, int], ...]
"""Sizes of all axes, fixed ones too, (name, size) sorted by name."""


def axis_sizes(sizes: dict[str, int]) -> AxisSizes:
    """The canonical, hashable form of a mapping from axis name to size."""
    return tuple(sorted(sizes.items()))


def describe(sizes: AxisSizes) -> str:
    """`batch=1 height=224 width=224`, or `fixed` for a model without dynamic axes."""
    return " ".join(f"{name}={size}" for name, size in sizes) or "fixed"
