"""Ops that move dimensions about: what each does to the extents of its inputs. See `tracing`."""

from collections.abc import Callable

from onnx import NodeProto

from onnxdyno.graphs.tracing import Extents, Trace, integer, integers, loosen

Outputs = list[Extents | None]
Rule = Callable[[Trace, NodeProto], Outputs]


def extents_of(trace: Trace, node: NodeProto, position: int) -> Extents | None:
    """Extents of one input of a node; None when it is absent or unknown."""
    if position >= len(node.input):
        return None
    return trace.extents.get(node.input[position])


def constant_of(trace: Trace, node: NodeProto, position: int) -> tuple[int, ...] | None:
    """Values of one input of a node, if they are few integers stored in the file."""
    return trace.constants(node.input[position]) if position < len(node.input) else None


def origin_of(trace: Trace, node: NodeProto, position: int) -> str | None:
    """The fed input whose values one input of a node carries."""
    return trace.origins.get(node.input[position]) if position < len(node.input) else None


def axes_of(trace: Trace, node: NodeProto, position: int, rank: int) -> tuple[int, ...] | None:
    """Axes given as attribute or, in newer opsets, as constant input; never negative."""
    axes = integers(node, "axes")
    axes = constant_of(trace, node, position) if axes is None else axes
    return None if axes is None else tuple(axis + rank if axis < 0 else axis for axis in axes)


def same(trace: Trace, node: NodeProto) -> Outputs:
    """Output 0 has the extents of input 0."""
    return [extents_of(trace, node, 0)]


def broadcast(trace: Trace, node: NodeProto) -> Outputs:
    """Multidirectional broadcasting of all inputs."""
    known = [e for name in node.input if name and (e := trace.extents.get(name)) is not None]
    if not known:
        return [None]
    rank = max(len(extents) for extents in known)
    has_unknown = len(known) < sum(1 for name in node.input if name)
    columns = [[e[len(e) - back] for e in known if len(e) >= back] for back in range(rank, 0, -1)]
    return [tuple(trace.meet([*column, None] if has_unknown else column) for column in columns)]


def resize(trace: Trace, node: NodeProto) -> Outputs:
    """Resize says nothing on layouts: any dimension may have changed."""
    x = extents_of(trace, node, 0)
    return [None if x is None else loosen(x)]


def transpose(trace: Trace, node: NodeProto) -> Outputs:
    """Permutation of the dimensions."""
    x = extents_of(trace, node, 0)
    if x is None:
        return [None]
    perm = integers(node, "perm") or tuple(reversed(range(len(x))))
    return [tuple(x[p] for p in perm) if sorted(perm) == list(range(len(x))) else None]


def unsqueeze(trace: Trace, node: NodeProto) -> Outputs:
    """New dimensions of size 1."""
    x = extents_of(trace, node, 0)
    given = integers(node, "axes") or constant_of(trace, node, 1)
    if x is None or given is None:
        return [None]
    rank = len(x) + len(given)
    new = {axis + rank if axis < 0 else axis for axis in given}
    rest = iter(x)
    return [tuple(1 if i in new else next(rest, None) for i in range(rank))]


def squeeze(trace: Trace, node: NodeProto) -> Outputs:
    """Dimensions of size 1 go; which ones must be written in the file, or all sizes be known."""
    x = extents_of(trace, node, 0)
    axes = None if x is None else axes_of(trace, node, 1, len(x))
    if x is not None and axes is None and len(node.input) < 2 and all(trace.size(e) is not None for e in x):
        axes = tuple(i for i, e in enumerate(x) if trace.size(e) == 1)
    if x is None or axes is None:
        return [None]
    return [tuple(e for i, e in enumerate(x) if i not in axes)]


def concat(trace: Trace, node: NodeProto) -> Outputs:
    """Dimensions other than the axis must be equal."""
    shapes = [trace.extents.get(name) for name in node.input]
    known = [s for s in shapes if s is not None]
    if not known or len({len(s) for s in known}) != 1:
        return [None]
    rank = len(known[0])
    axis = integer(node, "axis", 0) % rank if rank else 0
    return [
        tuple(loosen([s[i] for s in known])[0] if i == axis else trace.meet([s[i] for s in known]) for i in range(rank))
    ]


def pad(trace: Trace, node: NodeProto) -> Outputs:
    """Sizes change where the padding is not 0."""
    x = extents_of(trace, node, 0)
    pads = integers(node, "pads") or constant_of(trace, node, 1)
    if x is None:
        return [None]
    if pads is None or len(pads) != 2 * len(x):
        return [loosen(x)]
    return [tuple(e if pads[i] == pads[i + len(x)] == 0 else loosen([e])[0] for i, e in enumerate(x))]


def split(trace: Trace, node: NodeProto) -> Outputs:
    """Every part keeps the other dimensions; a size that the file fixes is divided."""
    x = extents_of(trace, node, 0)
    if not x:
        return [None] * len(node.output)
    axis = integer(node, "axis", 0) % len(x)
    sizes = integers(node, "split") or constant_of(trace, node, 1)
    whole, parts = trace.size(x[axis]), len(node.output)
    if parts == 0:
        return []
    if sizes is None and whole is not None and whole % parts == 0 and not (len(node.input) > 1 and node.input[1]):
        sizes = (whole // parts,) * parts
    cut: Extents = loosen([x[axis]]) * parts if sizes is None or len(sizes) != parts else sizes
    return [(*x[:axis], size, *x[axis + 1 :]) for size in cut]


def reduce(trace: Trace, node: NodeProto) -> Outputs:
    """Reduced dimensions become 1 or go."""
    x = extents_of(trace, node, 0)
    if x is None:
        return [None]
    axes = axes_of(trace, node, 1, len(x))
    if axes is None:
        is_unknown = len(node.input) > 1 and bool(node.input[1])
        axes = tuple(range(len(x)))
        if is_unknown:
            return [None]
    keeps = integer(node, "keepdims", 1) == 1
    return [tuple(1 if i in axes else e for i, e in enumerate(x) if keeps or i not in axes)]


def arg_reduce(trace: Trace, node: NodeProto) -> Outputs:
    """ArgMax and ArgMin: one axis."""
    x = extents_of(trace, node, 0)
    if not x:
        return [None]
    axis = integer(node, "axis", 0) % len(x)
    keeps = integer(node, "keepdims", 1) == 1
    return [tuple(1 if i == axis else e for i, e in enumerate(x) if keeps or i != axis)]
