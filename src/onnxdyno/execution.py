"""A plan's share, point by point, inside the measuring process; a bad point becomes `Skipped`, the next one follows."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnxdyno.domain.assignments import (
    Assignment,
    Began,
    Copied,
    Done,
    Event,
    NotCopied,
    Pass,
    Ran,
    Refused,
    Searched,
    Tried,
    Turn,
    Unusable,
)
from onnxdyno.domain.axes import AxisSizes
from onnxdyno.domain.devices import Device, DeviceKind
from onnxdyno.domain.errors import DeviceError, ModelError, PointError, RebatchRefused
from onnxdyno.domain.outcomes import (
    Flag,
    LaunchReading,
    Measured,
    MemoryReading,
    ModelState,
    PointState,
    Profile,
    Skipped,
)
from onnxdyno.domain.plan import Point
from onnxdyno.graphs.constraints import next_probe
from onnxdyno.graphs.feeds import check
from onnxdyno.graphs.materialise import materialise
from onnxdyno.measuring.memory import MemoryGauge, read_memory
from onnxdyno.measuring.profiling import summarise
from onnxdyno.measuring.timing import Conditions, time_point
from onnxdyno.ports import ClockNs, LoadedModel, Runtime, Witness

Emit = Callable[[Event], None]
Feeds = dict[str, Any]

MOST_INPUT_BYTES = 256 * 2**20
"""Input sets beyond this are not made: rotation must not turn into a memory test."""

COMPUTE_OPS = frozenset(
    """
    Conv ConvTranspose ConvInteger QLinearConv FusedConv MatMul MatMulInteger MatMulNBits QLinearMatMul FusedMatMul
    DynamicQuantizeMatMul Gemm FusedGemm Einsum LSTM GRU RNN Attention MultiHeadAttention GroupQueryAttention QAttention
    """.split()
)
"""An op of these on the CPU makes a GPU number a lie (protocol, section 0)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What a measuring process works with."""

    runtime: Runtime
    gauge: MemoryGauge
    clock: ClockNs
    witness: Witness
    emit: Emit
    scratch: Path
    confined: tuple[tuple[str, str], ...] = ()
    """(what, how): what this process has given up before a model is loaded."""


def execute(assignment: Assignment, shop: Workshop) -> None:
    """Work through an assignment; every reading, refusal and skip is emitted, then `Done`."""
    try:
        match assignment.kind:
            case Pass.MEMORY:
                _memory(assignment, shop)
            case Pass.PROFILE:
                _profile(assignment, shop)
            case Pass.PROBE:
                _probe(assignment, shop)
            case Pass.TIMING:
                _timing(assignment, shop)
            case Pass.COPY:
                _copy(assignment, shop)
    except ModelError as error:
        shop.emit(Refused(state=error.state, reason=error.reason, remedy=error.remedy))
    except DeviceError as error:
        shop.emit(Unusable(reason=str(error)))
    shop.emit(Done())


def _attempt(assignment: Assignment, at: int, shop: Workshop, read: Callable[[Turn], Event | None]) -> bool:
    """Emit what `read` finds at one point, or why it found nothing; whether it found something."""
    turn = assignment.turns[at]
    shop.emit(Began(turn=at))
    try:
        event = read(turn)
    except (PointError, MemoryError) as error:
        problem = error if isinstance(error, PointError) else shop.runtime.translate(error)
        shop.emit(_skipped(turn.point, assignment.launch, problem))
        return False
    if event is not None:
        shop.emit(event)
    return event is not None


def _probe(assignment: Assignment, shop: Workshop) -> None:
    """Try the candidates in order until one runs, twice: the second run's time is a first idea of the cost."""
    loaded = _load(assignment, shop)
    history = list(assignment.history)

    def read(turn: Turn) -> Ran:
        call = loaded.bind(_feeds(assignment, turn.point.sizes, 0), turn.point.variant)
        began_ns = shop.clock()
        call()
        return Ran(point=turn.point, run_ns=shop.clock() - began_ns, outputs=describe_outputs(call.outputs()))

    if not any(is_fine for _, is_fine in history):
        for at, turn in enumerate(assignment.turns):
            history.append((turn.point.sizes, _attempt(assignment, at, shop, read)))
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
            loaded.bind(_feeds(assignment, sizes, 0), turn.point.variant)()
            is_fine = True
        except (PointError, MemoryError):
            is_fine = False
        history.append((sizes, is_fine))
        shop.emit(Tried(sizes=sizes, is_fine=is_fine))
    shop.emit(Searched())


def _copy(assignment: Assignment, shop: Workshop) -> None:
    from onnxdyno.measuring.copying import copy_with_batch  # onnx is loaded only where models are rewritten

    shop.emit(Began(turn=0))
    try:
        how = copy_with_batch(
            Path(assignment.model_path),
            Path(assignment.copy_to or ""),
            runtime=shop.runtime,
            device=assignment.device,
            threads=assignment.threads,
            seed=assignment.seed,
        )
    except RebatchRefused as error:
        shop.emit(NotCopied(reason=str(error)))
    else:
        shop.emit(Copied(how=how))


def _timing(assignment: Assignment, shop: Workshop) -> None:
    try:
        loaded = _load_known(assignment, shop)
    except PointError as error:
        for turn in assignment.turns:
            shop.emit(_skipped(turn.point, assignment.launch, error))
        return
    fallback = fallback_reason(loaded.assignment, assignment.device)
    cold_ns: dict[AxisSizes, int] = {}

    def read(turn: Turn) -> Measured:
        if fallback is not None:
            raise PointError(PointState.EP_FALLBACK, fallback, "Export the model with operators that the GPU runs.")
        return _timed(assignment, turn, loaded, shop, cold_ns)

    for at in range(len(assignment.turns)):
        _attempt(assignment, at, shop, read)


def _timed(
    assignment: Assignment, turn: Turn, loaded: LoadedModel, shop: Workshop, cold_ns: dict[AxisSizes, int]
) -> Measured:
    """The first binding of a shape makes its first call in this process: its time is a cold number, kept in `cold_ns`.

    Another variant of a shape that ran before finds it warm: its own first call says nothing.
    """
    began_ns = shop.clock()
    sets = [_feeds(assignment, turn.point.sizes, 0)]
    bound_ns = shop.clock()
    first = loaded.bind(sets[0], turn.point.variant)
    call_ns = shop.clock() - bound_ns
    first_run_ns = cold_ns.setdefault(turn.point.sizes, call_ns)
    sets += _more_sets(assignment, turn, sets[0], call_ns)
    calls = [first, *(loaded.bind(feeds, turn.point.variant) for feeds in sets[1:])]
    left_ns = turn.budget_ns - (shop.clock() - began_ns)
    try:
        timed = time_point(
            [call.raw for call in calls],
            Conditions(
                clock=shop.clock,
                witness=shop.witness,
                protocol=assignment.protocol,
                launches=assignment.launches,
                threads=assignment.threads,
                budget_ns=max(1, left_ns),
            ),
        )
    except Exception as error:
        raise shop.runtime.translate(error) from error
    outputs = [call.outputs() for call in calls]
    return Measured(
        point=turn.point,
        launch=assignment.launch,
        state=timed.state,
        reason=timed.reason,
        flags=_flags(outputs, loaded, assignment.device),
        first_run_ns=first_run_ns,
        warm_up_ns=timed.warm_up_ns,
        samples_ns=timed.samples_ns,
        excluded=timed.excluded,
        busy_ns=timed.busy_ns,
        runs=timed.runs,
        outputs=describe_outputs(outputs[0]),
        input_sha256=digest_inputs(sets),
    )


def _memory(assignment: Assignment, shop: Workshop) -> None:
    """One point only: a second one would find the memory that the first one left."""

    def read(turn: Turn) -> MemoryReading:
        feeds = _feeds(assignment, turn.point.sizes, 0)
        return read_memory(
            turn.point, lambda: _load_known(assignment, shop).bind(feeds, turn.point.variant), shop.gauge, shop.clock
        )

    _attempt(assignment, 0, shop, read)


def _profile(assignment: Assignment, shop: Workshop) -> None:
    """One session per point, since a profile is written when its session ends."""

    def read(turn: Turn) -> Profile | None:
        loaded = _load_known(assignment, shop, profile_prefix=shop.scratch / "profile")
        call = loaded.bind(_feeds(assignment, turn.point.sizes, 0), turn.point.variant)
        for _ in range(1 + assignment.protocol.profile_runs):
            call()
        written = loaded.end_profile()
        if written is None:
            return None
        return summarise(written.read_bytes(), turn.point, keep_runs=assignment.protocol.profile_runs)

    for at in range(len(assignment.turns)):
        _attempt(assignment, at, shop, read)


def _load(assignment: Assignment, shop: Workshop, profile_prefix: Path | None = None) -> LoadedModel:
    loaded = shop.runtime.load(Path(assignment.model_path), assignment.device, assignment.threads, profile_prefix)
    shop.emit(
        LaunchReading(
            launch=assignment.launch,
            session_ns=loaded.session_ns,
            providers=loaded.providers,
            assignment=loaded.assignment,
            runtime=(*shop.runtime.versions, *loaded.options, *shop.confined),
        )
    )
    return loaded


def _load_known(assignment: Assignment, shop: Workshop, profile_prefix: Path | None = None) -> LoadedModel:
    """As `_load`, of a model that the probe could load: if memory fails now, that is no fault of the model."""
    try:
        return _load(assignment, shop, profile_prefix)
    except ModelError as error:
        if error.state is not ModelState.TOO_LARGE:
            raise
        raise PointError(PointState.OOM, error.reason, error.remedy) from error


def _feeds(assignment: Assignment, sizes: AxisSizes, ordinal: int) -> Feeds:
    """One input set, held against the model's own relations before it runs: that it runs would be no proof.

    The seed depends on the spec's seed and the set, so that every launch sees the same sets.
    """
    seed = assignment.seed * 1_000 + ordinal
    values = {recipe.name: materialise(recipe, sizes, seed) for recipe in assignment.recipes}
    check(values, assignment.recipes, sizes)
    return {name: value for name, value in values.items() if value is not None}


def _more_sets(assignment: Assignment, turn: Turn, first: Feeds, call_ns: int) -> list[Feeds]:
    """Further input sets to rotate through: as many as memory, and a tenth of the turn's time, can hold.

    Binding a set makes a call, so at a slow point the time goes into samples instead.
    """
    size_bytes = sum(value.nbytes for value in first.values() if isinstance(value, np.ndarray))
    by_memory = MOST_INPUT_BYTES // max(1, size_bytes) - 1
    by_time = turn.budget_ns // 10 // max(1, call_ns)
    count = max(0, min(assignment.protocol.input_sets - 1, by_memory, by_time))
    return [_feeds(assignment, turn.point.sizes, ordinal) for ordinal in range(1, 1 + count)]


def _skipped(point: Point, launch: int, error: PointError) -> Skipped:
    return Skipped(point=point, launch=launch, state=error.state, reason=error.reason, remedy=error.remedy)


def fallback_reason(assignment: Sequence[tuple[str, str, int]], device: Device) -> str | None:
    """Why a GPU number would be a lie: compute ops that the runtime gave to the CPU; None if there are none."""
    if device.kind is DeviceKind.CPU:
        return None
    strays = [f"{count} {op}" for provider, op, count in assignment if provider.startswith("CPU") and op in COMPUTE_OPS]
    return f"compute nodes ran on the CPU: {', '.join(strays)}." if strays else None


def _flags(outputs: Sequence[Sequence[tuple[str, Any]]], loaded: LoadedModel, device: Device) -> tuple[Flag, ...]:
    flags = []
    if any(not is_finite(value) for named in outputs for _, value in named):
        flags.append(Flag.NON_FINITE)
    is_mixed = any(provider.startswith("CPU") for provider, _, _ in loaded.assignment)
    if device.kind is DeviceKind.CUDA and is_mixed:
        flags.append(Flag.CPU_NODES)
    return tuple(flags)


def is_finite(value: Any) -> bool:
    """Whether a float output holds neither NaN nor infinity; anything that is no float tensor is."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return True
    return bool(np.isfinite(value).all())


def describe_outputs(outputs: Sequence[tuple[str, Any]]) -> tuple[str, ...]:
    """`name float32[1,10]` for a tensor, `name list(3)` for a sequence, in order."""
    return tuple(f"{name} {_describe(value)}" for name, value in outputs)


def _describe(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{','.join(str(size) for size in value.shape)}]"
    return f"{type(value).__name__}({len(value)})" if isinstance(value, list | dict) else type(value).__name__


def digest_inputs(sets: Sequence[Feeds]) -> str:
    """Sha256 over names, types, shapes and bytes of every input set, in order."""
    digest = hashlib.sha256()
    for feeds in sets:
        for name in sorted(feeds):
            value = feeds[name]
            digest.update(f"{name}\0{_describe(value)}\0".encode("utf-8", "surrogateescape"))
            digest.update(_content(value))
    return digest.hexdigest()


def _content(value: Any) -> Any:
    """What a digest is taken over: the bytes of an array (bfloat16 has no buffer of its own), else its text."""
    if not isinstance(value, np.ndarray) or value.dtype == object:
        exact = value.tolist() if isinstance(value, np.ndarray) else [each.tolist() for each in value]
        return repr(exact).encode("utf-8", "surrogateescape")
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)
