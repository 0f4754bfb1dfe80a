"""One launch of a callable in this process: two untimed calls for memory and device, then the engine's timing."""

from __future__ import annotations

import inspect
import traceback
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxdyno.domain.errors import DeviceError, UsageError
from onnxdyno.domain.outcomes import PointState
from onnxdyno.domain.plan import Protocol
from onnxdyno.domain.text import printable
from onnxdyno.face.memory import Peak, Polled, peak_over_baseline
from onnxdyno.face.places import UNKNOWN, Place, place_of
from onnxdyno.face.records import Failed, Launched
from onnxdyno.face.surroundings import Surroundings
from onnxdyno.measuring.timing import Conditions, Timed, time_point

_UNTAKEN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to measure: the bound call, what waits for its device, the time for it, and among how many launches."""

    call: Callable[[], Any]
    sync: Callable[[], Any] | None
    budget_ns: int
    launches: int


def measure_here(order: Order, around: Surroundings, protocol: Protocol | None = None) -> Launched:
    """One launch. Whatever the target raises ends it and is in the result; `UsageError` for what cannot be timed."""
    began_ns = around.clock()
    try:
        place, ram, vram = _look(order, around)
    except UsageError:
        raise
    except Exception as error:  # noqa: BLE001  the target is foreign code: what it raises is the result
        why = "the target raised before anything was read"
        nothing = Peak(value_bytes=None, reason=why)
        place = Place(name=UNKNOWN, is_cuda=False, reason=why)
        return Launched(place=place, ram=nothing, vram=nothing, timed=None, failed=failure(error))
    left_ns = max(1, order.budget_ns - (around.clock() - began_ns))
    timed, failed = _time(order, around, left_ns, protocol or Protocol())
    return Launched(place=place, ram=ram, vram=vram, timed=timed, failed=failed)


def failure(error: Exception, samples_ns: tuple[int, ...] = ()) -> Failed:
    """An exception of the target as a value: its type, its text, and the line it came from."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  foreign code again
        text = "(its text cannot be had)"
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    state = PointState.OOM if isinstance(error, MemoryError) else PointState.MODEL_ERROR
    return Failed(
        state=state,
        reason=printable(f"the target raised {type(error).__name__}: {text}") + printable(where),
        samples_ns=samples_ns,
    )


def _look(order: Order, around: Surroundings) -> tuple[Place, Peak, Peak]:
    """Two calls that no clock watches: the peak of both over what was there before, and where the second one ran."""
    kept: list[Any] = []
    peaks: list[Peak] = []

    def act() -> None:
        _finished(order)
        kept.append(_finished(order))

    def watch_ram() -> None:
        peaks.append(peak_over_baseline(act, around.ram))

    vram = _watch_vram(watch_ram, around)
    place = place_of(kept.pop(), drivers=around.drivers(), cpu_name=around.cpu_name)
    if place.is_cuda and place.name != "cuda:0" and vram.value_bytes is not None:
        reason = f"only cuda:0 is read, the target ran on {place.name}: pin it with CUDA_VISIBLE_DEVICES"
        vram = Peak(value_bytes=None, reason=reason)
    return place, peaks[0], vram


def _watch_vram(act: Callable[[], None], around: Surroundings) -> Peak:
    """Do `act`; its peak of device memory where a CUDA driver was loaded before, so that there is a baseline."""
    if "libcuda" not in (around.drivers() or ()):
        act()
        return Peak(value_bytes=None, reason="no CUDA driver was loaded in this process before the first call")
    try:
        polled = Polled(around.vram())
    except DeviceError as error:
        act()
        return Peak(value_bytes=None, reason=str(error))

    def watched() -> None:
        with polled.watching():
            act()

    return peak_over_baseline(watched, polled)


def _finished(order: Order) -> Any:
    output = order.call()
    if inspect.iscoroutine(output):
        output.close()
    if inspect.isawaitable(output) or inspect.isgenerator(output) or inspect.isasyncgen(output):
        raise UsageError(
            f"the target gives back a {type(output).__name__} and has done none of its work: "
            "benchmark a function that runs it to its end, e.g. lambda: list(f()) or lambda: asyncio.run(f())."
        )
    if order.sync is not None:
        order.sync()
    return output


def _time(order: Order, around: Surroundings, budget_ns: int, protocol: Protocol) -> tuple[Timed | None, Failed | None]:
    buffer = array("q", [_UNTAKEN]) * protocol.most_samples
    conditions = Conditions(
        clock=around.clock,
        witness=around.witness,
        protocol=protocol,
        launches=order.launches,
        threads=1,  # the witness is of the calling thread
        budget_ns=budget_ns,
    )
    try:
        return time_point([_reading(order)], conditions, buffer), None
    except Exception as error:  # noqa: BLE001  the target is foreign code: what it raises is the result
        taken = buffer.index(_UNTAKEN) if _UNTAKEN in buffer else len(buffer)
        return None, failure(error, tuple(buffer[:taken]))


def _reading(order: Order) -> Callable[[], Any]:
    """What one reading holds: the call as it is, and the wait for its device where there is one."""
    call, sync = order.call, order.sync
    if sync is None:
        return call

    def call_and_wait() -> None:
        call()
        sync()

    return call_and_wait
