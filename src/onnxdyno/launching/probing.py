"""The base that runs and what other sizes run, over as many processes as it takes: a try may end its process."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from onnxdyno.domain.assignments import Ran, Searched, Tried
from onnxdyno.domain.axes import AxisSizes, Constraints
from onnxdyno.domain.models import Signature
from onnxdyno.domain.outcomes import LaunchReading, Probe, Skipped
from onnxdyno.graphs.constraints import conclude, next_probe
from onnxdyno.launching.driving import Answer
from onnxdyno.ports import ClockNs

MOST_PROCESSES = 3
"""Processes in which sizes are looked for: a try that ends its process is not made again."""

History = tuple[tuple[AxisSizes, bool], ...]
"""(sizes, whether they ran), in the order of the tries."""

Ask = Callable[[History], Iterator[Answer]]
"""Answers of one probing process that is told what was found before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What probing came to, and until when a session stood in a fresh process (None: in none)."""

    probe: Probe
    load_ns: int | None


def find_base(ask: Ask, signature: Signature, *, is_searching: bool, clock: ClockNs) -> Found:
    """The first candidate that runs and, if `is_searching`, what is then found of other sizes."""
    tried: list[Skipped] = []
    ran: Ran | None = None
    load_ns: int | None = None
    history: list[tuple[AxisSizes, bool]] = []
    for _ in range(MOST_PROCESSES):
        is_over = False
        began_ns = clock()
        for answer in ask(tuple(history)):
            match answer:
                case Ran():
                    ran = answer
                    history.append((answer.point.sizes, True))
                case Skipped():
                    tried.append(answer)
                    history.append((answer.point.sizes, False))
                case Tried():
                    history.append((answer.sizes, answer.is_fine))
                case LaunchReading():
                    load_ns = clock() - began_ns
                case Searched():
                    is_over = True
                case _:
                    pass
        fatal = None if is_over or ran is None else next_probe(signature, history)
        if fatal is None or not is_searching:
            break
        history.append((fatal, False))
    probe = Probe(
        point=ran.point if ran else None,
        tried=tuple(tried),
        outputs=ran.outputs if ran else (),
        constraints=conclude(signature, history) if ran else Constraints(),
    )
    return Found(probe=probe, load_ns=load_ns)
