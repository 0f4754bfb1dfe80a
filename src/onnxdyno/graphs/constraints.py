"""What sizes a model takes, found by a bounded number of real tries around a base that runs. Pure: others run them.

    history = [(base, True)]
    while (sizes := next_probe(signature, history)) is not None:
        history.append((sizes, it_ran(sizes)))
    constraints = conclude(signature, history)

The questions, in order: does the next size run, and if not, which power of two is the step (multiples); do height and
width move alone (squares); how small may it be; how large (only where a table in the file says so, or a try failed).
Sizes stay near or below the base, so that a try is cheap. A try that fails says something of sizes, never of the model.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from onnxdyno.domain.axes import AxisRule, AxisSizes, Constraints, Role, axis_sizes
from onnxdyno.domain.models import Signature

MOST_TRIES = 14
"""Tries after the first that ran; what is not found by then stays unknown."""

History = Sequence[tuple[AxisSizes, bool]]
"""(sizes, whether they ran), in the order of the tries; the base is the first that ran."""

LARGEST_SEQUENCE = 512
"""The largest size of the usual sweep; beyond it nobody asks by default."""

_PATCH_PX = 14
"""The one usual step of images that is no power of two (vision transformers of patch 14)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Axes that move together. Steps are looked for up to 2^`power`, small sizes by `halvings` of the base."""

    names: tuple[str, ...]
    power: int
    halvings: int
    is_image: bool = False


_Questions = Generator[AxisSizes, bool, None]


@dataclass(slots=True, kw_only=True)
class _Found:
    """Findings so far, per axis; `only`: no other size ran."""

    multiples: dict[str, int] = field(default_factory=dict)
    least: dict[str, int] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)
    only: dict[str, tuple[int, ...]] = field(default_factory=dict)
    squares: list[tuple[str, str]] = field(default_factory=list)


def next_probe(signature: Signature, history: History) -> AxisSizes | None:
    """The next sizes worth trying; None when nothing more is to be found, or `MOST_TRIES` were made, or no base ran."""
    return _replay(signature, history)[1]


def conclude(signature: Signature, history: History) -> Constraints:
    """What the tries showed; limits that tables in the file set come with it."""
    found = _replay(signature, history)[0]
    ran = [dict(sizes) for sizes, is_fine in history if is_fine]
    limits = dict(signature.limits)
    axes = [axis.name for axis in signature.axes if axis.size is None]
    rules = tuple(
        AxisRule(
            axis=name,
            multiple=found.multiples.get(name, 1),
            least=found.least.get(name),
            most=limits.get(name, found.most.get(name)),
            only=tuple(sorted({each[name] for each in ran if name in each})) if name in found.only else (),
        )
        for name in axes
    )
    return Constraints(
        rules=tuple(rule for rule in rules if rule != AxisRule(axis=rule.axis)),
        squares=tuple(found.squares),
        tries=len(history),
    )


def _replay(signature: Signature, history: History) -> tuple[_Found, AxisSizes | None]:
    """Ask every question again, answering from the history; the first that it cannot answer is the next try."""
    found = _Found()
    base = next((sizes for sizes, is_fine in history if is_fine), None)
    if base is None:
        return found, None
    first = next(i for i, (sizes, _) in enumerate(history) if sizes == base)
    known = dict(history)
    questions = _ask(signature, dict(base), found)
    asked = next(questions, None)
    while asked is not None and asked in known:
        try:
            asked = questions.send(known[asked])
        except StopIteration:
            return found, None
    return found, asked if len(history) - first <= MOST_TRIES else None


def _ask(signature: Signature, base: dict[str, int], found: _Found) -> _Questions:
    """Every question about every free axis, most useful first; writes what it learns into `found`."""
    sides = [_free(signature, role) for role in (Role.HEIGHT, Role.WIDTH)]
    is_one_picture = all(len(names) <= 1 for names in sides)
    image = _Group(names=sum(sides, ()) if is_one_picture else (), power=6, halvings=5, is_image=True)
    steps = _Group(names=_free(signature, Role.SEQUENCE) or _free(signature, Role.TIME), power=6, halvings=3)
    batch = _Group(names=_free(signature, Role.BATCH), power=3, halvings=3)
    if image.names:
        yield from _ask_sides(image, base, found)
    for group in (steps, batch):
        if group.names:
            yield from _ask_step(group, base, found)
    for group in (image, steps, batch):
        if group.names and not found.only.keys() & set(group.names):
            yield from _ask_least(group, base, found)
    if _free(signature, Role.SEQUENCE) and not dict(signature.limits).keys() & set(steps.names):
        yield from _ask_most(steps, base, found)


def _free(signature: Signature, role: Role) -> tuple[str, ...]:
    return tuple(axis.name for axis in signature.axes_of(role) if axis.size is None)


def _moved(base: dict[str, int], names: Sequence[str], size: int) -> AxisSizes:
    """The base with the first of `names` at a size, and the others moved as far."""
    delta = size - base[names[0]]
    return axis_sizes({**base, **{name: base[name] + delta for name in names}})


def _ask_step(group: _Group, base: dict[str, int], found: _Found) -> Generator[AxisSizes, bool, int | None]:
    """The step of axes that move together: 1, a power of two found by halving, or None: just this size."""
    names, size = group.names, base[group.names[0]]
    if (yield _moved(base, names, size + 1)):
        return 1
    low, high = 0, group.power  # 2^low is no step; 2^high is one, if any power is
    if not (yield _moved(base, names, size + (1 << high))):
        return (yield from _ask_odd_step(group, base, found))
    while high - low > 1:
        middle = (low + high) // 2
        if (yield _moved(base, names, size + (1 << middle))):
            high = middle
        else:
            low = middle
    return _learn_step(group, base, found, 1 << high)


def _ask_odd_step(group: _Group, base: dict[str, int], found: _Found) -> Generator[AxisSizes, bool, int | None]:
    """Patches of 14, else multiples of the base itself, else nothing but the base."""
    size = base[group.names[0]]
    if group.is_image and (yield _moved(base, group.names, size + _PATCH_PX)):
        return _learn_step(group, base, found, _PATCH_PX)
    if group.power > 3 and (yield _moved(base, group.names, 2 * size)):
        return _learn_step(group, base, found, size)
    found.only.update((name, (base[name],)) for name in group.names)
    return None


def _learn_step(group: _Group, base: dict[str, int], found: _Found, step: int) -> int:
    found.multiples.update((name, step) for name in group.names if base[name] % step == 0)
    return step


def _ask_sides(image: _Group, base: dict[str, int], found: _Found) -> _Questions:
    """Both sides together; then, if there are two, each alone: only squares, or one that is fixed in practice."""
    step = yield from _ask_step(image, base, found)
    if len(image.names) == 1:
        return
    height, width = image.names
    if step is not None:
        if base[height] == base[width] and not (yield _moved(base, [width], base[width] + step)):
            found.squares.append((height, width))
        return
    found.only.clear()
    for side in (width, height):
        yield from _ask_step(_Group(names=(side,), power=6, halvings=5), base, found)
    if height in found.only:
        for other in (32, 64):  # rows of a text line, besides the usual 48
            yield axis_sizes({**base, height: other})


def _ask_least(group: _Group, base: dict[str, int], found: _Found) -> _Questions:
    """The smallest size: halved until it fails, then narrowed between the last that ran and the first that did not."""
    first = group.names[0]
    step, ran, failed = found.multiples.get(first, 1), base[first], 0
    for _ in range(group.halvings):
        size = max(step, ran // 2 // step * step)
        if size == ran:
            break
        if not (yield axis_sizes({**base, **dict.fromkeys(group.names, size)})):
            failed = size
            break
        ran = size
    if not failed:
        return
    found.least.update(dict.fromkeys(group.names, ran))
    while ran - failed > step:
        size = max(failed + step, (ran + failed) // 2 // step * step)
        if (yield axis_sizes({**base, **dict.fromkeys(group.names, size)})):
            ran = size
        else:
            failed = size
        found.least.update(dict.fromkeys(group.names, ran))


def _ask_most(group: _Group, base: dict[str, int], found: _Found) -> _Questions:
    """The largest size up to that of the usual sweep, narrowed as far as tries are left."""
    first = group.names[0]
    step, ran = found.multiples.get(first, 1), base[first]
    failed = LARGEST_SEQUENCE // step * step
    if first in found.only or failed <= ran or (yield _moved(base, group.names, failed)):
        return
    found.most.update(dict.fromkeys(group.names, ran))
    while failed - ran > step:
        size = max(ran + step, (ran + failed) // 2 // step * step)
        if (yield _moved(base, group.names, size)):
            ran = size
        else:
            failed = size
        found.most.update(dict.fromkeys(group.names, ran))
