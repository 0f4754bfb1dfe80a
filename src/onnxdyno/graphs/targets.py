"""Ops whose output has a shape that comes in as a value: Reshape, Expand, Slice, Range and kin. See `arithmetic`."""

from itertools import zip_longest

from onnx import NodeProto

from onnxdyno.graphs.arithmetic import FOREVER, divide, shape, values_of
from onnxdyno.graphs.shapes import Outputs, axes_of, constant_of, extents_of
from onnxdyno.graphs.tracing import At, Extent, Extents, Trace, integer, integers, loosen


def made(trace: Trace, node: NodeProto) -> Outputs:
    """ConstantOfShape and random tensors: the elements of the input are the sizes."""
    return [values_of(trace, node, 0)]


def sized(trace: Trace, node: NodeProto) -> Outputs:
    """Shape and Size: one dimension as long as the rank, or none."""
    x = extents_of(trace, node, 0)
    return [None if x is None else (() if node.op_type == "Size" else (len(shape(trace, node) or ()),))]


def count(trace: Trace, node: NodeProto) -> Outputs:
    """Range from 0 in steps of 1 is as long as its limit."""
    start, limit, step = (values_of(trace, node, i) for i in range(3))
    if start != (0,) or step != (1,) or not limit:
        return [(loosen(limit[:1])[0] if limit else None,)]
    if isinstance(limit[0], At) and node.output:
        trace.counted[node.output[0]] = limit[0]
    return [(limit[0],)]


def expand(trace: Trace, node: NodeProto) -> Outputs:
    """Expand: broadcast to a target; a target of 1 leaves the dimension as it is."""
    x, target = extents_of(trace, node, 0), values_of(trace, node, 1)
    if target is None:
        return [None]
    columns = list(zip_longest(reversed(x or ()), reversed(target), fillvalue=1))[::-1]
    if x is None:
        return [tuple(size if size != 1 else None for size in target)]
    return [tuple(mine if size == 1 else (size if mine == 1 else trace.meet([mine, size])) for mine, size in columns)]


def tile(trace: Trace, node: NodeProto) -> Outputs:
    """Tile: repeated dimensions are multiplied."""
    x, repeats = extents_of(trace, node, 0), values_of(trace, node, 1)
    if x is None or repeats is None or len(x) != len(repeats):
        return [None]
    return [tuple(divide(trace, (mine, times), ()) for mine, times in zip(x, repeats, strict=True))]


def reshape(trace: Trace, node: NodeProto) -> Outputs:
    """Reshape: what the target carries; 0 keeps a dimension; -1 is what is left of the input."""
    x, target = extents_of(trace, node, 0), values_of(trace, node, 1)
    given = integers(node, "shape")
    target = given if target is None and given is not None else target
    if target is None:
        return [None]
    kept, keeps = x or (), integer(node, "allowzero", 0) == 0
    sizes = [(kept[i] if i < len(kept) else None) if s == 0 and keeps else s for i, s in enumerate(target)]
    if -1 in sizes:
        rest = [size for size in sizes if size != -1]
        sizes[sizes.index(-1)] = None if x is None or sizes.count(-1) > 1 else divide(trace, x, tuple(rest))
    return [_named(trace, kept, [None if isinstance(s, int) and s < 0 else s for s in sizes])]


def _named(trace: Trace, x: Extents, sizes: list[Extent]) -> Extents:
    """Numbers of a target that stand where the input has that size, before or after all that moves, keep its name."""
    most = min(len(x), len(sizes))
    for places in (range(most), range(-1, -most - 1, -1)):
        for i in places:
            known = trace.size(x[i])
            if sizes[i] != x[i] and (known is None or sizes[i] != known):
                break
            sizes[i] = x[i]
    return tuple(sizes)


def flatten(trace: Trace, node: NodeProto) -> Outputs:
    """Flatten: two dimensions, the products before and after the axis."""
    x = extents_of(trace, node, 0)
    if x is None:
        return [(None, None)]
    axis = integer(node, "axis", 1)
    return [(divide(trace, x[:axis], ()), divide(trace, x[axis:], ()))]


def cut(trace: Trace, node: NodeProto) -> Outputs:
    """Slice: sizes change along the axes. A stored table that is cut to a dimension's size takes that dimension."""
    x = extents_of(trace, node, 0)
    if x is None:
        return [None]
    axes = axes_of(trace, node, 3, len(x))
    starts = constant_of(trace, node, 1) if integers(node, "starts") is None else integers(node, "starts")
    ends = values_of(trace, node, 2) if integers(node, "ends") is None else integers(node, "ends")
    if axes is None and len(node.input) > 3 and node.input[3]:
        return [loosen(x)]
    axes = tuple(range(len(ends or x))) if axes is None else axes
    steps = constant_of(trace, node, 4) if len(node.input) > 4 else (1,) * len(axes)
    sizes = list(x)
    for at, axis in enumerate(axes):
        bounds = [None if each is None or at >= len(each) else each[at] for each in (starts, ends, steps)]
        if 0 <= axis < len(sizes):
            sizes[axis] = _cut_size(trace, sizes[axis], *bounds)
    return [tuple(sizes)]


def _cut_size(trace: Trace, size: Extent, start: Extent, end: Extent, step: Extent) -> Extent:
    loose = loosen([size])[0]
    if step != 1:
        return loose
    known = trace.size(size)
    if isinstance(start, int) and isinstance(end, int):
        if start == 0 and end >= FOREVER:
            return size
        return len(range(known)[start:end]) if known is not None and known < FOREVER else loose
    if start == 0 and isinstance(end, At) and isinstance(size, int):
        limit(trace, end, size)
        return end
    return loose


def limit(trace: Trace, extent: Extent, rows: int) -> None:
    """A dynamic dimension that indexes a table of positions cannot exceed its rows."""
    if isinstance(extent, At) and extent.exact and trace.is_dynamic(extent) and rows > 1:
        limits = trace.evidence.limits
        limits[extent.dim] = min(rows, limits.get(extent.dim, rows))
