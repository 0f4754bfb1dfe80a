"""Sizes that the probe tries until one runs, the usual first. Pure."""

from collections.abc import Mapping, Sequence
from math import prod

from onnxdyno.domain.axes import AxisSizes, Role, axis_sizes
from onnxdyno.domain.models import Signature
from onnxdyno.domain.plan import BenchmarkSpec
from onnxdyno.planning.constrained import within
from onnxdyno.planning.sweeps import distinct, free, named_sizes, resolution, tied

MOST_CANDIDATES = 12


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


def base_candidates(spec: BenchmarkSpec, signature: Signature) -> tuple[AxisSizes, ...]:
    """At most `MOST_CANDIDATES` combinations for the probe, the usual one first; then one role varied at a time.

    Raises `SpecError` for an axis name that the model does not have.
    """
    limits = dict(signature.limits)
    groups = [distinct(within(limits, choice) for choice in choices) for choices in _base_groups(spec, signature)]
    usual = {axis.name: axis.size for axis in signature.axes if axis.size is not None}
    for choices in groups:
        usual.update(choices[0])
    found = [axis_sizes(usual)]
    longest = max((len(choices) for choices in groups), default=0)
    for turn in range(1, longest):
        found.extend(axis_sizes({**usual, **choices[turn]}) for choices in groups if turn < len(choices))
    return tuple(dict.fromkeys(found))[:MOST_CANDIDATES]


def _base_groups(spec: BenchmarkSpec, signature: Signature) -> list[list[dict[str, int]]]:
    """For each group of free axes its sizes in the order they are tried, most promising group first."""
    named = named_sizes(spec, signature)
    asked: dict[Role, Sequence[int] | None] = {Role.BATCH: spec.batches, Role.SEQUENCE: spec.sequences}
    if not free(signature, Role.SEQUENCE):
        asked[Role.TIME] = spec.sequences
    groups: list[list[dict[str, int]]] = []
    for role in _ORDER:
        if role is Role.HEIGHT:
            tried = sorted(spec.resolutions_px, key=prod) if spec.resolutions_px else _RESOLUTIONS_PX
            fitting = [s for each in tried if isinstance(s := resolution(signature, each), dict)]
            groups.append(distinct(fitting) or distinct(_one_side(signature)))
        elif role is Role.OTHER:
            groups.extend([{axis.name: size} for size in _SIZES[role]] for axis in free(signature, role))
        elif free(signature, role):
            wanted = asked.get(role)
            groups.append([tied(free(signature, role), size) for size in (sorted(wanted) if wanted else _SIZES[role])])
    return [_with_named(choices, named) for choices in groups if choices and choices != [{}]]


def _one_side(signature: Signature) -> list[dict[str, int]]:
    """Usual sizes for a model of which only one side is free and the other fixed at an unusual size."""
    names = [axis.name for role in (Role.HEIGHT, Role.WIDTH) for axis in free(signature, role)]
    return [dict.fromkeys(names, side) for side in dict.fromkeys(each[1] for each in _RESOLUTIONS_PX)] if names else []


def _with_named(choices: list[dict[str, int]], named: Mapping[str, tuple[int, ...]]) -> list[dict[str, int]]:
    """The smallest size that the spec names for an axis is its base."""
    return distinct([{name: min(named.get(name, (size,))) for name, size in each.items()} for each in choices])
