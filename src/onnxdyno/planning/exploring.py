"""Which sizes are worth measuring, found by a few calls at each before anything is timed. Pure: others make the calls.

    tries: list[Explored] = []
    while (sizes := next_to_explore(question, tries)) is not None:
        tries.append(a_few_calls_at(sizes))

The batch is doubled until a size does not run, a call takes too long for the budget, or two doublings in turn gained
less throughput than the protocol asks for. Where memory ended it, the largest batch that fits is found by bisection.
With a latency target, the largest batch (and the largest of the usual resolutions or sequences) within it is closed in
on. Times of these calls choose sizes and are never published.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod

from onnxdyno.domain.axes import AxisSizes, Constraints, Role, axis_sizes
from onnxdyno.domain.models import Signature
from onnxdyno.domain.outcomes import Explored, PointState
from onnxdyno.domain.plan import BenchmarkSpec, Protocol
from onnxdyno.planning.constrained import constrained, fit
from onnxdyno.planning.sweeps import Choice, free, sweeps

LEAST_CALLS = 4
"""Calls that a launch makes at a point at least; a size that is too slow for them in all launches is not climbed to."""
SLOWEST_SHARE = 0.25
"""Share of the budget that the least calls of one point may take."""
FINEST = 16
"""A bracket narrower than a sixteenth of its lower end is close enough."""
MOST_CLOSING = 6
"""Tries to close in on one limit."""
CAUTION = 0.97
"""Share of the latency target that a few calls must stay under, so that the measured interval does too."""
MOST_BATCH = 2**16


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """Axes that grow together from the base. `rungs` are the usual sizes; a batch has none: it is doubled."""

    base: AxisSizes
    names: tuple[str, ...]
    rungs: tuple[AxisSizes, ...]
    is_batch: bool

    def extent(self, sizes: AxisSizes) -> int:
        """Product of the sizes on this ladder (of tied batch axes just one)."""
        found = [size for name, size in sizes if name in self.names]
        return found[0] if self.is_batch else prod(found)

    def holds(self, sizes: AxisSizes) -> bool:
        """Whether sizes differ from the base on this ladder only."""
        own = dict(self.base)
        return all(size == own.get(name) for name, size in sizes if name not in self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is looked for. `slowest_ns`: a call that takes longer is not worth climbing to."""

    ladders: tuple[Ladder, ...]
    constraints: Constraints
    signature: Signature
    target_ns: float | None
    slowest_ns: float
    least_gain: float


@dataclass(slots=True, kw_only=True)
class _Climb:
    """One ladder and what was tried on it: sizes that ran with their times, smallest first, and those that did not."""

    question: Question
    ladder: Ladder
    ran: list[tuple[int, int, AxisSizes]] = field(default_factory=list)
    failed: list[tuple[int, Explored]] = field(default_factory=list)


def question(
    spec: BenchmarkSpec, signature: Signature, protocol: Protocol, base: AxisSizes, constraints: Constraints
) -> Question:
    """Default sweeps around `base`; what a spec names is tried as it is named, so there is nothing to look for."""
    found = sweeps(spec, signature, dict(base))
    fitting = constrained(found, signature, constraints, dict(base))
    batch = {axis.name for axis in free(signature, Role.BATCH)}
    target_ns = None if spec.latency_target_ms is None else spec.latency_target_ms * 1e6
    ladders = []
    for sweep in fitting:
        if sweep.is_asked:
            continue
        names = tuple(sweep.choices[0])
        is_batch = set(names) <= batch
        rungs = () if is_batch else tuple(axis_sizes({**dict(base), **choice}) for choice in sweep.choices)
        if is_batch or target_ns is not None:
            ladders.append(Ladder(base=base, names=names, rungs=rungs, is_batch=is_batch))
    return Question(
        ladders=tuple(ladders),
        constraints=constraints,
        signature=signature,
        target_ns=target_ns,
        slowest_ns=SLOWEST_SHARE * spec.budget_s * 1e9 / (LEAST_CALLS * spec.launches),
        least_gain=protocol.least_gain,
    )


def next_to_explore(asked: Question, tries: Sequence[Explored]) -> AxisSizes | None:
    """The next sizes worth a few calls; None when every ladder is climbed."""
    tried = {each.sizes for each in tries}
    for ladder in asked.ladders:
        climb = _climb(asked, ladder, tries)
        for sizes in (_up(climb), _closer(climb)):
            if sizes is not None and sizes not in tried:
                return sizes
    return None


def worth_measuring(asked: Question, tries: Sequence[Explored]) -> tuple[tuple[AxisSizes, ...], ...]:
    """For each ladder the sizes to measure: the climb, what failed first, and both sides of each limit found."""
    found = []
    for ladder in asked.ladders:
        climb = _climb(asked, ladder, tries)
        kept = [sizes for _, _, sizes in climb.ran if sizes in set(_rungs(ladder, climb))]
        kept += [each.sizes for each in (_bracket(climb)) if each is not None]
        kept += [climb.failed[0][1].sizes] if climb.failed else []
        found.append(tuple(sorted(dict.fromkeys(kept), key=ladder.extent)))
    return tuple(found)


def _climb(asked: Question, ladder: Ladder, tries: Sequence[Explored]) -> _Climb:
    climb = _Climb(question=asked, ladder=ladder)
    for each in tries:
        if not ladder.holds(each.sizes):
            continue
        if each.call_ns is None:
            climb.failed.append((ladder.extent(each.sizes), each))
        else:
            climb.ran.append((ladder.extent(each.sizes), each.call_ns, each.sizes))
    climb.ran.sort()
    climb.failed.sort(key=lambda pair: pair[0])
    return climb


def _up(climb: _Climb) -> AxisSizes | None:
    """The next size up; None where there is none, or it is not worth it."""
    ladder, asked = climb.ladder, climb.question
    if climb.failed or (climb.ran and _is_over_target(climb, climb.ran[-1][1])):
        return None
    upward = _rungs(ladder, climb)
    done = {sizes for _, _, sizes in climb.ran}
    following = next((sizes for sizes in upward if sizes not in done), None)
    if following is None or not climb.ran:
        return following
    extent, call_ns, _ = climb.ran[-1]
    if call_ns * ladder.extent(following) / extent > asked.slowest_ns or (ladder.is_batch and _has_no_more_gain(climb)):
        return None
    return following


def _rungs(ladder: Ladder, climb: _Climb) -> tuple[AxisSizes, ...]:
    return tuple(_doublings(ladder, climb)) if ladder.is_batch else ladder.rungs


def _doublings(ladder: Ladder, climb: _Climb) -> Iterator[AxisSizes]:
    """The base, then twice as many each, as far as the sizes that are allowed reach."""
    sizes, count = ladder.base, ladder.extent(ladder.base)
    yield sizes
    while (larger := _at(climb, dict.fromkeys(ladder.names, 2 * count))) is not None:
        if ladder.extent(larger) <= count or ladder.extent(larger) > MOST_BATCH:
            return
        sizes, count = larger, ladder.extent(larger)
        yield sizes


def _has_no_more_gain(climb: _Climb) -> bool:
    """Whether the last two doublings each gained less throughput than is worth a larger batch."""
    doubled = set(_rungs_up_to(climb))
    steps = [(extent / call_ns) for extent, call_ns, sizes in climb.ran if sizes in doubled and call_ns > 0]
    gains = [after / before - 1 for before, after in pairwise(steps)]
    return len(gains) >= 2 and max(gains[-2:]) < climb.question.least_gain


def _rungs_up_to(climb: _Climb) -> Iterator[AxisSizes]:
    most = climb.ran[-1][0]
    for sizes in _rungs(climb.ladder, climb):
        if climb.ladder.extent(sizes) > most:
            return
        yield sizes


def _is_over_target(climb: _Climb, call_ns: int) -> bool:
    target_ns = climb.question.target_ns
    return target_ns is not None and call_ns > CAUTION * target_ns


def _bracket(climb: _Climb) -> tuple[Explored | None, Explored | None]:
    """The largest size within the limit and the smallest beyond it; (None, None) where no limit was met."""
    within = [pair for pair in climb.ran if not _is_over_target(climb, pair[1])]
    beyond = [Explored(sizes=each[2], call_ns=each[1]) for each in climb.ran if _is_over_target(climb, each[1])]
    beyond += [each for _, each in climb.failed if each.state is PointState.OOM]
    if not within or (not beyond and climb.question.target_ns is None):
        return None, None
    low = Explored(sizes=within[-1][2], call_ns=within[-1][1])
    return low, min(beyond, key=lambda each: climb.ladder.extent(each.sizes), default=None)


def _closer(climb: _Climb) -> AxisSizes | None:
    """A size between both sides of a limit, or beyond the climb where the target is still far."""
    low, high = _bracket(climb)
    if low is None or low.call_ns is None or _closing_tries(climb) >= MOST_CLOSING:
        return None
    if high is None:
        return _farther(climb, low)
    ladder = climb.ladder
    small, large = ladder.extent(low.sizes), ladder.extent(high.sizes)
    if ladder.is_batch and large - small <= max(1, small // FINEST):
        return None
    for share in (_share(climb.question.target_ns, low.call_ns, high.call_ns), 0.5):
        found = _between(climb, low.sizes, high.sizes, share)
        if found is not None and small < ladder.extent(found) < large:
            return found
    return None


def _between(climb: _Climb, low: AxisSizes, high: AxisSizes, share: float) -> AxisSizes | None:
    upper = dict(high)
    names = climb.ladder.names
    return _at(climb, {name: round(size + share * (upper[name] - size)) for name, size in low if name in names})


def _farther(climb: _Climb, low: Explored) -> AxisSizes | None:
    """Where throughput stopped growing below the target: the batch that the target has time for, by proportion."""
    target_ns = climb.question.target_ns
    if not climb.ladder.is_batch or target_ns is None or low.call_ns is None or climb.failed:
        return None
    small = climb.ladder.extent(low.sizes)
    most_ns = min(CAUTION * target_ns, climb.question.slowest_ns)
    wanted = min(MOST_BATCH, int(small * most_ns / max(1, low.call_ns)))
    found = _at(climb, dict.fromkeys(climb.ladder.names, wanted))
    if found is None or climb.ladder.extent(found) - small <= small // FINEST:
        return None
    return found


def _closing_tries(climb: _Climb) -> int:
    """Tries that were no rungs."""
    rungs = set(_rungs_up_to(climb)) if climb.ran else set()
    return sum(sizes not in rungs for _, _, sizes in climb.ran) + max(0, len(climb.failed) - 1)


def _share(target_ns: float | None, low_ns: int, high_ns: int | None) -> float:
    """How far up the bracket to try next: where a straight line meets the target, but not at an end; else half way."""
    if target_ns is None or high_ns is None or high_ns <= low_ns:
        return 0.5
    return min(0.9, max(0.1, (CAUTION * target_ns - low_ns) / (high_ns - low_ns)))


def _at(climb: _Climb, wanted: Choice) -> AxisSizes | None:
    """The nearest allowed sizes on the ladder; None if there are none."""
    moved: Mapping[str, int] | None = fit(wanted, climb.question.signature, climb.question.constraints)
    return None if moved is None else axis_sizes({**dict(climb.ladder.base), **moved})
