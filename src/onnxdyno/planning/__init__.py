"""From what was asked and what the model is to what will run: base candidates, points, and what is not tried. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod

from onnxdyno.domain.axes import AxisSizes, Constraints, Role, axis_sizes
from onnxdyno.domain.devices import Device
from onnxdyno.domain.errors import SpecError
from onnxdyno.domain.models import LocalModel, Signature
from onnxdyno.domain.plan import BenchmarkPlan, BenchmarkSpec, Point, Variant
from onnxdyno.graphs.overrides import override
from onnxdyno.planning.candidates import MOST_CANDIDATES, base_candidates
from onnxdyno.planning.constrained import constrained
from onnxdyno.planning.exclusions import excluded
from onnxdyno.planning.sweeps import BATCHES, SEQUENCES, SIDES_PX, Sweep, free, sweeps

__all__ = [
    "BATCHES",
    "MOST_CANDIDATES",
    "MOST_POINTS",
    "SEQUENCES",
    "SIDES_PX",
    "base_candidates",
    "expand",
    "has_default_sweeps",
    "rebase",
]

MOST_POINTS = 256


def expand(
    spec: BenchmarkSpec,
    signature: Signature,
    model: LocalModel,
    device: Device,
    *,
    base: AxisSizes | None = None,
    constraints: Constraints | None = None,
) -> BenchmarkPlan:
    """The plan: a star around the base by default, a cross product of what the spec names explicitly.

    The sizes of default sweeps are moved to those that `constraints` allow; what is asked is tried as it is asked.
    Raises `SpecError`: unknown axis or input name, or more than `MOST_POINTS` points.
    """
    candidates = base_candidates(spec, signature)
    centre = candidates[0] if base is None else base
    variants = _variants(spec, signature)
    known = constraints or Constraints()
    swept = constrained(sweeps(spec, signature, dict(centre)), signature, known, dict(centre))
    sizes = _cheap_first(_combinations(swept, centre), centre)
    points = tuple(Point(sizes=each, variant=variant) for each in sizes for variant in variants)
    if len(points) > MOST_POINTS:
        raise SpecError(
            f"the spec asks for {len(points)} points; at most {MOST_POINTS} are measured. Name fewer sizes."
        )
    if spec.threads is not None and spec.threads > 2 * len(device.cores):
        raise SpecError(
            f"threads: {spec.threads} on {len(device.cores)} cores would measure the scheduler; "
            f"at most {2 * len(device.cores)} here."
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
        excluded=excluded(spec, signature, centre, variants[0]),
        batch_axes=tuple(axis.name for axis in free(signature, Role.BATCH)),
        fixed_batch=None if fixed is None else fixed.size,
        threads=spec.threads or device.threads,
        constraints=known,
    )


def rebase(
    plan: BenchmarkPlan, signature: Signature, base: Point, constraints: Constraints | None = None
) -> BenchmarkPlan:
    """The same plan around the base point that the probe found to run, over sizes that it found to be allowed."""
    known = constraints or plan.constraints
    moved = expand(plan.spec, signature, plan.model, plan.device, base=base.sizes, constraints=known)
    return replace(moved, protocol=plan.protocol, base_candidates=plan.base_candidates)


def has_default_sweeps(plan: BenchmarkPlan, signature: Signature) -> bool:
    """Whether any sizes of the plan are ours to choose; what is asked is tried as it is asked."""
    return any(not sweep.is_asked for sweep in sweeps(plan.spec, signature, dict(plan.base.sizes)))


def _variants(spec: BenchmarkSpec, signature: Signature) -> tuple[Variant, ...]:
    """Values that are no tensors cannot be bound to a device: host values only."""
    is_plain = all(
        value.kind == "tensor" and value.dtype != "string" for value in (*signature.inputs, *signature.outputs)
    )
    return tuple(dict.fromkeys(spec.variants)) if is_plain else (Variant.E2E,)


def _combinations(sweeps: Sequence[Sweep], base: AxisSizes) -> list[AxisSizes]:
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
