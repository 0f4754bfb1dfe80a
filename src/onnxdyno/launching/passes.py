"""The passes of one run, each in measuring processes of its own: what is asked of them, what is kept of the answers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from onnxdyno.domain.assignments import Assignment, Pass, Turn
from onnxdyno.domain.cold import ColdReading
from onnxdyno.domain.cost import Count
from onnxdyno.domain.devices import Device, DeviceKind
from onnxdyno.domain.models import Signature
from onnxdyno.domain.outcomes import ArenaReading, LaunchReading, Measured, MemoryReading, Profile, Skipped
from onnxdyno.domain.plan import BenchmarkPlan, Point
from onnxdyno.domain.runs import Origin, Progress
from onnxdyno.domain.sessions import AS_USERS_GET_IT, SessionRecipe
from onnxdyno.launching.driving import Answer, Limits, drive
from onnxdyno.launching.pieces import AtPoint, Pieces
from onnxdyno.launching.telemetry import NoSampler, watched
from onnxdyno.planning import session_of
from onnxdyno.ports import ClockNs, Launcher, Ledger, MemoryBounds, Sampler

START_S = 30.0
"""What a process may take before its model loads: imports on a cold disk."""
USUAL_LOAD_NS = 1_000_000_000
"""Until a session stands in a new process, where this run has not seen it yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What a run needs of the world."""

    launcher: Launcher
    ledger: Ledger
    clock: ClockNs
    tell: Callable[[Progress], None]
    memory_limit_bytes: Callable[[], int | None]
    sampler: Sampler = field(default_factory=NoSampler)
    device_used_bytes: Callable[[Device], Count] = lambda _: Count(value=None, reason="not asked of the driver")
    """What is in use on a GPU now, by every process, told without a context of our own."""
    bounds: MemoryBounds | None = None
    """Holds a process to an amount of memory; None = nobody can."""
    rest: Callable[[float], None] = lambda _: None
    """Lets other runs have the device for so many seconds, then takes it again. Raises `DeviceBusy`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What is to be run."""

    origin: Origin
    signature: Signature
    plan: BenchmarkPlan


@dataclass(slots=True, kw_only=True)
class Passes:
    """State of one run: its plan, what is kept, what a call and a session were seen to cost, when it must end."""

    bench: Bench
    outside: Outside
    plan: BenchmarkPlan = field(init=False)
    pieces: Pieces = field(init=False)
    calls_ns: dict[Point, int] = field(default_factory=dict)
    load_ns: int = USUAL_LOAD_NS
    deadline_ns: int = 0
    begun: tuple[int, int] | None = None
    """Number and start of the latest launch that had a process."""
    timed_from_ns: int | None = None
    """Start of the first launch that had a process."""
    has_kept_launches: bool = False
    """Whether some of the timing is of an earlier attempt."""
    done: int = 0
    total: int = 1

    def __post_init__(self) -> None:
        self.plan = self.bench.plan
        self.pieces = Pieces.of(self.plan, self.outside.ledger)
        self.deadline_ns = self.outside.clock() + round(self.plan.spec.budget_s * 1e9)

    def answered(
        self,
        passed: Pass,
        turns: tuple[Turn, ...],
        launch: int,
        *,
        threads: int | None = None,
        recipe: SessionRecipe = AS_USERS_GET_IT,
    ) -> Iterator[LaunchReading | AtPoint]:
        """Answers for each turn: those kept from before, then a process for the rest, each kept as it comes."""
        left = []
        for turn in turns:
            kept = self.pieces.at(passed, launch, turn.point, recipe)
            if kept is None:
                left.append(turn)
            else:
                self.has_kept_launches |= passed is Pass.TIMING
                yield kept
        if left and passed is Pass.TIMING:
            self._keep_apart(launch)
        is_launch = passed is Pass.TIMING and threads is None
        cold = self.pieces.launch(launch) if is_launch else None
        if cold is not None:
            yield cold
        asked = replace(
            self.assignment(passed, tuple(left), launch),
            threads=threads or self.plan.threads,
            recipe=session_of(self.plan.spec, recipe),
            files=self._files() if is_launch else (),
        )
        for answer in self.answers(asked) if left else ():
            match answer:
                case LaunchReading():
                    if is_launch:
                        yield self.pieces.keep_launch(answer)
                case Measured() | Skipped() | MemoryReading() | Profile() | ColdReading() | ArenaReading():
                    yield self.pieces.keep(passed, launch, answer, recipe)
                case _:
                    pass

    def answers(self, asked: Assignment) -> Iterator[Answer]:
        """Answers to an assignment, as they come; nothing is kept."""
        limits = Limits(load_s=self._load_s(), turn_s=lambda turn: self._turn_s(asked.kind, turn))
        answers = partial(drive, self.outside.launcher, asked, limits)
        return watched(answers, asked, self.outside.sampler)

    def assignment(self, passed: Pass, turns: tuple[Turn, ...], launch: int) -> Assignment:
        """What a process of this pass is asked, with the plan's threads."""
        plan = self.plan
        is_gpu_memory = passed is Pass.MEMORY and plan.device.kind is DeviceKind.CUDA
        return Assignment(
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
            cpu_limit_s=self._cpu_limit_s(turns),
            recipe=session_of(plan.spec),
            device_before=self.outside.device_used_bytes(plan.device) if is_gpu_memory else None,
        )

    def left_ns(self) -> int:
        """What is left of the budget."""
        return max(0, self.deadline_ns - self.outside.clock())

    def tell(self, text: str, *, step: int) -> None:
        """Progress: `step` more of the steps are done."""
        self.done += step
        self.outside.tell(Progress(done=self.done, total=max(self.total, self.done), text=text))

    def _keep_apart(self, launch: int) -> None:
        """Rest until this launch is as far from the one before as the spec says; what that takes is no budget."""
        now_ns = self.outside.clock()
        if self.begun is not None and self.begun[0] == launch:
            return
        if self.begun is not None:
            rest_s = self.plan.spec.spacing_s - (now_ns - self.begun[1]) / 1e9
            if rest_s > 0:
                self.tell(f"resting {rest_s:.0f} s before launch {launch}; the device is free meanwhile", step=0)
                self.outside.rest(rest_s)
                rested_ns = self.outside.clock()
                self.deadline_ns += rested_ns - now_ns
                now_ns = rested_ns
        self.begun = (launch, now_ns)
        if self.timed_from_ns is None:
            self.timed_from_ns = now_ns

    def launches_span_s(self) -> float | None:
        """Since the first launch began; None if there was none, or some of the timing is of an earlier attempt."""
        if self.timed_from_ns is None or self.has_kept_launches:
            return None
        return (self.outside.clock() - self.timed_from_ns) / 1e9

    def _files(self) -> tuple[str, ...]:
        path = self.plan.model.path
        return (str(path), *(str(path.parent / name) for name in self.bench.signature.external_files))

    def _load_s(self) -> float:
        """Until a session stands: a minute, and a second for every 10 MB of the model."""
        return START_S + 60 + self.plan.model.ref.size_bytes / 1e7

    def _cpu_limit_s(self, turns: tuple[Turn, ...]) -> int:
        """CPU time of one process: all it could use in the whole budget and its loading, and as much again."""
        at_once = max((each.point.concurrency * (each.point.threads or 1) for each in turns), default=1)
        return round(2 * max(self.plan.threads, at_once) * (self._load_s() + self.plan.spec.budget_s)) + 60

    def _turn_s(self, passed: Pass, turn: Turn) -> float:
        """How long a turn may be silent. A call that takes a quarter of the budget can never be measured within it."""
        call_s = self.calls_ns.get(turn.point, 0) / 1e9
        hang_s = max(5.0, self.plan.spec.budget_s / 4)
        load_s = 0.0 if passed in (Pass.PROBE, Pass.TIMING) else START_S + 3 * self.load_ns / 1e9
        return load_s + hang_s + 2 * turn.budget_ns / 1e9 + 10 * call_s
