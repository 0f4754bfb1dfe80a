"""A launch on a GPU under watch: what the readings of the device make of its answers, and of its start."""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import pytest

import factories as make
from fakes import FakeSampler
from onnxdyno.domain.assignments import Assignment, Pass, Turn
from onnxdyno.domain.errors import DeviceError
from onnxdyno.domain.outcomes import Flag, Measured, PointState, Skipped, SteadySpan
from onnxdyno.domain.plan import Protocol
from onnxdyno.domain.telemetry import TelemetrySample, Tenant
from onnxdyno.launching.driving import Answer
from onnxdyno.launching.telemetry import NoSampler, occupied, watched

MS = 1_000_000
POINTS = (make.point(batch=1), make.point(batch=2))
STRANGER = Tenant(pid=4242, used_bytes=2**30, is_ours=False)
GPU = make.gpu_device()


def assignment(**changes: Any) -> Assignment:
    values: dict[str, Any] = {
        "kind": Pass.TIMING,
        "launch": 2,
        "launches": 3,
        "model_path": "model.onnx",
        "device": GPU,
        "threads": 1,
        "recipes": (),
        "turns": tuple(Turn(point=point, budget_ns=1) for point in POINTS),
        "seed": 0,
        "protocol": Protocol(),
    }
    return Assignment(**(values | changes))


@dataclass
class Launch:
    """Answers to come, and whether anything was started and ended."""

    says: tuple[Answer, ...]
    log: list[str] = field(default_factory=list)

    def answers(self) -> Generator[Answer, None, None]:
        self.log.append("started")
        try:
            yield from self.says
        finally:
            self.log.append("ended")


def measured(at: int, began_ms: int) -> Measured:
    """100 calls of 10 ms."""
    span = SteadySpan(first=0, end=100, opened_ns=began_ms * MS, wall_ns=1000 * MS)
    return make.measured(POINTS[at], (10 * MS,) * 100, launch=2, spans=(span,))


def readings(last_ms: int = 5000, **fields: Any) -> list[TelemetrySample | None]:
    """One every 50 ms; a field that is a function is asked with the time in ms."""
    return [
        TelemetrySample(
            t_ns=at * MS, **{name: value(at) if callable(value) else value for name, value in fields.items()}
        )
        for at in range(0, last_ms, 50)
    ]


def test_each_answer_is_judged_by_the_readings_of_its_own_time() -> None:
    sampler = FakeSampler(readings(clock_events=lambda at: 0x40 if 1000 <= at < 2000 else 0x4 if at > 2600 else 0))
    launch = Launch((measured(0, 1000), measured(1, 2500)))
    first, second = watched(launch.answers, assignment(), sampler)
    assert isinstance(first, Skipped)
    assert first.state is PointState.THROTTLED
    assert isinstance(second, Measured)
    assert second.flags == (Flag.POWER_CAPPED,)
    assert launch.log == ["started", "ended"]
    assert [recording.stops for recording in sampler.recordings] == [1]


def test_every_reading_is_kept_once_beside_the_answer_that_came_after_it() -> None:
    sampler = FakeSampler(readings(power_mw=5))
    launch = Launch((measured(0, 1000), measured(1, 2500)))
    answers = watched(launch.answers, assignment(), sampler)
    kept = [each.telemetry for each in answers if isinstance(each, Measured)]
    assert [len(each) for each in kept] == [42, 30]
    assert kept[0][-1].t_ns < kept[1][0].t_ns


def test_nothing_is_started_where_somebody_else_computes_and_stays() -> None:
    sampler = FakeSampler(readings(tenants=(STRANGER,)))
    launch = Launch((measured(0, 1000),))
    found = list(watched(launch.answers, assignment(), sampler))
    assert launch.log == []
    assert [(each.point, each.launch, each.state) for each in found if isinstance(each, Skipped)] == [
        (point, 2, PointState.FOREIGN_TENANT) for point in POINTS
    ]
    assert sampler.recordings[0].stops == 1


def test_what_has_just_ended_is_given_time_to_leave_the_device() -> None:
    sampler = FakeSampler(readings(utilisation=lambda at: 0.9 if at < 900 else 0.0))
    (found,) = watched(Launch((measured(0, 1000),)).answers, assignment(), sampler)
    assert isinstance(found, Measured)


def test_a_device_that_is_taken_from_the_start_gives_every_planned_point_that_state() -> None:
    sampler = FakeSampler(readings(memory_used_bytes=2**30))
    found = occupied(GPU, POINTS, Protocol(), sampler)
    assert [(each.point, each.launch, each.state) for each in found] == [
        (point, None, PointState.FOREIGN_TENANT) for point in POINTS
    ]
    assert found[0].telemetry
    assert sampler.recordings[0].stops == 1
    assert occupied(GPU, POINTS, Protocol(), FakeSampler(readings(memory_used_bytes=0))) == ()


def test_a_gpu_that_is_lost_meanwhile_ends_the_run_in_one_line_and_the_process_with_it() -> None:
    sampler = FakeSampler(readings(is_lost=lambda at: at > 1500))
    launch = Launch((measured(0, 1000),))
    with pytest.raises(DeviceError, match="GPU is lost") as caught:
        list(watched(launch.answers, assignment(), sampler))
    assert "\n" not in str(caught.value)
    assert launch.log == ["started", "ended"]
    assert sampler.recordings[0].stops == 1


def test_a_driver_that_never_answers_holds_nothing_up_and_judges_nothing() -> None:
    launch = Launch((measured(0, 1000),))
    for sampler in (FakeSampler([None]), NoSampler()):
        assert list(watched(launch.answers, assignment(), sampler)) == [measured(0, 1000)]


def test_a_cpu_is_not_watched() -> None:
    sampler = FakeSampler(readings(tenants=(STRANGER,)))
    launch = Launch((measured(0, 1000),))
    assert list(watched(launch.answers, assignment(device=make.cpu_device()), sampler)) == [measured(0, 1000)]
    assert occupied(make.cpu_device(), POINTS, Protocol(), sampler) == ()
    assert sampler.recordings == []


def test_who_stops_listening_ends_the_process_and_the_recording() -> None:
    sampler = FakeSampler(readings())
    launch = Launch((measured(0, 1000), measured(1, 2500)))
    answers = watched(launch.answers, assignment(), sampler)
    next(answers)
    answers.close()
    assert launch.log == ["started", "ended"]
    assert sampler.recordings[0].stops == 1
