"""What varies together and over which sizes: by default around the base, or as a spec names them. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from onnxdyno.domain.axes import Axis, Role, axis_sizes
from onnxdyno.domain.errors import SpecError
from onnxdyno.domain.models import Signature
from onnxdyno.domain.plan import BenchmarkSpec
from onnxdyno.domain.text import printable

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)


SIDES_PX = (160, 224, 320, 448, 640)


SEQUENCES = (16, 32, 64, 128, 256, 512)


Choice = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One group of axes that vary together; `is_asked` when the spec names the sizes."""

    choices: tuple[Choice, ...]
    is_asked: bool


def sweeps(spec: BenchmarkSpec, signature: Signature, base: Choice) -> list[Sweep]:
    found: list[Sweep] = []
    batch = free(signature, Role.BATCH)
    if batch:
        sizes = spec.batches or BATCHES
        found.append(Sweep(choices=tuple(tied(batch, n) for n in sizes), is_asked=spec.batches is not None))
    resolutions = spec.resolutions_px or _usual_resolutions(signature, base)
    fitting = tuple(s for each in resolutions if isinstance(s := resolution(signature, each), dict) and s)
    if fitting:
        found.append(Sweep(choices=fitting, is_asked=spec.resolutions_px is not None))
    steps = free(signature, Role.SEQUENCE) or (free(signature, Role.TIME) if spec.sequences else ())
    if steps:
        lengths = spec.sequences or SEQUENCES
        found.append(Sweep(choices=tuple(tied(steps, n) for n in lengths), is_asked=spec.sequences is not None))
    for name, sizes in named_sizes(spec, signature).items():
        axis = next(axis for axis in signature.axes if axis.name == name)
        if axis.size is None:
            together = batch if axis.role is Role.BATCH else (axis,)
            found = [sweep for sweep in found if sweep.is_asked or set(sweep.choices[0]).isdisjoint({name})]
            found.append(Sweep(choices=tuple(tied(together, n) for n in sizes), is_asked=True))
    return found


def _usual_resolutions(signature: Signature, base: Choice) -> tuple[tuple[int, int], ...]:
    """Squares around the usual base; around an unusual one its multiples; wide inputs keep their height."""
    fixed = {a.role: a.size for a in signature.axes if a.size is not None}
    names = sides(signature)
    if names == (None, None):
        return ()
    height = base.get(names[0] or "", fixed.get(Role.HEIGHT) or 0)
    width = base.get(names[1] or "", fixed.get(Role.WIDTH) or 0)
    if names[0] is None:
        return tuple((height, side) for side in _scaled(width))
    if names[1] is None:
        return tuple((side, width) for side in _scaled(height))
    if height != width:
        return tuple((height, side) for side in _scaled(width))
    return tuple((side, side) for side in _scaled(height))


def _scaled(side_px: int) -> tuple[int, ...]:
    if side_px in SIDES_PX:
        return SIDES_PX
    multiples = {max(8, round(side_px * factor / 8) * 8) for factor in (0.5, 1.5, 2)}
    return tuple(sorted({side_px, *multiples}))


def free(signature: Signature, role: Role) -> tuple[Axis, ...]:
    return tuple(axis for axis in signature.axes_of(role) if axis.size is None)


def named_sizes(spec: BenchmarkSpec, signature: Signature) -> dict[str, tuple[int, ...]]:
    """Axis name -> sizes that the spec gives under `axes`; a symbol of the model is as good as the axis name."""
    names = {axis.name: axis.name for axis in signature.axes}
    for axis in signature.axes:
        for symbol in axis.symbols:
            names.setdefault(symbol, axis.name)
    found: dict[str, tuple[int, ...]] = {}
    for name, sizes in spec.axes:
        if name not in names:
            near = get_close_matches(name, names, n=1)
            listed = ", ".join(printable(known) for known in names) or "none"
            hint = f"Did you mean '{printable(near[0])}'?" if near else f"Axes: {listed}."
            raise SpecError(f"axes: the model has no axis '{printable(name)}'. {hint}")
        found[names[name]] = sizes
    return found


def sides(signature: Signature) -> tuple[str | None, str | None]:
    """Names of the free height and width axes; one name twice when only squares exist."""
    height, width = (next((a.name for a in free(signature, r)), None) for r in (Role.HEIGHT, Role.WIDTH))
    used = {(dim.role, name) for value in signature.inputs for dim in value.dims or () for name in dim.axes}
    if height is not None and width is None and (Role.WIDTH, height) in used:
        return height, height
    if width is not None and height is None and (Role.HEIGHT, width) in used:
        return width, width
    return height, width


def resolution(signature: Signature, wanted_px: tuple[int, int]) -> dict[str, int] | str:
    """Sizes of the free axes for one (height, width), or why the model cannot take it."""
    sizes: dict[str, int] = {}
    fixed = {a.role: a.size for a in signature.axes if a.size is not None}
    for name, role, side in zip(sides(signature), (Role.HEIGHT, Role.WIDTH), wanted_px, strict=True):
        if name is None and role not in fixed:
            return f"the model has no {role.value} axis."
        if name is None and fixed[role] != side:
            return f"the model's {role.value} is fixed at {fixed[role]}."
        if name is not None and sizes.setdefault(name, side) != side:
            return "the model takes only squares: height and width are one axis."
    for role, side in zip((Role.HEIGHT, Role.WIDTH), wanted_px, strict=True):
        for axis in free(signature, role):  # a second picture has the size of the first
            sizes.setdefault(axis.name, side)
    return sizes


def tied(axes: Iterable[Axis], size: int) -> dict[str, int]:
    return {axis.name: size for axis in axes}


def distinct(choices: Iterable[dict[str, int]]) -> list[dict[str, int]]:
    return [dict(each) for each in dict.fromkeys(axis_sizes(choice) for choice in choices)]
