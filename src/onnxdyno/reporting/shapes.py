"""A dimension as people and programs read it."""

from onnxdyno.domain.models import Dim

_NAMELESS = "?"


def shape_entry(dim: Dim) -> int | str | None:
    """A fixed size, the axis or expression (`past + sequence`, `total - past`), or None where the file says nothing."""
    if not dim.axes and not dim.negative:
        is_unknown = dim.symbol is not None and dim.constant == 0
        return (None if dim.symbol == _NAMELESS else dim.symbol) if is_unknown else dim.constant
    plus = " + ".join((*dim.axes, *((str(dim.constant),) if dim.constant > 0 else ())))
    minus = "".join(f" - {name}" for name in dim.negative)
    return plus + minus + (f" - {-dim.constant}" if dim.constant < 0 else "")


def size_at(dim: Dim, sizes: dict[str, int]) -> int | None:
    """Its size when the axes have these sizes; None where one of them has none."""
    names = (*dim.axes, *dim.negative)
    if any(name not in sizes for name in names) or (not names and dim.symbol is not None and dim.constant == 0):
        return None
    return dim.constant + sum(sizes[name] for name in dim.axes) - sum(sizes[name] for name in dim.negative)
