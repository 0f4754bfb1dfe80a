"""From what was asked and what the model is to what will run: base candidates, points, and what is not tried. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod

from onnxdyno.domain.axes import AxisSizes, Constraints, Role, axis_sizes
from onnxdyno.domain.devices import Device
from onnxdyno.domain.errors import SpecError
from onnxdyno.domain.models import LocalModel, Signature
from onnxdyno.domain.outcomes import Explored
from onnxdyno.domain.plan import BenchmarkPlan, BenchmarkSpec, Point, Protocol, Variant
from onnxdyno.graphs.overrides import override
from onnxdyno.planning.candidates import MOST_CANDIDATES, base_candidates
from onnxdyno.planning.constrained import constrained
from onnxdyno.planning.exclusions import excluded
from onnxdyno.planning.exploring import question, worth_measuring
from onnxdyno.planning.factors import pointless, session_of, variants_of, with_factors
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
    "session_of",
    "with_factors",
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
    explored: Sequence[Explored] = (),
) -> BenchmarkPlan:
    """The plan: a star around the base by default, a cross product of what the spec names explicitly.

    The sizes of default sweeps are moved to those that `constraints` allow, or chosen by what was `explored`; what is
    asked is tried as it is asked. Threads and calls in flight beside the first are crossed with what is asked.
    Raises `SpecError`: unknown axis or input name, or more than `MOST_POINTS` points.
    """
    candidates = base_candidates(spec, signature)
    centre = candidates[0] if base is None else base
    variants = variants_of(spec, signature, device)
    known = constraints or Constraints()
    threads = spec.threads or (device.threads,)
    asked, all_sizes = _sizes(spec, signature, centre, known, explored)
    points = (
        *(Point(sizes=each, variant=variant) for each in all_sizes for variant in variants),
        *_factors(asked, variants, threads[1:], spec.concurrency),
    )
    _refuse_excess(points, threads, device)
    fixed = signature.axis(Role.BATCH)
    return BenchmarkPlan(
        model=model,
        device=with_factors(device, spec),
        spec=spec,
        recipes=override(signature.recipes, spec.inputs),
        base_candidates=tuple(Point(sizes=each, variant=variants[0]) for each in candidates),
        base=Point(sizes=centre, variant=variants[0]),
        points=points,
        excluded=(*excluded(spec, signature, centre, variants[0]), *pointless(spec, signature, device, centre)),
        batch_axes=tuple(axis.name for axis in free(signature, Role.BATCH)),
        fixed_batch=None if fixed is None else fixed.size,
        threads=threads[0],
        constraints=known,
    )


def _sizes(
    spec: BenchmarkSpec,
    signature: Signature,
    centre: AxisSizes,
    known: Constraints,
    explored: Sequence[Explored],
) -> tuple[list[AxisSizes], list[AxisSizes]]:
    """(what is asked, that and the default sweeps), cheap ones first."""
    swept = constrained(sweeps(spec, signature, dict(centre)), signature, known, dict(centre))
    swept = [sweep for sweep in swept if sweep.is_asked or not spec.base_only]
    asked = _cheap_first(_crossed(swept, centre), centre)
    star = _chosen(spec, signature, centre, known, explored) or _star(swept, centre)
    return asked, _cheap_first(list(dict.fromkeys((*asked, *star))), centre)


def _refuse_excess(points: Sequence[Point], threads: Sequence[int], device: Device) -> None:
    if len(points) > MOST_POINTS:
        raise SpecError(
            f"the spec asks for {len(points)} points; at most {MOST_POINTS} are measured. Name fewer sizes."
        )
    if max(threads) > 2 * len(device.cores):
        raise SpecError(
            f"threads: {max(threads)} on {len(device.cores)} cores would measure the scheduler; "
            f"at most {2 * len(device.cores)} here."
        )


def rebase(
    plan: BenchmarkPlan,
    signature: Signature,
    base: Point,
    constraints: Constraints | None = None,
    explored: Sequence[Explored] = (),
) -> BenchmarkPlan:
    """The same plan around the base point that the probe found to run, over sizes found to be allowed and worth it."""
    known = constraints or plan.constraints
    moved = expand(plan.spec, signature, plan.model, plan.device, base=base.sizes, constraints=known, explored=explored)
    return replace(moved, protocol=plan.protocol, base_candidates=plan.base_candidates)


def has_default_sweeps(plan: BenchmarkPlan, signature: Signature) -> bool:
    """Whether any sizes of the plan are ours to choose; what is asked is tried as it is asked."""
    return not plan.spec.base_only and any(
        not sweep.is_asked for sweep in sweeps(plan.spec, signature, dict(plan.base.sizes))
    )


def _crossed(sweeps: Sequence[Sweep], base: AxisSizes) -> list[AxisSizes]:
    """Cross product of what was asked, each combination once."""
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
    return list(dict.fromkeys(found))


def _star(sweeps: Sequence[Sweep], base: AxisSizes) -> list[AxisSizes]:
    """Each default sweep around the base."""
    own = dict(base)
    return [axis_sizes({**own, **choice}) for sweep in sweeps if not sweep.is_asked for choice in sweep.choices]


def _chosen(
    spec: BenchmarkSpec,
    signature: Signature,
    base: AxisSizes,
    constraints: Constraints,
    explored: Sequence[Explored],
) -> list[AxisSizes]:
    """Each default sweep, over the sizes that exploring found worth measuring where it looked; empty if it did not."""
    if not explored:
        return []
    asked = question(spec, signature, Protocol(), base, constraints)
    ladders = {
        ladder.names: worth for ladder, worth in zip(asked.ladders, worth_measuring(asked, explored), strict=True)
    }
    found: list[AxisSizes] = []
    for sweep in constrained(sweeps(spec, signature, dict(base)), signature, constraints, dict(base)):
        if not sweep.is_asked:
            usual = [] if _is_batch(sweep, signature) else _star((sweep,), base)
            found.extend((*usual, *ladders.get(tuple(sweep.choices[0]), ())))
    return found


def _is_batch(sweep: Sweep, signature: Signature) -> bool:
    return set(sweep.choices[0]) <= {axis.name for axis in free(signature, Role.BATCH)}


def _factors(
    sizes: Sequence[AxisSizes], variants: Sequence[Variant], threads: Sequence[int], in_flight: Sequence[int]
) -> Iterator[Point]:
    """Points with other threads than the plan's, or more than one call in flight."""
    for at_once in (None, *threads):
        for concurrency in dict.fromkeys((1, *in_flight)):
            if at_once is not None or concurrency > 1:
                yield from (
                    Point(sizes=each, variant=variant, threads=at_once, concurrency=concurrency)
                    for each in sizes
                    for variant in variants
                    if not variant.is_cuda_only  # one call in flight is what these two are about
                )


def _cheap_first(found: list[AxisSizes], base: AxisSizes) -> list[AxisSizes]:
    """Smallest product of sizes first, the base before all."""
    ordered = sorted((sizes for sizes in found if sizes != base), key=lambda sizes: (prod(n for _, n in sizes), sizes))
    return [base, *ordered]
