"""Rows for sizes that a model cannot take, known from its file. Pure."""

from collections.abc import Mapping, Sequence

from onnxdyno.domain.axes import Axis, AxisSizes, Role, axis_sizes
from onnxdyno.domain.models import Signature
from onnxdyno.domain.plan import BenchmarkSpec, Excluded, Point, Variant
from onnxdyno.planning.sweeps import BATCHES, free, named_sizes, resolution, sides


def excluded(spec: BenchmarkSpec, signature: Signature, base: AxisSizes, variant: Variant) -> tuple[Excluded, ...]:
    """Rows for sizes that the model cannot take, known from its file."""
    found: list[tuple[dict[str, int], str]] = []
    fixed = {axis.role: axis for axis in signature.axes if axis.size is not None}
    if not free(signature, Role.BATCH):
        found.extend(_excluded_sizes(Role.BATCH, spec.batches or (BATCHES if Role.BATCH in fixed else ()), fixed))
    if not free(signature, Role.SEQUENCE) and not free(signature, Role.TIME):
        found.extend(_excluded_sizes(Role.SEQUENCE, spec.sequences or (), fixed))
    for height, width in spec.resolutions_px or ():
        answer = resolution(signature, (height, width))
        if isinstance(answer, str):
            names = sides(signature)
            found.append(({names[0] or "height": height, names[1] or "width": width}, answer))
    for name, sizes in named_sizes(spec, signature).items():
        axis = next(axis for axis in signature.axes if axis.name == name)
        if axis.size is not None:
            found.extend(({name: n}, f"the model's {name} is fixed at {axis.size}.") for n in sizes if n != axis.size)
    points = [(Point(sizes=axis_sizes({**dict(base), **sizes}), variant=variant), why) for sizes, why in found]
    return tuple(Excluded(point=point, reason=why) for point, why in dict(points).items())


def _excluded_sizes(role: Role, sizes: Sequence[int], fixed: Mapping[Role, Axis]) -> list[tuple[dict[str, int], str]]:
    axis = fixed.get(role)
    if axis is None:
        return [({role.value: size}, f"the model has no {role.value} axis.") for size in sizes]
    return [({axis.name: n}, f"the model's {role.value} is fixed at {axis.size}.") for n in sizes if n != axis.size]
