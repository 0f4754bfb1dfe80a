"""One run from the probe to the profile. Every finished piece is kept at once; what is already kept is reused."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from onnxdyno.domain.assignments import Assignment, Pass, Ran, Turn
from onnxdyno.domain.models import Signature
from onnxdyno.domain.outcomes import (
    LaunchReading,
    Measured,
    MemoryReading,
    Outcome,
    PointState,
    Probe,
    Profile,
    Skipped,
)
from onnxdyno.domain.plan import BenchmarkPlan, Point
from onnxdyno.domain.runs import BenchmarkRun, Origin, Progress
from onnxdyno.launching import budget
from onnxdyno.launching.driving import Answer, Limits, drive
from onnxdyno.launching.pieces import AtPoint, Pieces
from onnxdyno.launching.probing import History, find_base
from onnxdyno.planning import has_default_sweeps, rebase
from onnxdyno.ports import ClockNs, Launcher, Ledger

SEARCH_SHARE = 0.05
"""Share of the budget in which sizes beside the base are looked for."""
START_S = 30.0
"""What a process may take before its model loads: imports on a cold disk."""
USUAL_LOAD_NS = 1_000_000_000
"""Until a session stands in a new process, where this run has not seen it yet."""
PROFILE_RESERVE_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What a run needs of the world."""

    launcher: Launcher
    ledger: Ledger
    clock: ClockNs
    tell: Callable[[Progress], None]
    memory_limit_bytes: Callable[[], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What is to be run."""

    origin: Origin
    signature: Signature
    plan: BenchmarkPlan


def carry_out(bench: Bench, outside: Outside) -> BenchmarkRun:
    """Probe, memory, timing, profile. Raises `ModelError`, `InfrastructureError`; an interrupt loses no kept piece."""
    return _Campaign(bench=bench, outside=outside).carry_out()


@dataclass(slots=True, kw_only=True)
class _Campaign:
    """State of one run: what is kept, what was seen, when it must end."""

    bench: Bench
    outside: Outside
    plan: BenchmarkPlan = field(init=False)
    pieces: Pieces = field(init=False)
    calls_ns: dict[Point, int] = field(default_factory=dict)
    load_ns: int = USUAL_LOAD_NS
    deadline_ns: int = 0
    done: int = 0
    total: int = 1

    def __post_init__(self) -> None:
        self.plan = self.bench.plan
        self.pieces = Pieces.of(self.plan, self.outside.ledger)
        self.deadline_ns = self.outside.clock() + round(self.plan.spec.budget_s * 1e9)

    def carry_out(self) -> BenchmarkRun:
        probe = self._probe()
        if probe.point is None:
            return self._finish(probe, outcomes=(*probe.tried, *self._excluded()))
        self.plan = rebase(self.plan, self.bench.signature, probe.point, probe.constraints)
        launches = self.plan.spec.launches
        self.total = 2 + len(self.plan.points) * (launches + self.plan.spec.memory)
        memory, failed = self._memory() if self.plan.spec.memory else ((), ())
        timed = [point for point in self.plan.points if point not in {skip.point for skip in failed}]
        fitting, unaffordable = self._fitting(timed)
        readings: list[LaunchReading] = []
        outcomes: list[Outcome] = [*self._excluded(), *failed, *unaffordable]
        for launch in range(1, launches + 1):
            reading, measured = self._launch(launch, fitting)
            readings.extend(reading)
            outcomes.extend(measured)
        profiles = self._profile() if self.plan.spec.profile and self.plan.base in fitting else ()
        return self._finish(probe, tuple(outcomes), tuple(readings), memory, profiles)

    def _finish(
        self,
        probe: Probe,
        outcomes: tuple[Outcome, ...],
        launches: tuple[LaunchReading, ...] = (),
        memory: tuple[MemoryReading, ...] = (),
        profiles: tuple[Profile, ...] = (),
    ) -> BenchmarkRun:
        self._tell("measured", step=self.total - self.done)
        return BenchmarkRun(
            origin=self.bench.origin,
            signature=self.bench.signature,
            plan=self.plan,
            probe=probe,
            launches=launches,
            outcomes=outcomes,
            memory=memory,
            profiles=profiles,
        )

    def _excluded(self) -> tuple[Skipped, ...]:
        return tuple(
            Skipped(point=each.point, launch=None, state=PointState.NOT_APPLICABLE, reason=each.reason)
            for each in self.plan.excluded
        )

    def _probe(self) -> Probe:
        """The first candidate that runs; also the first idea of what a call and a session cost."""
        self._tell("looking for sizes that run", step=0)
        kept = self.pieces.probe()
        if kept is not None:
            self._tell("sizes known from before", step=1)
            return kept
        found = find_base(self._probed, self.bench.signature, is_searching=self._is_searching, clock=self.outside.clock)
        self.load_ns = found.load_ns or self.load_ns
        self.pieces.keep_probe(found.probe)
        self._tell("sizes found", step=1)
        return found.probe

    @property
    def _is_searching(self) -> bool:
        """Whether it matters what other sizes run: only default sweeps are moved to them."""
        return has_default_sweeps(self.plan, self.bench.signature)

    def _probed(self, history: History) -> Iterator[Answer]:
        """Answers of one probing process; what a call takes counts at once, for how long the next may be silent."""
        search_ns = round(self.plan.spec.budget_s * 1e9 * SEARCH_SHARE)
        turns = tuple(Turn(point=point, budget_ns=search_ns) for point in self.plan.base_candidates)
        for answer in self._answers(Pass.PROBE, turns, 0, history=history):
            if isinstance(answer, Ran):
                self.calls_ns[answer.point] = answer.run_ns
            yield answer

    def _memory(self) -> tuple[tuple[MemoryReading, ...], tuple[Skipped, ...]]:
        """Each point in its own process, cheapest first. A point that cannot run is not tried again on the clock."""
        readings: list[MemoryReading] = []
        failed: list[Skipped] = []
        no_time_at_ns = self.deadline_ns - round(self.plan.spec.budget_s * 1e9 * (1 - budget.MEMORY_SHARE))
        for point in self.plan.points:
            self._tell(f"memory {point.key}", step=0)
            is_known = self.pieces.at(Pass.MEMORY, 0, point) is not None
            hopeless = None if is_known else self._hopeless(point, failed)
            if hopeless is not None:
                failed.append(hopeless)
            elif readings and not is_known and self.outside.clock() >= no_time_at_ns:
                readings.append(_no_time(point, self.plan.spec.budget_s))
            else:
                self._read_memory(point, readings, failed)
            self._tell(f"memory {point.key}", step=1)
        return tuple(readings), tuple(failed)

    def _read_memory(self, point: Point, readings: list[MemoryReading], failed: list[Skipped]) -> None:
        for answer in self._answered(Pass.MEMORY, (Turn(point=point, budget_ns=0),), 0):
            if isinstance(answer, MemoryReading):
                readings.append(answer)
                if answer.run_ns is not None:
                    self.calls_ns[point] = answer.run_ns
            elif isinstance(answer, Skipped):
                failed.append(answer)

    def _hopeless(self, point: Point, failed: Sequence[Skipped]) -> Skipped | None:
        """Why a point is not even tried: a smaller one ran out of memory, or its least need exceeds the time left."""
        for skip in failed:
            if skip.state is PointState.OOM and _is_smaller(skip.point, point):
                reason = f"not tried: {skip.point.key} already ran out of memory."
                return Skipped(point=point, launch=None, state=PointState.OOM, reason=reason, remedy=skip.remedy)
        call_ns = budget.predict_ns(point, self.calls_ns)
        if call_ns is None or point == self.plan.base:  # the base is measured however little time there is
            return None
        others = (other for other in self.plan.points if other != point)
        others_ns = [self.calls_ns[other] for other in others if other in self.calls_ns]
        if budget.has_room(call_ns, others_ns, self.plan.spec.launches, self._left_ns()):
            return None
        return self._too_slow(point, call_ns)

    def _too_slow(self, point: Point, call_ns: int) -> Skipped:
        reason = (
            f"not tried: one call is expected to take {call_ns / 1e9:.2g} s, too long for "
            f"{self.plan.spec.launches} launches beside the other points in a budget of {self.plan.spec.budget_s:g} s."
        )
        remedy = "Raise --budget, or ask for fewer points."
        return Skipped(point=point, launch=None, state=PointState.TIMEOUT, reason=reason, remedy=remedy)

    def _fitting(self, points: Sequence[Point]) -> tuple[tuple[Point, ...], tuple[Skipped, ...]]:
        calls_ns = {point: budget.predict_ns(point, self.calls_ns) or 1 for point in points}
        self.calls_ns.update(calls_ns)
        first = [point for point in points if point == self.plan.base]
        kept = budget.affordable((*first, *points), calls_ns, self.plan.spec.launches, self._left_ns())
        left_out = tuple(self._too_slow(point, calls_ns[point]) for point in points if point not in kept)
        self.total -= len(left_out) * self.plan.spec.launches
        return tuple(point for point in points if point in kept), left_out

    def _launch(self, launch: int, points: Sequence[Point]) -> tuple[list[LaunchReading], list[Measured | Skipped]]:
        """One fresh process over all points in an order of its own."""
        launches_left = self.plan.spec.launches - launch + 1
        reserve_ns = PROFILE_RESERVE_NS + self.load_ns if self.plan.spec.profile else 0
        left_ns = (self._left_ns() - reserve_ns) // launches_left - self.load_ns
        budgets_ns = budget.share_out(points, self.calls_ns, left_ns, self.plan.base)
        turns = [Turn(point=point, budget_ns=budgets_ns[point]) for point in points]
        random.Random(f"{self.plan.spec.seed}/{launch}").shuffle(turns)  # noqa: S311  an order, not a secret
        readings: list[LaunchReading] = []
        outcomes: list[Measured | Skipped] = []
        for answer in self._answered(Pass.TIMING, tuple(turns), launch):
            match answer:
                case LaunchReading():
                    readings.append(answer)
                case Measured() | Skipped():
                    outcomes.append(answer)
                    self._tell(f"launch {launch}/{self.plan.spec.launches}  {answer.point.key}", step=1)
                case _:
                    pass
        return readings[:1], outcomes

    def _profile(self) -> tuple[Profile, ...]:
        self._tell("profile", step=0)
        turn = Turn(point=self.plan.base, budget_ns=0)
        answers = list(self._answered(Pass.PROFILE, (turn,), 0))
        self._tell("profile", step=1)
        return tuple(answer for answer in answers if isinstance(answer, Profile))

    def _answered(self, passed: Pass, turns: tuple[Turn, ...], launch: int) -> Iterator[LaunchReading | AtPoint]:
        """Answers for each turn: those kept from before, then a process for the rest, each kept as it comes."""
        left = []
        for turn in turns:
            kept = self.pieces.at(passed, launch, turn.point)
            if kept is None:
                left.append(turn)
            else:
                yield kept
        cold = self.pieces.launch(launch) if passed is Pass.TIMING else None
        if cold is not None:
            yield cold
        for answer in self._answers(passed, tuple(left), launch) if left else ():
            match answer:
                case LaunchReading():
                    if passed is Pass.TIMING:
                        yield self.pieces.keep_launch(answer)
                case Measured() | Skipped() | MemoryReading() | Profile():
                    yield self.pieces.keep(passed, launch, answer)
                case _:
                    pass

    def _answers(self, passed: Pass, turns: tuple[Turn, ...], launch: int, history: History = ()) -> Iterator[Answer]:
        plan = self.plan
        assignment = Assignment(
            kind=passed,
            launch=launch,
            launches=plan.spec.launches,
            model_path=str(plan.model.path),
            device=plan.device,
            threads=plan.threads,
            recipes=plan.recipes,
            turns=turns,
            seed=plan.spec.seed,
            protocol=plan.protocol,
            memory_limit_bytes=self.outside.memory_limit_bytes(),
            cpu_limit_s=self._cpu_limit_s(),
            signature=self.bench.signature if passed is Pass.PROBE and self._is_searching else None,
            history=history,
        )
        limits = Limits(load_s=self._load_s(), turn_s=lambda turn: self._turn_s(passed, turn))
        return drive(self.outside.launcher, assignment, limits)

    def _load_s(self) -> float:
        """Until a session stands: a minute, and a second for every 10 MB of the model."""
        return START_S + 60 + self.plan.model.ref.size_bytes / 1e7

    def _cpu_limit_s(self) -> int:
        """CPU time of one process: all it could use in the whole budget and its loading, and as much again."""
        return round(2 * self.plan.threads * (self._load_s() + self.plan.spec.budget_s)) + 60

    def _turn_s(self, passed: Pass, turn: Turn) -> float:
        """How long a turn may be silent. A call that takes a quarter of the budget can never be measured within it."""
        call_s = self.calls_ns.get(turn.point, 0) / 1e9
        hang_s = max(5.0, self.plan.spec.budget_s / 4)
        load_s = 0.0 if passed in (Pass.PROBE, Pass.TIMING) else START_S + 3 * self.load_ns / 1e9
        return load_s + hang_s + 2 * turn.budget_ns / 1e9 + 10 * call_s

    def _left_ns(self) -> int:
        return max(0, self.deadline_ns - self.outside.clock())

    def _tell(self, text: str, *, step: int) -> None:
        self.done += step
        self.outside.tell(Progress(done=self.done, total=self.total, text=text))


def _no_time(point: Point, budget_s: float) -> MemoryReading:
    reason = f"the budget of {budget_s:g} s left no time to read memory here; raise --budget."
    return MemoryReading(point=point, baseline_bytes=None, peak_bytes=None, run_ns=None, reason=reason)


def _is_smaller(one: Point, other: Point) -> bool:
    """Whether `one` is no larger than `other` in any axis."""
    sizes = dict(other.sizes)
    return one.variant is other.variant and all(size <= sizes.get(name, 0) for name, size in one.sizes)
