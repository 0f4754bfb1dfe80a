"""The measuring process on a CUDA device: the right GPU, event times, copies, what a failure of the device leaves."""

import sys
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import factories as make
from cuda_fake import UUID, FakeCuda, FakeDriver
from fakes import FakeGauge, FakeModel, FakeRuntime
from onnxdyno.adapters.cuda import CudaGpu
from onnxdyno.domain.assignments import Assignment, Began, Done, Event, Pass, Turn, Unusable
from onnxdyno.domain.axes import Role
from onnxdyno.domain.ceilings import CeilingReading
from onnxdyno.domain.cost import Count
from onnxdyno.domain.devices import DeviceKind
from onnxdyno.domain.errors import PointError
from onnxdyno.domain.micros import PINNED, micros
from onnxdyno.domain.models import Dim, InputRecipe
from onnxdyno.domain.outcomes import Flag, LaunchReading, Measured, MemoryReading, PointState, Skipped
from onnxdyno.domain.plan import Point, Protocol, Variant
from onnxdyno.domain.sessions import SessionRecipe
from onnxdyno.execution import Workshop, execute
from onnxdyno.ports import Sighting

GPU = make.gpu_device(id=f"GPU-{uuid.UUID(bytes=UUID)}")
PLACED = (("CUDAExecutionProvider", "Conv", 1),)
TICK_NS = 10_000_000
BATCH = Dim(role=Role.BATCH, axes=("batch",))
RECIPE = InputRecipe(
    name="x", kind="tensor", dtype="float32", dims=(BATCH, Dim(role=Role.OTHER, constant=4)), rule="normal"
)
ONE, TWO = (make.point(batch=size) for size in (1, 2))


class Ticks:
    """A clock that goes on by 10 ms whenever it is read."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        self.now_ns += TICK_NS
        return self.now_ns


def double(feeds: dict[str, Any]) -> Sequence[tuple[str, Any]]:
    """y = 2 x."""
    return [("y", feeds["x"] * 2)]


def timing(*points: Point, **changes: Any) -> Assignment:
    """A launch over these points on the GPU."""
    values: dict[str, Any] = {
        "kind": Pass.TIMING,
        "launch": 1,
        "launches": 3,
        "model_path": "model.onnx",
        "device": GPU,
        "threads": 1,
        "recipes": (RECIPE,),
        "turns": tuple(Turn(point=point, budget_ns=5_000_000_000) for point in points),
        "seed": 0,
        "protocol": Protocol(),
    }
    return Assignment(**(values | changes))


def said(assignment: Assignment, runtime: FakeRuntime, cuda: FakeCuda | None = None) -> list[Event]:
    """Every event of one assignment on a GPU of fake bindings."""
    events: list[Event] = []
    clock = Ticks()
    shop = Workshop(
        runtime=runtime,
        gauge=FakeGauge(),
        clock=clock,
        witness_of=lambda _: lambda: Sighting(cpu_ns=clock()),
        emit=events.append,
        scratch=Path(),
        gpu=CudaGpu(cuda or FakeCuda(), FakeDriver()),
    )
    execute(assignment, shop)
    return events


def measured(events: list[Event]) -> Measured:
    (found,) = (event for event in events if isinstance(event, Measured))
    return found


def test_another_gpu_than_the_one_given_is_unusable_and_no_reading_of_it_is_told() -> None:
    other = replace(GPU, id="GPU-ffffffff-0000-4000-8000-000000000001")
    events = said(timing(ONE, device=other), FakeRuntime(FakeModel(double, PLACED)))
    assert [type(event).__name__ for event in events] == ["Unusable", "Done"]
    assert isinstance(events[0], Unusable)
    assert GPU.id in events[0].reason


def test_events_and_copies_stand_beside_the_clock() -> None:
    found = measured(said(timing(ONE), FakeRuntime(FakeModel(double, PLACED, event_ns=TICK_NS))))
    assert found.device_ns == (TICK_NS,) * 16
    assert found.flags == ()
    assert found.transfer is not None
    assert found.transfer.reason is None
    assert (found.transfer.h2d_bytes, found.transfer.d2h_bytes) == (16, 16)
    assert len(found.transfer.h2d_ns) == len(found.transfer.d2h_ns) == 20


@pytest.mark.parametrize("event_ns", [TICK_NS // 2, TICK_NS * 2])
def test_clock_and_events_that_disagree_are_flagged(event_ns: int) -> None:
    found = measured(said(timing(ONE), FakeRuntime(FakeModel(double, PLACED, event_ns=event_ns))))
    assert found.flags == (Flag.EVENTS_DISAGREE,)


def test_copies_that_cannot_be_had_do_not_cost_the_point() -> None:
    cuda = FakeCuda()
    cuda.faults["cudaHostAlloc"] = 2
    found = measured(said(timing(ONE), FakeRuntime(FakeModel(double, PLACED)), cuda))
    assert found.state is PointState.OK
    assert found.transfer is not None
    assert found.transfer.reason is not None


def test_copies_are_timed_with_the_device_variant_alone() -> None:
    point = replace(ONE, variant=Variant.E2E)
    assert measured(said(timing(point), FakeRuntime(FakeModel(double, PLACED)))).transfer is None


def test_an_enqueued_call_is_settled_before_each_timed_one() -> None:
    settled: list[int] = []
    point = replace(ONE, variant=Variant.ENQUEUE)
    model = FakeModel(double, PLACED, settle=lambda: settled.append(1))
    found = measured(said(timing(point), FakeRuntime(model)))
    assert len(settled) == len(found.warm_up_ns) + len(found.samples_ns)
    assert found.transfer is None


def test_a_graph_has_a_session_of_its_own_that_adds_no_cold_number() -> None:
    runtime = FakeRuntime(FakeModel(double, PLACED))
    graphs = [replace(point, variant=Variant.GRAPH) for point in (ONE, TWO)]
    events = said(timing(ONE, *graphs, recipe=SessionRecipe(spinning=False)), runtime)
    assert [recipe.is_graph for recipe in runtime.recipes] == [False, True]
    assert not any(recipe.spinning for recipe in runtime.recipes)
    readings = [event for event in events if isinstance(event, LaunchReading)]
    assert [dict(reading.runtime)["spinning"] for reading in readings] == ["false"]
    assert len([event for event in events if isinstance(event, Measured)]) == 3


def test_a_lasting_failure_ends_the_process_after_its_point_so_that_another_does_the_rest() -> None:
    failure = PointError(PointState.CRASHED, "CUDA failure 719: unspecified launch failure", is_lasting=True)

    def fail(feeds: dict[str, Any]) -> Any:
        raise failure

    events = said(timing(ONE, TWO), FakeRuntime(FakeModel(fail, PLACED)))
    assert [event.turn for event in events if isinstance(event, Began)] == [0]
    (skip,) = (event for event in events if isinstance(event, Skipped))
    assert (skip.point, skip.state) == (ONE, PointState.CRASHED)
    assert not any(isinstance(event, Done) for event in events)


@pytest.mark.parametrize("variant", [Variant.ENQUEUE, Variant.GRAPH])
def test_what_only_cuda_has_is_one_row_on_a_cpu(variant: Variant) -> None:
    point = replace(ONE, variant=variant)
    events: list[Event] = []
    clock = Ticks()
    shop = Workshop(
        runtime=FakeRuntime(FakeModel(double)),
        gauge=FakeGauge(),
        clock=clock,
        witness_of=lambda _: lambda: Sighting(cpu_ns=clock()),
        emit=events.append,
        scratch=Path(),
    )
    execute(timing(point, device=make.cpu_device()), shop)
    (skip,) = (event for event in events if isinstance(event, Skipped))
    assert skip.state is PointState.NOT_APPLICABLE
    assert "CUDA" in skip.reason


def test_the_driver_is_asked_for_the_process_once_its_runs_are_over_and_its_session_still_stands() -> None:
    calls: list[str] = []

    def act(feeds: dict[str, Any]) -> Sequence[tuple[str, Any]]:
        calls.append("run")
        return double(feeds)

    def own_device_bytes() -> Count:
        calls.append(f"asked of {sys.getrefcount(loaded) - held} more")
        return Count(value=7)

    loaded = FakeModel(act, PLACED)
    runtime = FakeRuntime(loaded)
    held = sys.getrefcount(loaded)
    events: list[Event] = []
    clock = Ticks()
    shop = Workshop(
        runtime=runtime,
        gauge=FakeGauge(),
        clock=clock,
        witness_of=lambda _: lambda: Sighting(cpu_ns=clock()),
        emit=events.append,
        scratch=Path(),
        own_device_bytes=own_device_bytes,
    )
    execute(timing(ONE, kind=Pass.MEMORY), shop)
    (reading,) = (event for event in events if isinstance(event, MemoryReading))
    assert (reading.process_bytes, reading.process_reason) == (7, None)
    *runs, asked = calls
    assert set(runs) == {"run"}
    assert len(runs) == 2
    assert asked != "asked of 0 more", "a session gives its memory back when it goes"


def calibrating(cuda: FakeCuda | None) -> list[Event]:
    """The copies of a calibration, on a clock that goes on a nanosecond a byte; None: where there is no GPU."""
    known = micros(DeviceKind.CUDA)
    places = [place for place, micro in enumerate(known) if micro.label == PINNED]
    turns = tuple(Turn(point=Point(sizes=(("micro", place),), variant=Variant.DEVICE), budget_ns=0) for place in places)
    events: list[Event] = []
    shop = Workshop(
        runtime=FakeRuntime(FakeModel(double)),
        gauge=FakeGauge(),
        clock=lambda: cuda.now_ns if cuda is not None else 0,
        witness_of=lambda _: lambda: Sighting(cpu_ns=0),
        emit=events.append,
        scratch=Path(),
        gpu=CudaGpu(cuda, FakeDriver()) if cuda is not None else None,
    )
    execute(replace(timing(), kind=Pass.CEILINGS, turns=turns, model_path=""), shop)
    return events


def test_a_calibration_copies_each_size_each_way_apart_and_frees_what_it_took() -> None:
    cuda = FakeCuda()
    found = [event for event in calibrating(cuda) if isinstance(event, CeilingReading)]
    assert [each.micro for each in found] == [each.name for each in micros(DeviceKind.CUDA) if each.label == PINNED]
    assert all(each.call_ns == float(each.micro.rpartition(" ")[2]) for each in found)
    assert cuda.owned == set()


def test_a_copy_that_cannot_be_had_is_no_rate_with_its_reason_and_the_next_size_follows() -> None:
    cuda = FakeCuda(faults={"cudaHostAlloc": 2})
    events = calibrating(cuda)
    (lost,) = [event for event in events if isinstance(event, Skipped)]
    assert "out of memory" in lost.reason
    assert len([event for event in events if isinstance(event, CeilingReading)]) == 9
    assert {each.state for each in calibrating(None) if isinstance(each, Skipped)} == {PointState.NOT_APPLICABLE}
