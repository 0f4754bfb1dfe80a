"""One launch: a session, then its turns on the clock."""

from onnxdyno.domain.assignments import Assignment, Turn
from onnxdyno.domain.axes import AxisSizes
from onnxdyno.domain.errors import PointError
from onnxdyno.domain.outcomes import Measured, PointState
from onnxdyno.execution.feeds import digest_inputs, make_feeds, more_sets
from onnxdyno.execution.outputs import describe_outputs, fallback_reason, flags_of, other_shapes
from onnxdyno.execution.workshop import Workshop, attempt, load_known, skip
from onnxdyno.measuring.energy import cpu_energy
from onnxdyno.measuring.timing import Conditions, time_concurrently, time_point
from onnxdyno.ports import LoadedModel


def time_turns(assignment: Assignment, shop: Workshop) -> None:
    try:
        loaded = load_known(assignment, shop)
    except PointError as error:
        for turn in assignment.turns:
            shop.emit(skip(turn.point, assignment.launch, error))
        return
    fallback = fallback_reason(loaded.assignment, assignment.device)
    cold_ns: dict[AxisSizes, int] = {}

    def read(turn: Turn) -> Measured:
        if fallback is not None:
            raise PointError(PointState.EP_FALLBACK, fallback, "Export the model with operators that the GPU runs.")
        return _timed(assignment, turn, loaded, shop, cold_ns)

    for at in range(len(assignment.turns)):
        attempt(assignment, at, shop, read)


def _timed(
    assignment: Assignment, turn: Turn, loaded: LoadedModel, shop: Workshop, cold_ns: dict[AxisSizes, int]
) -> Measured:
    """The first binding of a shape makes its first call in this process: its time is a cold number, kept in `cold_ns`.

    Another variant of a shape that ran before finds it warm: its own first call says nothing.
    """
    began_ns = shop.clock()
    sets = [make_feeds(assignment, turn.point.sizes, 0)]
    bound_ns = shop.clock()
    first = loaded.bind(sets[0], turn.point.variant)
    call_ns = shop.clock() - bound_ns
    first_run_ns = cold_ns.setdefault(turn.point.sizes, call_ns)
    sets += more_sets(assignment, turn, sets[0], call_ns)
    calls = [first, *(loaded.bind(feeds, turn.point.variant) for feeds in sets[1:])]
    others = [[loaded.bind(feeds, turn.point.variant).raw for feeds in sets] for _ in range(1, turn.point.concurrency)]
    threads = assignment.threads * turn.point.concurrency
    how = Conditions(
        clock=shop.clock,
        witness=shop.witness_of(threads),
        protocol=assignment.protocol,
        launches=assignment.launches,
        threads=threads,
        budget_ns=max(1, turn.budget_ns - (shop.clock() - began_ns)),
    )
    own = [call.raw for call in calls]
    try:
        timed = time_concurrently([own, *others], how) if others else time_point(own, how)
    except Exception as error:
        raise shop.runtime.translate(error) from error
    outputs = [call.outputs() for call in calls]
    return Measured(
        point=turn.point,
        launch=assignment.launch,
        state=timed.state,
        reason=timed.reason,
        flags=(*flags_of(outputs, loaded, assignment.device), *timed.flags),
        first_run_ns=first_run_ns,
        warm_up_ns=timed.warm_up_ns,
        samples_ns=timed.samples_ns,
        excluded=timed.excluded,
        busy_ns=timed.busy_ns,
        runs=timed.runs,
        spans=timed.spans,
        outputs=describe_outputs(outputs[0]),
        other_outputs=other_shapes(outputs),
        input_sha256=digest_inputs(sets),
        energy=cpu_energy(timed.energies_uj, timed.runs, shop.no_energy),
    )
