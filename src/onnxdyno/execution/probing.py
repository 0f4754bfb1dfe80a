"""The first sizes that run, what other sizes do, and which of them are worth measuring."""

from onnxdyno.domain.assignments import Assignment, Began, Ran, Searched, Settled, Tried, Turn
from onnxdyno.domain.axes import AxisSizes
from onnxdyno.domain.errors import PointError
from onnxdyno.domain.outcomes import Explored
from onnxdyno.execution.feeds import make_feeds
from onnxdyno.execution.outputs import describe_outputs
from onnxdyno.execution.workshop import Workshop, attempt, load
from onnxdyno.graphs.constraints import conclude, next_probe
from onnxdyno.planning.exploring import next_to_explore, question
from onnxdyno.ports import LoadedModel

EXPLORING_CALLS = 8
EXPLORING_NS = 80_000_000
"""Calls at each explored size end after so many, or so much time; at least one."""


def probe(assignment: Assignment, shop: Workshop) -> None:
    """Try the candidates in order until one runs, twice: the second run's time is a first idea of the cost."""
    loaded = load(assignment, shop)
    history = list(assignment.history)

    def read(turn: Turn) -> Ran:
        call = loaded.bind(make_feeds(assignment, turn.point.sizes, 0), turn.point.variant)
        began_ns = shop.clock()
        call()
        return Ran(point=turn.point, run_ns=shop.clock() - began_ns, outputs=describe_outputs(call.outputs()))

    if not any(is_fine for _, is_fine in history):
        for at, turn in enumerate(assignment.turns):
            history.append((turn.point.sizes, attempt(assignment, at, shop, read)))
            if history[-1][1]:
                break
    _search(assignment, shop, loaded, history)
    _explore(assignment, shop, loaded, history)


def _search(assignment: Assignment, shop: Workshop, loaded: LoadedModel, history: list[tuple[AxisSizes, bool]]) -> None:
    """Which sizes beside the base run: a bounded number of calls, within the time of the first turn."""
    if assignment.signature is None:
        return
    turn = assignment.turns[0]
    deadline_ns = shop.clock() + turn.budget_ns
    while shop.clock() < deadline_ns and (sizes := next_probe(assignment.signature, history)) is not None:
        shop.emit(Began(turn=0))
        try:
            loaded.bind(make_feeds(assignment, sizes, 0), turn.point.variant)()
            is_fine = True
        except (PointError, MemoryError):
            is_fine = False
        history.append((sizes, is_fine))
        shop.emit(Tried(sizes=sizes, is_fine=is_fine))
    shop.emit(Searched())


def _explore(
    assignment: Assignment, shop: Workshop, loaded: LoadedModel, history: list[tuple[AxisSizes, bool]]
) -> None:
    """A few calls at each size that may be worth measuring, within the time for that."""
    base = next((sizes for sizes, is_fine in history if is_fine), None)
    if assignment.spec is None or assignment.signature is None or base is None:
        return
    constraints = conclude(assignment.signature, history)
    asked = question(assignment.spec, assignment.signature, assignment.protocol, base, constraints)
    tries = list(assignment.explored)
    deadline_ns = shop.clock() + assignment.explore_ns
    while shop.clock() < deadline_ns and (sizes := next_to_explore(asked, tries)) is not None:
        shop.emit(Began(turn=0))
        tries.append(_tried(assignment, shop, loaded, sizes))
        shop.emit(tries[-1])
    shop.emit(Settled())


def _tried(assignment: Assignment, shop: Workshop, loaded: LoadedModel, sizes: AxisSizes) -> Explored:
    """The shortest of a few calls: what else the machine did can only make one longer."""
    times_ns: list[int] = []
    try:
        call = loaded.bind(make_feeds(assignment, sizes, 0), assignment.turns[0].point.variant)
        while not times_ns or (len(times_ns) < EXPLORING_CALLS and sum(times_ns) < EXPLORING_NS):
            began_ns = shop.clock()
            call()
            times_ns.append(max(1, shop.clock() - began_ns))
    except (PointError, MemoryError) as error:
        problem = error if isinstance(error, PointError) else shop.runtime.translate(error)
        return Explored(sizes=sizes, call_ns=None, state=problem.state, reason=problem.reason)
    return Explored(sizes=sizes, call_ns=min(times_ns))
