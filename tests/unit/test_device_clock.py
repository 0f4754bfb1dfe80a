"""Warm-up on a GPU: two windows that agree are steady only at one SM clock; where nobody can read it, that is said."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, count, repeat
from pathlib import Path
from typing import Any

import pytest

import factories as make
from fakes import FakeGauge, FakeModel, FakeRuntime
from onnxdyno.analysis import analyse
from onnxdyno.domain.assignments import Assignment, Event, Pass, Turn
from onnxdyno.domain.outcomes import Measured, PointState
from onnxdyno.domain.plan import Protocol
from onnxdyno.domain.telemetry import TelemetrySample, Tenant
from onnxdyno.execution import Workshop, execute
from onnxdyno.measuring.timing import Conditions, Timed, time_point
from onnxdyno.ports import DeviceClock, Sighting

MILLISECOND, SECOND = 1_000_000, 1_000_000_000
MHZ = 1e6


def timed(clocks_mhz: Iterator[float | None], protocol: Protocol | None = None) -> Timed:
    """Calls of one millisecond; the GPU's clock is read before and after each window."""
    now_ns = 0

    def call() -> None:
        nonlocal now_ns
        now_ns += MILLISECOND

    def witness() -> Sighting:
        clock_mhz = next(clocks_mhz)
        return Sighting(cpu_ns=now_ns, device_clock_hz=None if clock_mhz is None else clock_mhz * MHZ)

    how = Conditions(
        clock=lambda: now_ns,
        witness=witness,
        protocol=protocol or Protocol(),
        launches=1,
        threads=1,
        budget_ns=60 * SECOND,
    )
    return time_point([call], how)


def windows(clocks_mhz: Iterator[float | None]) -> Iterator[float | None]:
    """The same reading before and after each window."""
    for clock_mhz in clocks_mhz:
        yield clock_mhz
        yield clock_mhz


def test_a_clock_that_still_moves_keeps_windows_that_agree_out_of_the_samples() -> None:
    falling = [1980 - 60 * at for at in range(6)]
    got = timed(windows(chain(falling, repeat(1680))))
    assert got.state is PointState.OK
    assert len(got.warm_up_ns) == 10 + 5 * 250, "the sixth window and the seventh are the first at one clock"
    assert got.has_device_clock


def test_a_clock_that_moves_by_less_than_the_tolerance_is_one_clock() -> None:
    got = timed(windows(chain([1400, 1375], repeat(1375))))
    assert len(got.warm_up_ns) == 10
    got = timed(windows(chain([1400, 1370], repeat(1370))))
    assert len(got.warm_up_ns) == 10 + 250


def test_a_clock_that_never_rests_is_not_steady_and_names_both_clocks() -> None:
    got = timed(windows(1000 if at % 2 else 1400 for at in count()), Protocol(warm_up_cap_ns=2 * SECOND))
    assert got.state is PointState.NOT_STEADY
    assert "SM clock had moved by more than 2%" in (got.reason or "")
    assert "1,400" in (got.reason or "")
    assert "1,000" in (got.reason or "")
    assert got.samples_ns


@pytest.mark.parametrize("at", [0, 1])
def test_a_window_without_a_clock_decides_by_the_calls_alone_and_is_known(at: int) -> None:
    readings: list[float | None] = [1400, 1400]
    readings[at] = None
    got = timed(windows(chain(readings, repeat(1400))))
    assert len(got.warm_up_ns) == 10
    assert got.state is PointState.OK
    assert not got.has_device_clock


class Clock:
    """`ports.DeviceClock`: what is told, in order; a None has its reason."""

    def __init__(self, readings_hz: Iterator[float | None], reason: str | None = None) -> None:
        self._readings_hz = readings_hz
        self.reason = reason
        self.asked = 0

    def read_hz(self) -> float | None:
        self.asked += 1
        return next(self._readings_hz)


_CLOCK: type[DeviceClock] = Clock


def launched(clock: DeviceClock | None, calls: Callable[[], None] = lambda: None, **changes: Any) -> Measured:
    """One point of one launch in the measuring process, on a fake runtime."""
    events: list[Event] = []
    ticks = count(step=10 * MILLISECOND)

    def act(feeds: dict[str, Any]) -> list[tuple[str, Any]]:
        calls()
        return []

    shop = Workshop(
        runtime=FakeRuntime(FakeModel(act, (("CUDAExecutionProvider", "Conv", 1),))),
        gauge=FakeGauge(),
        clock=lambda: next(ticks),
        witness_of=lambda _: lambda: Sighting(cpu_ns=next(ticks)),
        emit=events.append,
        scratch=Path(),
        device_clock=clock,
    )
    point = make.point(batch=1)
    assignment = Assignment(
        kind=Pass.TIMING,
        launch=1,
        launches=1,
        model_path="model.onnx",
        device=make.gpu_device(),
        threads=1,
        recipes=(),
        turns=(Turn(point=point, budget_ns=5 * SECOND),),
        seed=0,
        protocol=Protocol(),
        **changes,
    )
    execute(assignment, shop)
    (found,) = (event for event in events if isinstance(event, Measured))
    return found


def test_a_launch_reads_the_clock_around_windows_and_never_for_a_call() -> None:
    calls: list[int] = []
    clock = Clock(repeat(1400 * MHZ))
    found = launched(clock, lambda: calls.append(clock.asked))
    assert found.device_clock_reason is None
    assert 2 <= clock.asked <= 2 * (len(found.spans) + 2 + len(found.warm_up_ns) // 10)
    assert len(set(calls)) < len(calls) / 5, "many calls lie between two readings"


def test_a_clock_that_cannot_be_read_costs_nothing_and_is_told_with_its_reason() -> None:
    found = launched(Clock(repeat(None), "NVML: Not Supported"))
    assert found.state is PointState.OK
    assert found.device_clock_reason == "NVML: Not Supported"
    assert launched(None).device_clock_reason is None, "a CPU has no such clock"


def test_a_run_warns_where_the_end_of_warm_up_did_not_look_at_the_clock() -> None:
    plan = make.plan(device=make.gpu_device())
    seen = TelemetrySample(t_ns=1, clock_events=0, tenants=(Tenant(pid=1, used_bytes=1, is_ours=True),))
    outcome = make.measured(plan.base, telemetry=(seen,))

    def warnings(measured: Measured) -> str:
        return " ".join(analyse(make.benchmark_run((measured,), plan=plan, profiles=())).warnings)

    assert "SM clock" not in warnings(outcome)
    blind = replace(outcome, device_clock_reason="NVML: Not Supported")
    assert "SM clock was not looked at, at some points at least: NVML: Not Supported." in warnings(blind)
