"""The pass that measures what the device can do at most: one micro-model after the other."""

from dataclasses import replace

from onnxdyno.domain.assignments import Assignment, Turn
from onnxdyno.domain.ceilings import CeilingKind, CeilingReading
from onnxdyno.domain.errors import ModelError, PointError
from onnxdyno.domain.micros import BFLOAT16, FLOAT16, PINNED, Micro, micros
from onnxdyno.domain.outcomes import PointState
from onnxdyno.domain.plan import Variant
from onnxdyno.execution.workshop import Workshop, attempt
from onnxdyno.intervals import median_half_width, quantile
from onnxdyno.ports import BoundRun, ClockNs, Sighting, Witness

LEAST_CALLS, MOST_CALLS = 5, 20_000
LEAST_NS, MOST_NS = 60_000_000, 400_000_000
LONG_NS = 1_000_000
HALF_WIDTH = 0.01
_OWN_CASTS = {FLOAT16: 0, BFLOAT16: 2}
"""Types that a runtime may lack kernels for, with the casts that the micro-model itself has: at its ends."""
GOOD_SHARE = 0.25
"""Which quantile of the calls a ceiling rests on: neighbours only ever make a call longer."""


def read_ceilings(assignment: Assignment, shop: Workshop) -> None:
    """A turn is a micro-model, by its place in the list; what the provider has no kernel for is skipped, with why."""
    known = micros(assignment.device.kind, assignment.cache_bytes)

    def read(turn: Turn) -> CeilingReading:
        ((_, place),) = turn.point.sizes
        micro = known[place]
        call_ns = _copied_ns(micro, assignment, shop) if micro.label == PINNED else _called_ns(micro, assignment, shop)
        return CeilingReading(micro=micro.name, launch=assignment.launch, call_ns=call_ns)

    for at in range(len(assignment.turns)):
        attempt(assignment, at, shop, read)


def _copied_ns(micro: Micro, assignment: Assignment, shop: Workshop) -> float:
    """The lower quartile of the copies of one size one way; the port copies a byte the other way with each."""
    if shop.gpu is None:
        raise PointError(PointState.NOT_APPLICABLE, "a CPU computes in the host's memory: nothing is copied")
    size = micro.working_bytes or 0
    is_there = micro.kind is CeilingKind.H2D
    there, back = (size, 0) if is_there else (0, size)
    transfer = shop.gpu.copy(there, back, count=assignment.protocol.copy_runs, clock=shop.clock)
    if transfer.reason is not None:
        raise PointError(PointState.CRASHED, transfer.reason)
    return quantile(sorted(transfer.h2d_ns if is_there else transfer.d2h_ns), GOOD_SHARE)


def _called_ns(micro: Micro, assignment: Assignment, shop: Workshop) -> float:
    from onnxdyno.measuring.micro_models import operators_of, write  # onnx is loaded only where models are made

    path, ran = shop.scratch / "micro.onnx", shop.scratch / "ran.onnx"
    is_rare = micro.dtype in _OWN_CASTS
    recipe = replace(assignment.recipe, optimised_path=str(ran)) if is_rare else assignment.recipe
    feeds = write(micro, path)
    try:
        loaded = shop.runtime.load(path, assignment.device, assignment.threads, recipe)
    except ModelError as error:
        raise PointError(PointState.UNSUPPORTED, error.reason, error.remedy) from error
    finally:
        path.unlink()
    if is_rare:
        _check_kernel(micro, operators_of(ran))
    return time_calls(loaded.bind(feeds, Variant.DEVICE), shop.clock, shop.witness_of(assignment.threads))


def _check_kernel(micro: Micro, ran: tuple[str, ...]) -> None:
    """A runtime without a kernel for a type puts casts around one of another type: that is not its rate."""
    if sum(op.endswith("Cast") for op in ran) > _OWN_CASTS[micro.dtype]:
        told = f"no kernel for {micro.op} of {micro.dtype}: the runtime runs {', '.join(ran)} in its place."
        raise PointError(PointState.UNSUPPORTED, told)


def time_calls(call: BoundRun, clock: ClockNs, witness: Witness) -> float:
    """The lower quartile of as many calls as make their median steady, or as fit in 0.4 s (at least five).

    A call long enough to lose its core on the way is told without the time that it was ready and had none.
    """
    for _ in range(2):
        call()
    began_ns = clock()
    call()
    is_long = clock() - began_ns > LONG_NS
    raw, settle = call.raw, call.settle
    samples_ns: list[int] = []
    began_ns = clock()
    window = 1
    while not _is_enough(samples_ns, clock() - began_ns):
        for _ in range(window):
            before = witness() if is_long else None
            at_ns = clock()
            raw()
            took_ns = clock() - at_ns
            samples_ns.append(took_ns if before is None else without_waits(took_ns, waited_ns(before, witness())))
            if settle is not None:
                settle()
        window = min(2 * window, 1000)
    return quantile(sorted(samples_ns), GOOD_SHARE)


def without_waits(took_ns: int, waits_ns: int) -> int:
    """A call without its waits; whole where they are most of it: what is left would be the error of both clocks.

    With several threads a wait that began before the call is told within it, and may be longer than the call.
    """
    return took_ns - waits_ns if waits_ns < took_ns / 2 else took_ns


def waited_ns(before: Sighting, after: Sighting) -> int:
    """The longest that one thread was ready to run and had no core; 0 where the kernel does not say."""
    earlier = dict(before.waits_ns or ())
    return max(
        (waits_ns - earlier[thread] for thread, waits_ns in after.waits_ns or () if thread in earlier), default=0
    )


def _is_enough(samples_ns: list[int], spent_ns: int) -> bool:
    if len(samples_ns) < LEAST_CALLS or spent_ns < LEAST_NS:
        return False
    if len(samples_ns) >= MOST_CALLS or spent_ns >= MOST_NS:
        return True
    half_width = median_half_width(sorted(samples_ns))
    return half_width is not None and half_width <= HALF_WIDTH
