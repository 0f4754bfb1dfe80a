"""Memory of one point in its own process: the peak over a baseline taken before the session, inputs already made."""

from collections.abc import Callable
from typing import Protocol

from onnxdyno.domain.cost import Count
from onnxdyno.domain.outcomes import MemoryReading
from onnxdyno.domain.plan import Point
from onnxdyno.ports import BoundRun, ClockNs, LoadedModel


class MemoryGauge(Protocol):
    """Bytes that this process has on the device it measures."""

    def used_bytes(self) -> int:
        """Now."""
        ...

    def peak_bytes(self) -> int:
        """The most since `reset`."""
        ...

    def reset(self) -> None:
        """Forget the peak so far. Raises `OSError` where that cannot be done."""
        ...


def nobody_counts() -> Count:
    """For a process on a CPU."""
    return Count(value=None, reason="a CPU has no driver that counts for processes")


def read_memory(
    point: Point,
    *,
    load: Callable[[], LoadedModel],
    bind: Callable[[LoadedModel], BoundRun],
    gauge: MemoryGauge,
    clock: ClockNs,
    by_driver: Callable[[], Count] = nobody_counts,
) -> MemoryReading:
    """Peak bytes over the baseline for loading the model, then for binding one input set and two runs.

    `by_driver` is asked while the session still holds what it took. The second run is timed. That time only helps to
    share out the budget: it is taken while memory is watched, so it is never published.
    """
    try:
        gauge.reset()
    except OSError as error:
        return MemoryReading(
            point=point, baseline_bytes=None, peak_bytes=None, run_ns=None, reason=f"the peak cannot be reset: {error}."
        )
    baseline_bytes = gauge.used_bytes()
    loaded = load()
    load_peak_bytes = max(0, gauge.peak_bytes() - baseline_bytes)
    gauge.reset()
    run = bind(loaded)
    began_ns = clock()
    run()
    run_ns = clock() - began_ns
    run_peak_bytes = max(0, gauge.peak_bytes() - baseline_bytes)
    told = by_driver()
    return MemoryReading(
        point=point,
        baseline_bytes=baseline_bytes,
        peak_bytes=max(load_peak_bytes, run_peak_bytes),
        run_ns=run_ns,
        load_peak_bytes=load_peak_bytes,
        run_peak_bytes=run_peak_bytes,
        process_bytes=told.value,
        process_reason=told.reason,
    )
