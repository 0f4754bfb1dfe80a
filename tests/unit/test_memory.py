"""The memory pass with a gauge that says exactly what happened when."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from factories import point
from fakes import FakeGauge, FakeModel
from onnxdyno.domain.errors import PointError
from onnxdyno.domain.outcomes import MemoryReading, PointState
from onnxdyno.measuring.memory import read_memory
from onnxdyno.ports import BoundRun, LoadedModel

POINT = point(batch=4)


@dataclass
class Run:
    """A bound call that takes `takes_bytes` while it runs and keeps `keeps_bytes`."""

    gauge: FakeGauge
    takes_bytes: int = 0
    keeps_bytes: int = 0
    calls: list[int] = field(default_factory=list)

    def __call__(self) -> None:
        self.calls.append(self.gauge.used)
        self.gauge.take(self.takes_bytes + self.keeps_bytes)
        self.gauge.give_back(self.takes_bytes)

    @property
    def raw(self) -> Any:
        return self

    @property
    def settle(self) -> None:
        return None

    def device_ns(self, count: int) -> tuple[int, ...]:
        return ()

    def outputs(self) -> Sequence[tuple[str, Any]]:
        return ()


def ticking(*times_ns: int) -> Iterator[int]:
    """A clock that says these times in turn."""
    return iter(times_ns)


def read(
    gauge: FakeGauge, load: Callable[[], None], run: BoundRun, clock: Callable[[], int] = lambda: 0
) -> MemoryReading:
    def loaded() -> LoadedModel:
        load()
        return FakeModel(lambda _: ())

    return read_memory(POINT, load=loaded, bind=lambda _: run, gauge=gauge, clock=clock)


def test_the_peak_is_over_what_was_there_before_the_session() -> None:
    gauge = FakeGauge(used=100, peak=900)
    run = Run(gauge, takes_bytes=50, keeps_bytes=5)

    clock = ticking(1_000, 1_700)
    reading = read(gauge, lambda: gauge.take(30), run, lambda: next(clock))
    assert (reading.baseline_bytes, reading.peak_bytes) == (100, 85)
    assert reading.run_ns == 700
    assert reading.reason is None
    assert run.calls == [130]


def test_an_earlier_peak_of_the_process_is_forgotten_first() -> None:
    gauge = FakeGauge(used=100, peak=10_000)
    assert read(gauge, lambda: None, Run(gauge)).peak_bytes == 0


def test_where_the_peak_cannot_be_reset_it_is_null_with_the_reason() -> None:
    gauge = FakeGauge(used=100, peak=900, refusal=PermissionError(13, "Permission denied"))
    reading = read(gauge, lambda: None, Run(gauge))
    assert (reading.baseline_bytes, reading.peak_bytes, reading.run_ns) == (None, None, None)
    assert "Permission denied" in (reading.reason or "")


def test_a_point_that_cannot_run_is_no_reading() -> None:
    def refuse() -> None:
        raise PointError(PointState.SHAPE_ERROR, "refused")

    with pytest.raises(PointError, match="refused"):
        read(FakeGauge(), refuse, Run(FakeGauge()))


def test_what_loading_took_for_a_moment_is_apart_from_what_running_takes() -> None:
    gauge = FakeGauge(used=100)

    def load() -> None:
        gauge.take(500)
        gauge.give_back(400)

    reading = read(gauge, load, Run(gauge, takes_bytes=50))
    assert (reading.load_peak_bytes, reading.run_peak_bytes, reading.peak_bytes) == (500, 150, 500)
