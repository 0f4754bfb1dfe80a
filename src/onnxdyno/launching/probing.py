"""The base that runs and what other sizes do, over as many processes as it takes: a try may end its process."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from onnxdyno.domain.assignments import Ran, Searched, Settled, Tried
from onnxdyno.domain.axes import AxisSizes, Constraints
from onnxdyno.domain.models import Signature
from onnxdyno.domain.outcomes import Explored, LaunchReading, PointState, Probe, Skipped
from onnxdyno.domain.plan import BenchmarkPlan
from onnxdyno.graphs.constraints import conclude, next_probe
from onnxdyno.launching.driving import Answer
from onnxdyno.planning.exploring import next_to_explore, question
from onnxdyno.ports import ClockNs

MOST_PROCESSES = 3
"""Processes in which sizes are looked for: a try that ends its process is not made again."""

History = tuple[tuple[AxisSizes, bool], ...]
"""(sizes, whether they ran), in the order of the tries."""

Ask = Callable[[History, tuple[Explored, ...]], Iterator[Answer]]
"""Answers of one probing process that is told what was found before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What probing came to, and until when a session stood in a fresh process (None: in none)."""

    probe: Probe
    load_ns: int | None


@dataclass(slots=True, kw_only=True)
class _Search:
    """What the processes said so far."""

    plan: BenchmarkPlan
    signature: Signature
    tried: list[Skipped] = field(default_factory=list)
    ran: Ran | None = None
    history: list[tuple[AxisSizes, bool]] = field(default_factory=list)
    explored: list[Explored] = field(default_factory=list)
    is_searched: bool = False
    is_settled: bool = False

    def hear(self, answer: Answer) -> None:
        match answer:
            case Ran():
                self.ran = answer
                self.history.append((answer.point.sizes, True))
            case Skipped():
                self.tried.append(answer)
                self.history.append((answer.point.sizes, False))
            case Tried():
                self.history.append((answer.sizes, answer.is_fine))
            case Searched():
                self.is_searched = True
            case Explored():
                self.explored.append(answer)
            case Settled():
                self.is_settled = True
            case _:
                pass

    def blame(self) -> bool:
        """The process ended early: the sizes it was at do not run. Whether another process has anything to look for."""
        if self.ran is None or self.is_settled:
            return False
        if not self.is_searched:
            fatal = next_probe(self.signature, self.history)
            self.is_searched = fatal is None
            if fatal is not None:
                self.history.append((fatal, False))
                return True
        asked = question(self.plan.spec, self.signature, self.plan.protocol, self.ran.point.sizes, self.constraints)
        sizes = next_to_explore(asked, self.explored)
        if sizes is not None:
            reason = "the measuring process ended there."
            self.explored.append(Explored(sizes=sizes, call_ns=None, state=PointState.CRASHED, reason=reason))
        return sizes is not None

    @property
    def constraints(self) -> Constraints:
        return conclude(self.signature, self.history) if self.ran else Constraints()


def find_base(ask: Ask, plan: BenchmarkPlan, signature: Signature, *, is_searching: bool, clock: ClockNs) -> Found:
    """The first candidate that runs and, if `is_searching`, what is then found of other sizes."""
    search = _Search(plan=plan, signature=signature)
    load_ns: int | None = None
    for _ in range(MOST_PROCESSES):
        began_ns = clock()
        for answer in ask(tuple(search.history), tuple(search.explored)):
            search.hear(answer)
            if isinstance(answer, LaunchReading):
                load_ns = clock() - began_ns
        if not is_searching or not search.blame():
            break
    probe = Probe(
        point=search.ran.point if search.ran else None,
        tried=tuple(search.tried),
        outputs=search.ran.outputs if search.ran else (),
        constraints=search.constraints,
        explored=tuple(search.explored),
    )
    return Found(probe=probe, load_ns=load_ns)
