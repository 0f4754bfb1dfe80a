"""One launch: a session, then its turns on the clock."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from onnxdyno.domain.assignments import Assignment, Turn
from onnxdyno.domain.axes import AxisSizes
from onnxdyno.domain.devices import Device, DeviceKind
from onnxdyno.domain.errors import PointError
from onnxdyno.domain.outcomes import Measured, PointState, Transfer
from onnxdyno.domain.plan import Protocol, Variant
from onnxdyno.execution.feeds import Feeds, digest_inputs, make_feeds, more_sets, size_bytes
from onnxdyno.execution.outputs import describe_outputs, fallback_reason, flags_of, other_shapes
from onnxdyno.execution.workshop import Workshop, attempt, load_known, load_quietly, recipe_of, skip
from onnxdyno.measuring.energy import cpu_energy
from onnxdyno.measuring.events import events_for, flags_of_events
from onnxdyno.measuring.timing import Conditions, Timed, time_concurrently, time_point
from onnxdyno.measuring.windows import Call
from onnxdyno.ports import BoundRun, DeviceClock, LoadedModel, Sighting, Witness

_SPENT_BY = (PointState.OOM,)
"""Before the arena gives up it may take, and keep, all memory that smaller sizes need: they get a fresh process."""


def time_turns(assignment: Assignment, shop: Workshop) -> None:
    """The turns in their order; `graph` has a session of its own, made at its first turn.

    A turn may take as much again as it was given, of what those before it left: most points need little, some much.
    """
    try:
        plain = load_known(assignment, shop)
    except PointError as error:
        for turn in assignment.turns:
            shop.emit(skip(turn.point, assignment.launch, error))
        return
    fallback = fallback_reason(plain.assignment, assignment.device)
    cold_ns: dict[AxisSizes, int] = {}
    saved_ns = 0
    recording: list[LoadedModel] = []

    def session_of(variant: Variant) -> LoadedModel:
        if variant is not Variant.GRAPH:
            return plain
        if not recording:
            recording.append(load_quietly(assignment, shop, recipe_of(assignment, variant)))
        return recording[0]

    def read(planned: Turn) -> Measured:
        turn = replace(planned, budget_ns=planned.budget_ns + max(0, min(planned.budget_ns, saved_ns)))
        refuse_where_pointless(turn.point.variant, assignment.device)
        if fallback is not None:
            raise PointError(PointState.EP_FALLBACK, fallback, "Export the model with operators that the GPU runs.")
        return _timed(assignment, turn, session_of(turn.point.variant), shop, cold_ns)

    for at, turn in enumerate(assignment.turns):
        began_ns = shop.clock()
        attempt(assignment, at, shop, read, spent_by=_SPENT_BY)
        saved_ns += turn.budget_ns - (shop.clock() - began_ns)


def refuse_where_pointless(variant: Variant, device: Device) -> None:
    """Raises `PointError` (not applicable) for what only a CUDA device has."""
    if variant.is_cuda_only and device.kind is not DeviceKind.CUDA:
        reason = f"{variant.value} is measured on a CUDA device only."
        raise PointError(PointState.NOT_APPLICABLE, reason, "Use the variant device.")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bound:
    """The calls of a turn, one for each set of inputs; `beside` are those of the threads beside the first."""

    sets: tuple[Feeds, ...]
    calls: tuple[BoundRun, ...]
    beside: tuple[tuple[Call, ...], ...]
    first_run_ns: int


def _timed(
    assignment: Assignment, turn: Turn, loaded: LoadedModel, shop: Workshop, cold_ns: dict[AxisSizes, int]
) -> Measured:
    began_ns = shop.clock()
    bound = _bind(assignment, turn, loaded, shop, cold_ns, began_ns=began_ns)
    timed = _time(bound, _conditions(assignment, turn, bound, shop, began_ns), shop)
    first = bound.calls[0]
    device_ns = () if bound.beside else first.device_ns(events_for(assignment.protocol, turn, timed.samples_ns))
    outputs = [call.outputs() for call in bound.calls]
    return Measured(
        point=turn.point,
        launch=assignment.launch,
        state=timed.state,
        reason=timed.reason,
        flags=(
            *flags_of(outputs, loaded, assignment.device),
            *timed.flags,
            *flags_of_events(timed.samples_ns, device_ns, assignment.protocol),
        ),
        first_run_ns=bound.first_run_ns,
        warm_up_ns=timed.warm_up_ns,
        samples_ns=timed.samples_ns,
        excluded=timed.excluded,
        busy_ns=timed.busy_ns,
        runs=timed.runs,
        spans=timed.spans,
        outputs=describe_outputs(outputs[0]),
        other_outputs=other_shapes(outputs),
        input_sha256=digest_inputs(bound.sets),
        energy=cpu_energy(timed.energies_uj, timed.runs, shop.no_energy),
        device_ns=device_ns,
        transfer=_transfer(turn, bound.sets[0], outputs[0], assignment.protocol, shop),
        is_short=timed.is_short,
        device_clock_reason=None if timed.has_device_clock else _why_no_clock(shop.device_clock),
    )


def _bind(
    assignment: Assignment,
    turn: Turn,
    loaded: LoadedModel,
    shop: Workshop,
    cold_ns: dict[AxisSizes, int],
    *,
    began_ns: int,
) -> _Bound:
    """The first binding of a shape makes its first call in this process: its time is a cold number, kept in `cold_ns`.

    Another variant of a shape that ran before finds it warm: its own first call says nothing.
    """
    sizes, variant = turn.point.sizes, turn.point.variant
    feeds = make_feeds(assignment, sizes, 0)
    bound_ns = shop.clock()
    first = loaded.bind(feeds, variant)
    now_ns = shop.clock()
    first_run_ns = cold_ns.setdefault(sizes, now_ns - bound_ns)
    sets = (feeds, *more_sets(assignment, turn, feeds, now_ns - began_ns))
    return _Bound(
        sets=sets,
        calls=(first, *(loaded.bind(each, variant) for each in sets[1:])),
        beside=tuple(tuple(loaded.bind(each, variant).raw for each in sets) for _ in range(1, turn.point.concurrency)),
        first_run_ns=first_run_ns,
    )


def _conditions(assignment: Assignment, turn: Turn, bound: _Bound, shop: Workshop, began_ns: int) -> Conditions:
    """What is left of the turn's budget goes into samples."""
    threads = assignment.threads * turn.point.concurrency
    return Conditions(
        clock=shop.clock,
        witness=_with_clock(shop.witness_of(threads), shop.device_clock),
        protocol=assignment.protocol,
        launches=assignment.launches,
        threads=threads,
        budget_ns=max(1, turn.budget_ns - (shop.clock() - began_ns)),
        settle=bound.calls[0].settle,
    )


def _time(bound: _Bound, how: Conditions, shop: Workshop) -> Timed:
    own = tuple(call.raw for call in bound.calls)
    try:
        return time_concurrently((own, *bound.beside), how) if bound.beside else time_point(own, how)
    except Exception as error:
        raise shop.runtime.translate(error) from error


def _with_clock(witness: Witness, clock: DeviceClock | None) -> Witness:
    """Also the GPU's clock, read before anything else: a device that waits soon slows down."""
    if clock is None:
        return witness

    def look() -> Sighting:
        clock_hz = clock.read_hz()
        return replace(witness(), device_clock_hz=clock_hz)

    return look


def _why_no_clock(clock: DeviceClock | None) -> str | None:
    return None if clock is None else clock.reason or "it could not be read all the time"


def _transfer(
    turn: Turn, feeds: Feeds, outputs: Sequence[tuple[str, Any]], protocol: Protocol, shop: Workshop
) -> Transfer | None:
    """Copies apart from the model, once for its sizes."""
    if shop.gpu is None or turn.point.variant is not Variant.DEVICE or turn.point.concurrency > 1:
        return None
    there, back = size_bytes(feeds.values()), size_bytes(value for _, value in outputs)
    return shop.gpu.copy(there, back, count=protocol.copy_runs, clock=shop.clock)
