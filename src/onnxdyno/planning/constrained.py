"""Default sweeps moved to the sizes that a model takes. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from onnxdyno.domain.axes import AxisRule, Constraints, Role
from onnxdyno.domain.models import Signature
from onnxdyno.planning.sweeps import Choice, Sweep, distinct, free


def constrained(found: Sequence[Sweep], signature: Signature, constraints: Constraints, base: Choice) -> list[Sweep]:
    """The sweeps with every default size moved to the nearest that is allowed, each once; asked sizes stay.

    A batch for which only one size ran is swept all the same: its rows say what the runtime said.
    """
    moved = []
    for sweep in found:
        if sweep.is_asked:
            moved.append(sweep)
            continue
        choices = []
        for choice in sweep.choices:
            sizes = fit(choice, signature, constraints)
            if sizes is not None and _is_square({**base, **sizes}, constraints):
                choices.append(sizes)
        moved.append(replace(sweep, choices=tuple(distinct(choices))))
    return [sweep for sweep in moved if sweep.choices]


def fit(wanted: Choice, signature: Signature, constraints: Constraints) -> dict[str, int] | None:
    """The allowed sizes that are nearest to what is wanted; None where an axis has none."""
    batch = {axis.name for axis in free(signature, Role.BATCH)}
    limits = dict(signature.limits)
    fitted = {name: _fit(_rule(name, constraints, limits, batch), size) for name, size in wanted.items()}
    found = {name: size for name, size in fitted.items() if size is not None}
    return found if len(found) == len(wanted) else None


def within(limits: dict[str, int], sizes: Choice) -> dict[str, int]:
    """Sizes cut to what tables of positions in the file allow."""
    return {name: min(size, limits.get(name, size)) for name, size in sizes.items()}


def _rule(name: str, constraints: Constraints, limits: dict[str, int], batch: set[str]) -> AxisRule:
    rule = constraints.rule(name)
    if name in batch and len(rule.only) == 1:
        return AxisRule(axis=name)
    most = [size for size in (rule.most, limits.get(name)) if size is not None]
    return replace(rule, most=min(most) if most else None)


def _fit(rule: AxisRule, size: int) -> int | None:
    """The allowed size that is nearest; None if there is none."""
    if rule.only:
        return size if size in rule.only else None
    step = rule.multiple
    fitted = max(step, round(size / step) * step, -(-(rule.least or 0) // step) * step)
    if rule.most is not None:
        fitted = min(fitted, rule.most // step * step)
    return fitted if rule.allows(fitted) else None


def _is_square(sizes: Choice, constraints: Constraints) -> bool:
    return all(sizes.get(height) == sizes.get(width) for height, width in constraints.squares)
