"""From what was asked and what the model is to what will run: base candidates, points, and what is not tried. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import product
from math import prod

from onnxdyno.domain.axes import Axis, AxisSizes, Role, axis_sizes
from onnxdyno.domain.devices import Device
from onnxdyno.domain.errors import SpecError
from onnxdyno.domain.models import LocalModel, Signature
from onnxdyno.domain.plan import BenchmarkPlan, BenchmarkSpec, Excluded, Point, Variant
from onnxdyno.domain.text import printable
from onnxdyno.graphs.overrides import override

MOST_POINTS = 256
MOST_CANDIDATES = 12
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
SIDES_PX = (160, 224, 320, 448, 640)
SEQUENCES = (16, 32, 64, 128, 256, 512)

_RESOLUTIONS_PX = (
    (224, 224), (320, 320), (256, 256), (640, 640), (48, 320), (32, 320), (128, 128), (64, 64), (512, 512), (96, 96),
    (32, 32), (24, 24),
)  # fmt: skip
"""(height, width) tried for the base; 48 and 32 rows are text lines (OCR recognisers)."""

_SIZES: dict[Role, tuple[int, ...]] = {
    Role.SEQUENCE: (128, 64, 16, 512, 8, 1),
    Role.PAST: (16, 0, 1),
    Role.TIME: (512, 1024, 16000, 4096, 3000, 160, 1),
    Role.CHANNELS: (3, 1, 4),
    Role.OTHER: (1, 2, 4, 8, 16, 32),
    Role.BATCH: (1, 2, 4, 8),
}
"""Sizes tried for the base point, by role; the first is the usual one."""

_ORDER = (Role.HEIGHT, Role.SEQUENCE, Role.TIME, Role.OTHER, Role.CHANNELS, Role.PAST, Role.BATCH)
"""Which role is varied first when the usual base does not run."""

_Choice = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sweep:
    """One group of axes that vary together; `is_asked` when the spec names the sizes."""

    choices: tuple[_Choice, ...]
    is_asked: bool


def base_candidates(spec: BenchmarkSpec, signature: Signature) -> tuple[AxisSizes, ...]:
    """At most `MOST_CANDIDATES` combinations for the probe, the usual one first; then one role varied at a time.

    Raises `SpecError` for an axis name that the model does not have.
    """
    groups = _base_groups(spec, signature)
    usual = {axis.name: axis.size for axis in signature.axes if axis.size is not None}
    for choices in groups:
        usual.update(choices[0])
    found = [axis_sizes(usual)]
    longest = max((len(choices) for choices in groups), default=0)
    for turn in range(1, longest):
        found.extend(axis_sizes({**usual, **choices[turn]}) for choices in groups if turn < len(choices))
    return tuple(dict.fromkeys(found))[:MOST_CANDIDATES]


def expand(
    spec: BenchmarkSpec,
    signature: Signature,
    model: LocalModel,
    device: Device,
    base: AxisSizes | None = None,
) -> BenchmarkPlan:
    """The plan: a star around the base by default, a cross product of what the spec names explicitly.

    Raises `SpecError`: unknown axis or input name, or more than `MOST_POINTS` points.
    """
    candidates = base_candidates(spec, signature)
    centre = candidates[0] if base is None else base
    variants = _variants(spec, signature)
    sizes = _cheap_first(_combinations(_sweeps(spec, signature, dict(centre)), centre), centre)
    points = tuple(Point(sizes=each, variant=variant) for each in sizes for variant in variants)
    if len(points) > MOST_POINTS:
        raise SpecError(
            f"the spec asks for {len(points)} points; at most {MOST_POINTS} are measured. Name fewer sizes."
        )
    fixed = signature.axis(Role.BATCH)
    return BenchmarkPlan(
        model=model,
        device=device,
        spec=replace(spec, variants=variants),
        recipes=override(signature.recipes, spec.inputs),
        base_candidates=tuple(Point(sizes=each, variant=variants[0]) for each in candidates),
        base=Point(sizes=centre, variant=variants[0]),
        points=points,
        excluded=_excluded(spec, signature, centre, variants[0]),
        batch_axes=tuple(axis.name for axis in _free(signature, Role.BATCH)),
        fixed_batch=None if fixed is None else fixed.size,
        threads=spec.threads or device.threads,
    )


def rebase(plan: BenchmarkPlan, signature: Signature, base: Point) -> BenchmarkPlan:
    """The same plan around the base point that the probe found to run."""
    moved = expand(plan.spec, signature, plan.model, plan.device, base=base.sizes)
    return replace(moved, protocol=plan.protocol, base_candidates=plan.base_candidates)


def _free(signature: Signature, role: Role) -> tuple[Axis, ...]:
    return tuple(axis for axis in signature.axes_of(role) if axis.size is None)


def _variants(spec: BenchmarkSpec, signature: Signature) -> tuple[Variant, ...]:
    """Values that are no tensors cannot be bound to a device: host values only."""
    is_plain = all(
        value.kind == "tensor" and value.dtype != "string" for value in (*signature.inputs, *signature.outputs)
    )
    return tuple(dict.fromkeys(spec.variants)) if is_plain else (Variant.E2E,)


def _named(spec: BenchmarkSpec, signature: Signature) -> dict[str, tuple[int, ...]]:
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


def _sides(signature: Signature) -> tuple[str | None, str | None]:
    """Names of the free height and width axes; one name twice when only squares exist."""
    height, width = (next((a.name for a in _free(signature, r)), None) for r in (Role.HEIGHT, Role.WIDTH))
    used = {(dim.role, name) for value in signature.inputs for dim in value.dims or () for name in dim.axes}
    if height is not None and width is None and (Role.WIDTH, height) in used:
        return height, height
    if width is not None and height is None and (Role.HEIGHT, width) in used:
        return width, width
    return height, width


def _resolution(signature: Signature, wanted_px: tuple[int, int]) -> dict[str, int] | str:
    """Sizes of the free axes for one (height, width), or why the model cannot take it."""
    sizes: dict[str, int] = {}
    fixed = {a.role: a.size for a in signature.axes if a.size is not None}
    for name, role, side in zip(_sides(signature), (Role.HEIGHT, Role.WIDTH), wanted_px, strict=True):
        if name is None and role not in fixed:
            return f"the model has no {role.value} axis."
        if name is None and fixed[role] != side:
            return f"the model's {role.value} is fixed at {fixed[role]}."
        if name is not None and sizes.setdefault(name, side) != side:
            return "the model takes only squares: height and width are one axis."
    return sizes


def _tied(axes: Iterable[Axis], size: int) -> dict[str, int]:
    return {axis.name: size for axis in axes}


def _base_groups(spec: BenchmarkSpec, signature: Signature) -> list[list[dict[str, int]]]:
    """For each group of free axes its sizes in the order they are tried, most promising group first."""
    named = _named(spec, signature)
    asked: dict[Role, Sequence[int] | None] = {Role.BATCH: spec.batches, Role.SEQUENCE: spec.sequences}
    if not _free(signature, Role.SEQUENCE):
        asked[Role.TIME] = spec.sequences
    groups: list[list[dict[str, int]]] = []
    for role in _ORDER:
        if role is Role.HEIGHT:
            tried = sorted(spec.resolutions_px, key=prod) if spec.resolutions_px else _RESOLUTIONS_PX
            fitting = [s for each in tried if isinstance(s := _resolution(signature, each), dict)]
            groups.append(_distinct(fitting) or _distinct(_one_side(signature)))
        elif role is Role.OTHER:
            groups.extend([{axis.name: size} for size in _SIZES[role]] for axis in _free(signature, role))
        elif _free(signature, role):
            wanted = asked.get(role)
            groups.append(
                [_tied(_free(signature, role), size) for size in (sorted(wanted) if wanted else _SIZES[role])]
            )
    return [_with_named(choices, named) for choices in groups if choices and choices != [{}]]


def _one_side(signature: Signature) -> list[dict[str, int]]:
    """Usual sizes for a model of which only one side is free and the other fixed at an unusual size."""
    free = [name for name in _sides(signature) if name is not None]
    return [dict.fromkeys(free, side) for side in dict.fromkeys(each[1] for each in _RESOLUTIONS_PX)] if free else []


def _with_named(choices: list[dict[str, int]], named: Mapping[str, tuple[int, ...]]) -> list[dict[str, int]]:
    """The smallest size that the spec names for an axis is its base."""
    return _distinct([{name: min(named.get(name, (size,))) for name, size in each.items()} for each in choices])


def _distinct(choices: Iterable[dict[str, int]]) -> list[dict[str, int]]:
    return [dict(each) for each in dict.fromkeys(axis_sizes(choice) for choice in choices)]


def _sweeps(spec: BenchmarkSpec, signature: Signature, base: _Choice) -> list[_Sweep]:
    found: list[_Sweep] = []
    batch = _free(signature, Role.BATCH)
    if batch:
        sizes = spec.batches or BATCHES
        found.append(_Sweep(choices=tuple(_tied(batch, n) for n in sizes), is_asked=spec.batches is not None))
    resolutions = spec.resolutions_px or _usual_resolutions(signature, base)
    fitting = tuple(s for each in resolutions if isinstance(s := _resolution(signature, each), dict) and s)
    if fitting:
        found.append(_Sweep(choices=fitting, is_asked=spec.resolutions_px is not None))
    steps = _free(signature, Role.SEQUENCE) or (_free(signature, Role.TIME) if spec.sequences else ())
    if steps:
        lengths = spec.sequences or SEQUENCES
        found.append(_Sweep(choices=tuple(_tied(steps, n) for n in lengths), is_asked=spec.sequences is not None))
    for name, sizes in _named(spec, signature).items():
        axis = next(axis for axis in signature.axes if axis.name == name)
        if axis.size is None:
            together = batch if axis.role is Role.BATCH else (axis,)
            found = [sweep for sweep in found if sweep.is_asked or set(sweep.choices[0]).isdisjoint({name})]
            found.append(_Sweep(choices=tuple(_tied(together, n) for n in sizes), is_asked=True))
    return found


def _usual_resolutions(signature: Signature, base: _Choice) -> tuple[tuple[int, int], ...]:
    """Squares around the usual base; around an unusual one its multiples; wide inputs keep their height."""
    fixed = {a.role: a.size for a in signature.axes if a.size is not None}
    names = _sides(signature)
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


def _combinations(sweeps: Sequence[_Sweep], base: AxisSizes) -> list[AxisSizes]:
    """Cross product of what was asked, each combination once; then each default sweep around the base."""
    asked = [sweep.choices for sweep in sweeps if sweep.is_asked]
    if prod(len(choices) for choices in asked) > MOST_POINTS:
        counts = " × ".join(str(len(choices)) for choices in asked)
        raise SpecError(f"the spec asks for {counts} points; at most {MOST_POINTS} are measured. Name fewer sizes.")
    found = []
    for combination in product(*asked):
        sizes = dict(base)
        for choice in combination:
            sizes.update(choice)
        found.append(axis_sizes(sizes))
    for sweep in sweeps:
        if not sweep.is_asked:
            found.extend(axis_sizes({**dict(base), **choice}) for choice in sweep.choices)
    return list(dict.fromkeys(found))


def _cheap_first(found: list[AxisSizes], base: AxisSizes) -> list[AxisSizes]:
    """Smallest product of sizes first, the base before all."""
    ordered = sorted((sizes for sizes in found if sizes != base), key=lambda sizes: (prod(n for _, n in sizes), sizes))
    return [base, *ordered]


def _excluded(spec: BenchmarkSpec, signature: Signature, base: AxisSizes, variant: Variant) -> tuple[Excluded, ...]:
    """Rows for sizes that the model cannot take, known from its file."""
    found: list[tuple[dict[str, int], str]] = []
    fixed = {axis.role: axis for axis in signature.axes if axis.size is not None}
    if not _free(signature, Role.BATCH):
        found.extend(_excluded_sizes(Role.BATCH, spec.batches or (BATCHES if Role.BATCH in fixed else ()), fixed))
    if not _free(signature, Role.SEQUENCE) and not _free(signature, Role.TIME):
        found.extend(_excluded_sizes(Role.SEQUENCE, spec.sequences or (), fixed))
    for height, width in spec.resolutions_px or ():
        answer = _resolution(signature, (height, width))
        if isinstance(answer, str):
            names = _sides(signature)
            found.append(({names[0] or "height": height, names[1] or "width": width}, answer))
    for name, sizes in _named(spec, signature).items():
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
