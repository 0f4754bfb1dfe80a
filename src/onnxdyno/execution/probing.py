"""The first sizes that run, and what other sizes do."""

from onnxdyno.domain.assignments import Assignment, Began, Ran, Searched, Tried, Turn
from onnxdyno.domain.axes import AxisSizes
from onnxdyno.domain.errors import PointError
from onnxdyno.execution.feeds import make_feeds
from onnxdyno.execution.outputs import describe_outputs
from onnxdyno.execution.workshop import Workshop, attempt, load
from onnxdyno.graphs.constraints import next_probe
from onnxdyno.ports import LoadedModel


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
