"""The measuring process's work on a runtime that does what each test says."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import factories as make
from fakes import FakeGauge, FakeModel, FakeRuntime
from onnxdyno.domain.assignments import Assignment, Began, Done, Event, Pass, Ran, Refused, Turn, Unusable
from onnxdyno.domain.axes import Role
from onnxdyno.domain.errors import DeviceError, ModelError, PointError
from onnxdyno.domain.models import Dim, InputRecipe
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
from onnxdyno.domain.plan import Point, Protocol, Variant
from onnxdyno.execution import Workshop, execute
from onnxdyno.execution.feeds import digest_inputs
from onnxdyno.execution.outputs import describe_outputs, fallback_reason, is_finite
from onnxdyno.ports import Sighting

SECOND = 1_000_000_000
CASES = Path(__file__).parents[1] / "cases"
BATCH = Dim(role=Role.BATCH, axes=("batch",))
RECIPE = InputRecipe(
    name="x", kind="tensor", dtype="float32", dims=(BATCH, Dim(role=Role.OTHER, constant=4)), rule="normal"
)


class Ticks:
    """A clock that goes on by 10 ms whenever it is read."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        self.now_ns += 10_000_000
        return self.now_ns


def double(feeds: dict[str, Any]) -> Sequence[tuple[str, Any]]:
    """y = 2 x."""
    return [("y", feeds["x"] * 2)]


def asked(kind: Pass, *points: Point, **changes: Any) -> Assignment:
    """An assignment over these points on the CPU."""
    values: dict[str, Any] = {
        "kind": kind,
        "launch": 2,
        "launches": 3,
        "model_path": "model.onnx",
        "device": make.cpu_device(),
        "threads": 1,
        "recipes": (RECIPE,),
        "turns": tuple(Turn(point=point, budget_ns=5 * SECOND) for point in points),
        "seed": 0,
        "protocol": Protocol(),
    }
    return Assignment(**(values | changes))


def said(
    assignment: Assignment,
    model: FakeModel,
    *,
    refusal: Exception | None = None,
    gauge: FakeGauge | None = None,
    clock: Ticks | None = None,
) -> list[Event]:
    """Every event of one assignment."""
    events: list[Event] = []
    clock = clock or Ticks()
    shop = Workshop(
        runtime=FakeRuntime(model, refusal),
        gauge=gauge or FakeGauge(),
        clock=clock,
        witness_of=lambda _: lambda: Sighting(cpu_ns=clock()),
        emit=events.append,
        scratch=Path(),
    )
    execute(assignment, shop)
    return events


def kinds(events: Sequence[Event]) -> list[str]:
    """Names of the events' types."""
    return [type(event).__name__ for event in events]


ONE, TWO, FOUR = (make.point(batch=size) for size in (1, 2, 4))


def refuses(batch: int, error: Exception) -> FakeModel:
    """A model that fails at one batch size."""

    def act(feeds: dict[str, Any]) -> Sequence[tuple[str, Any]]:
        if len(feeds["x"]) == batch:
            raise error
        return double(feeds)

    return FakeModel(act)


def test_timing_measures_every_point_in_the_order_it_was_asked() -> None:
    events = said(asked(Pass.TIMING, TWO, ONE), FakeModel(double))
    assert kinds(events) == ["LaunchReading", "Began", "Measured", "Began", "Measured", "Done"]
    assert [event.turn for event in events if isinstance(event, Began)] == [0, 1]
    two, one = (event for event in events if isinstance(event, Measured))
    assert (two.point, one.point) == (TWO, ONE)
    assert two.launch == 2
    assert two.outputs == ("y float32[2,4]",)
    assert set(two.samples_ns) == {10_000_000}
    assert two.runs == len(two.samples_ns)
    assert two.state is PointState.OK


def unsteady(clock: Ticks) -> FakeModel:
    """A model whose calls at a batch of two take 20 or 40 ms in turn: no budget makes their median precise."""
    turns = count()

    def act(feeds: dict[str, Any]) -> Sequence[tuple[str, Any]]:
        if len(feeds["x"]) == 2:
            for _ in range(1 + 2 * (next(turns) % 2)):
                clock()
        return double(feeds)

    return FakeModel(act)


def test_what_a_turn_leaves_of_its_time_the_next_may_use_up_to_twice_its_own() -> None:
    def taken_s(*points: Point) -> float:
        clock = Ticks()
        turns = tuple(Turn(point=each, budget_ns=5 * SECOND) for each in points)
        events = said(asked(Pass.TIMING, turns=turns), unsteady(clock), clock=clock)
        last = [event for event in events if isinstance(event, Measured)][-1]
        assert (last.point, last.state) == (TWO, PointState.UNCONVERGED)
        return (sum(last.warm_up_ns) + sum(last.samples_ns)) / SECOND

    alone_s = taken_s(TWO)
    assert alone_s < 5
    assert 1.2 * alone_s < taken_s(ONE, TWO) < 10
    assert 1.8 * alone_s < taken_s(ONE, ONE, FOUR, TWO) < 10


def test_a_shape_is_cold_only_once_in_a_process_whatever_variant_came_first() -> None:
    warm = replace(ONE, variant=Variant.E2E)
    loading = count()

    def slow_at_first(feeds: dict[str, Any]) -> Sequence[tuple[str, Any]]:
        if next(loading) == 0:
            for _ in range(20):
                clock()
        return double(feeds)

    clock = Ticks()
    events = said(asked(Pass.TIMING, ONE, warm, TWO), FakeModel(slow_at_first), clock=clock)
    device, e2e, two = (event.first_run_ns for event in events if isinstance(event, Measured))
    assert device == e2e == 210_000_000
    assert two == 10_000_000


def test_three_different_input_sets_are_rotated_and_their_digest_is_kept() -> None:
    model = FakeModel(double)
    events = said(asked(Pass.TIMING, ONE), model)
    values = [feeds["x"].tobytes() for _, feeds in model.bound]
    assert len(set(values)) == 3
    (first,) = (event for event in events if isinstance(event, Measured))
    again = said(asked(Pass.TIMING, ONE, launch=3), FakeModel(double))
    other = said(asked(Pass.TIMING, ONE, seed=1), FakeModel(double))
    assert first.input_sha256 == next(event.input_sha256 for event in again if isinstance(event, Measured))
    assert first.input_sha256 != next(event.input_sha256 for event in other if isinstance(event, Measured))


def test_huge_inputs_are_not_made_thrice() -> None:
    wide = replace(RECIPE, dims=(BATCH, Dim(role=Role.OTHER, constant=50 * 2**20)), rule="constant")
    model = FakeModel(lambda feeds: [("y", feeds["x"][:, :1])])
    said(asked(Pass.TIMING, ONE, recipes=(wide,), protocol=Protocol(least_samples=1, least_time_ns=1)), model)
    assert len(model.bound) == 1


@pytest.mark.parametrize(
    ("kind", "error", "state"),
    [
        (Pass.TIMING, RuntimeError("no such size"), PointState.SHAPE_ERROR),
        (Pass.PROBE, RuntimeError("no such size"), PointState.SHAPE_ERROR),
        (Pass.PROBE, MemoryError("4 TiB"), PointState.OOM),
    ],
)
def test_a_point_that_fails_is_skipped_and_the_next_is_tried(kind: Pass, error: Exception, state: PointState) -> None:
    events = said(asked(kind, TWO, ONE), refuses(2, error))
    assert kinds(events)[:4] == ["LaunchReading", "Began", "Skipped", "Began"]
    (skip,) = (event for event in events if isinstance(event, Skipped))
    assert (skip.point, skip.state, skip.reason) == (TWO, state, str(error))
    assert kinds(events)[4:] == ["Ran" if kind is Pass.PROBE else "Measured", "Done"]


def test_a_process_that_ran_out_of_memory_times_no_other_point() -> None:
    """The arena may keep all the memory that it took before it gave up: what follows needs a fresh process."""
    events = said(asked(Pass.TIMING, TWO, ONE), refuses(2, MemoryError("4 TiB")))
    assert kinds(events) == ["LaunchReading", "Began", "Skipped"]


def test_a_call_that_fails_while_it_is_timed_is_skipped_too() -> None:
    calls: list[int] = []

    def act(feeds: dict[str, Any]) -> Sequence[tuple[str, Any]]:
        calls.append(1)
        if len(calls) == 7:
            raise RuntimeError("after a while")
        return double(feeds)

    events = said(asked(Pass.TIMING, ONE, TWO), FakeModel(act))
    assert kinds(events) == ["LaunchReading", "Began", "Skipped", "Began", "Measured", "Done"]


def test_inputs_that_no_memory_holds_are_oom() -> None:
    huge = replace(RECIPE, dims=(BATCH, Dim(role=Role.OTHER, constant=2**45)))
    events = said(asked(Pass.TIMING, ONE, recipes=(huge,)), FakeModel(double))
    assert [event.state for event in events if isinstance(event, Skipped)] == [PointState.OOM]


def test_a_probe_stops_at_the_first_that_runs() -> None:
    events = said(asked(Pass.PROBE, ONE, TWO, FOUR), refuses(1, RuntimeError("no")))
    assert kinds(events) == ["LaunchReading", "Began", "Skipped", "Began", "Ran", "Done"]
    (ran,) = (event for event in events if isinstance(event, Ran))
    assert ran.point == TWO
    assert ran.outputs == ("y float32[2,4]",)
    assert ran.run_ns == 10_000_000


@pytest.mark.parametrize("kind", [each for each in Pass if each not in (Pass.COPY, Pass.COLD, Pass.CEILINGS)])
def test_a_refused_model_is_told_in_every_pass_and_the_process_ends_in_order(kind: Pass) -> None:
    refusal = ModelError(ModelState.UNSUPPORTED, "no kernel.", "Export it otherwise.")
    events = said(asked(kind, ONE), FakeModel(double), refusal=refusal)
    assert events[-2:] == [
        Refused(state=ModelState.UNSUPPORTED, reason="no kernel.", remedy="Export it otherwise."),
        Done(),
    ]


@pytest.mark.parametrize("kind", [each for each in Pass if each is not Pass.COPY])
def test_a_device_that_does_not_start_is_told_in_every_pass(kind: Pass) -> None:
    events = said(asked(kind, ONE), FakeModel(double), refusal=DeviceError("no CUDA here."))
    assert events[-2:] == [Unusable(reason="no CUDA here."), Done()]


def test_an_optimisation_level_that_refuses_the_model_does_not_condemn_it() -> None:
    refusal = ModelError(ModelState.UNSUPPORTED, "no kernel.", "Export it otherwise.")
    events = said(asked(Pass.COLD, ONE), FakeModel(double), refusal=refusal)
    assert kinds(events) == ["Began", "ColdReading", "Done"]


@pytest.mark.parametrize("kind", [Pass.MEMORY, Pass.PROFILE, Pass.TIMING, Pass.COLD])
def test_memory_that_fails_after_the_probe_is_the_points_and_does_not_condemn_the_model(kind: Pass) -> None:
    refusal = ModelError(ModelState.TOO_LARGE, "Failed to allocate memory.", "Use a device with more memory.")
    events = said(asked(kind, ONE), FakeModel(double), refusal=refusal)
    assert not any(isinstance(event, Refused) for event in events)
    (skip,) = (event for event in events if isinstance(event, Skipped))
    assert (skip.state, skip.reason) == (PointState.OOM, "Failed to allocate memory.")


def test_a_model_too_large_for_the_probe_is_refused() -> None:
    refusal = ModelError(ModelState.TOO_LARGE, "Failed to allocate memory.", "Use a device with more memory.")
    events = said(asked(Pass.PROBE, ONE), FakeModel(double), refusal=refusal)
    assert any(isinstance(event, Refused) for event in events)


def test_memory_is_read_over_a_baseline_without_the_model() -> None:
    gauge = FakeGauge(used=1000)

    def act(feeds: dict[str, Any]) -> Sequence[tuple[str, Any]]:
        gauge.take(7)
        return double(feeds)

    events = said(asked(Pass.MEMORY, TWO), FakeModel(act), gauge=gauge)
    assert kinds(events) == ["Began", "LaunchReading", "MemoryReading", "Done"]
    (reading,) = (event for event in events if isinstance(event, MemoryReading))
    assert (reading.baseline_bytes, reading.peak_bytes) == (1000, 14)


def test_a_profile_is_of_five_runs_after_one_that_is_discarded() -> None:
    calls: list[int] = []

    def act(feeds: dict[str, Any]) -> Sequence[tuple[str, Any]]:
        calls.append(1)
        return double(feeds)

    model = FakeModel(act, profile_file=CASES / "data" / "profile_cap_with_marker.json")
    events = said(asked(Pass.PROFILE, ONE), model)
    assert kinds(events) == ["Began", "LaunchReading", "Profile", "Done"]
    assert len(calls) >= 1 + 5
    (profile,) = (event for event in events if isinstance(event, Profile))
    assert not profile.is_complete
    assert profile.point == ONE


GPU_PLACED = (
    ("CPUExecutionProvider", "MatMul", 2),
    ("CPUExecutionProvider", "Shape", 9),
    ("CUDAExecutionProvider", "Conv", 3),
)


def test_compute_nodes_that_a_gpu_run_left_to_the_cpu_take_its_numbers_away() -> None:
    events = said(asked(Pass.TIMING, ONE, TWO, device=make.gpu_device()), FakeModel(double, placed=GPU_PLACED))
    skips = [event for event in events if isinstance(event, Skipped)]
    assert [skip.state for skip in skips] == [PointState.EP_FALLBACK] * 2
    assert skips[0].reason == "compute nodes ran on the CPU: 2 MatMul."
    assert not any(isinstance(event, Measured) for event in events)


def test_shape_nodes_on_the_cpu_are_legitimate_and_flagged() -> None:
    events = said(asked(Pass.TIMING, ONE, device=make.gpu_device()), FakeModel(double, placed=GPU_PLACED[1:]))
    (got,) = (event for event in events if isinstance(event, Measured))
    assert got.flags == (Flag.CPU_NODES,)


def test_on_the_cpu_nothing_is_a_fallback() -> None:
    assert fallback_reason(GPU_PLACED, make.cpu_device()) is None


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_outputs_that_are_not_finite_flag_the_point_which_stays_ok(bad: float) -> None:
    def act(feeds: dict[str, Any]) -> Sequence[tuple[str, Any]]:
        return [("y", np.array([1.0, bad], np.float32))]

    (got,) = (event for event in said(asked(Pass.TIMING, ONE), FakeModel(act)) if isinstance(event, Measured))
    assert (got.state, got.flags) == (PointState.OK, (Flag.NON_FINITE,))


def test_whatever_is_no_float_tensor_counts_as_finite() -> None:
    assert is_finite(np.array(["a"], object))
    assert is_finite([{0: float("nan")}])
    assert is_finite(np.array([1, 2]))
    assert not is_finite(np.array(np.nan, np.float16))


def test_outputs_are_described_by_type_and_shape() -> None:
    values = [("y", np.zeros((1, 0), np.float16)), ("s", np.array(3)), ("maps", [{}, {}, {}]), ("none", None)]
    assert describe_outputs(values) == ("y float16[1,0]", "s int64[]", "maps list(3)", "none NoneType")


@pytest.mark.parametrize("dtype", ["float16", "bool", "int8", "bfloat16", "object"])
def test_a_digest_is_taken_of_every_type_and_depends_on_every_value(dtype: str) -> None:
    import ml_dtypes

    kind: Any = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    one, other = np.zeros(3000, kind), np.zeros(3000, kind)
    other[1500] = 1
    assert digest_inputs([{"x": one}]) == digest_inputs([{"x": one.copy()}])
    assert digest_inputs([{"x": one}]) != digest_inputs([{"x": other}])
    assert digest_inputs([{"x": one}]) != digest_inputs([{"y": one}])


def test_a_digest_tells_shapes_scalars_and_empty_inputs_apart() -> None:
    values = [
        np.zeros((2, 3)),
        np.zeros((3, 2)),
        np.zeros(()),
        np.zeros((0, 4)),
        [np.zeros(2)],
        [np.zeros(2), np.zeros(2)],
    ]
    assert len({digest_inputs([{"x": value}]) for value in values}) == len(values)


def test_a_launch_says_what_ran_it() -> None:
    events = said(asked(Pass.TIMING, ONE), FakeModel(double))
    assert events[0] == LaunchReading(
        launch=2,
        session_ns=5_000_000,
        providers=("CPUExecutionProvider",),
        assignment=(("CPUExecutionProvider", "Conv", 1),),
        runtime=(("fake", "1"), ("CPUExecutionProvider.device_id", "0"), ("spinning", "true")),
    )


def test_a_point_error_of_the_runtime_keeps_its_remedy() -> None:
    def act(feeds: dict[str, Any]) -> Sequence[tuple[str, Any]]:
        raise PointError(PointState.UNSUPPORTED, "no strings here.", "Use the variant e2e.")

    (skip,) = (event for event in said(asked(Pass.PROBE, ONE), FakeModel(act)) if isinstance(event, Skipped))
    assert (skip.state, skip.remedy) == (PointState.UNSUPPORTED, "Use the variant e2e.")
