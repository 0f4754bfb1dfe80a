"""Somebody else on the GPU while memory, cold numbers or a profile are read: what of the answer is left, and why."""

from collections.abc import Callable, Generator
from typing import Any

import pytest

import factories as make
from fakes import FakeSampler
from onnxdyno.analysis import analyse
from onnxdyno.domain.assignments import Assignment, Pass, Turn
from onnxdyno.domain.ceilings import CeilingReading
from onnxdyno.domain.cold import ColdReading
from onnxdyno.domain.devices import Device
from onnxdyno.domain.errors import DeviceBusy, DeviceError
from onnxdyno.domain.outcomes import ArenaReading, Explored, Measured, MemoryReading, PointState, Profile, Skipped
from onnxdyno.domain.plan import Protocol
from onnxdyno.domain.sessions import Optimisation, SessionRecipe
from onnxdyno.domain.telemetry import TelemetrySample, Tenant
from onnxdyno.launching.driving import Answer
from onnxdyno.launching.telemetry import undisturbed, watched
from onnxdyno.reporting import markdown

MS = 1_000_000
POINT = make.point(batch=1)
GPU = make.gpu_device()
OURS = Tenant(pid=100, used_bytes=2**30, is_ours=True)
THEIRS = Tenant(pid=4242, used_bytes=2**29, is_ours=False)
HOSTS = Tenant(pid=77, used_bytes=2**29, is_ours=False)
"""What our own process looks like from within a container."""
MEMORY = make.memory_reading(POINT, load_peak_bytes=1, run_peak_bytes=2, device_before_bytes=3, process_bytes=4)
COLD = ColdReading(point=POINT, optimisation=Optimisation.ALL, launch=1, session_ns=5, first_run_ns=6)
PROFILE = make.profile(POINT, (make.node(provider="CUDAExecutionProvider"),), arena_peak_bytes=7, arena_held_bytes=8)
ANSWERS: dict[Pass, Answer] = {Pass.MEMORY: MEMORY, Pass.COLD: COLD, Pass.PROFILE: PROFILE}


def assignment(kind: Pass, **changes: Any) -> Assignment:
    values: dict[str, Any] = {
        "kind": kind,
        "launch": 1,
        "launches": 3,
        "model_path": "model.onnx",
        "device": GPU,
        "threads": 1,
        "recipes": (),
        "turns": (Turn(point=POINT, budget_ns=0),),
        "seed": 0,
        "protocol": Protocol(),
    }
    return Assignment(**(values | changes))


def readings(**fields: Any) -> list[TelemetrySample | None]:
    """One every 50 ms for ten seconds; a field that is a function is asked with the time in ms."""
    return [
        TelemetrySample(
            t_ns=at * MS, **{name: value(at) if callable(value) else value for name, value in fields.items()}
        )
        for at in range(0, 10_000, 50)
    ]


def read(
    kind: Pass, samples: list[TelemetrySample | None], *says: Answer, until_ms: int = 1000, **changes: Any
) -> list[Answer]:
    """What comes of a process that works until then: the device is read meanwhile."""
    sampler = FakeSampler(samples)

    def answers() -> Generator[Answer, None, None]:
        for at in range(0, until_ms, 50):
            sampler.recordings[0].wait_past(at * MS - 1, 1.0)
        yield from says or (ANSWERS[kind],)

    found = list(watched(answers, assignment(kind, **changes), sampler))
    assert [recording.stops for recording in sampler.recordings] == [1]
    return found


def alone(at: int) -> tuple[Tenant, ...]:
    return (OURS,) if 100 < at < 1000 else ()


def with_a_stranger(at: int) -> tuple[Tenant, ...]:
    return (*alone(at), *((THEIRS,) if 500 <= at < 600 else ()))


@pytest.mark.parametrize("kind", ANSWERS)
def test_what_was_read_alone_stays_as_it_is(kind: Pass) -> None:
    assert read(kind, readings(tenants=alone, memory_used_bytes=0, utilisation=0.0)) == [ANSWERS[kind]]
    assert read(kind, [None]) == [ANSWERS[kind]], "a driver that does not answer judges nothing"


def test_memory_that_was_read_beside_somebody_else_is_null_with_the_reason() -> None:
    (found,) = read(Pass.MEMORY, readings(tenants=with_a_stranger))
    assert isinstance(found, MemoryReading)
    assert (found.baseline_bytes, found.peak_bytes, found.load_peak_bytes, found.run_peak_bytes) == (None,) * 4
    assert (found.reason or "").startswith("foreign_tenant: ")
    assert "process 4242 " in (found.reason or "")
    assert found.process_bytes == 4, "what the driver counts for our process is ours alone"


def test_a_profile_that_was_made_beside_somebody_else_is_incomplete_and_has_no_times() -> None:
    (found,) = read(Pass.PROFILE, readings(tenants=with_a_stranger))
    assert isinstance(found, Profile)
    assert (found.is_complete, found.nodes, found.slices, found.model_run_ns) == (False, (), (), None)
    assert "process 4242 " in (found.reason or "")
    assert found.arena_peak_bytes == 7, "the allocator's own figure is nobody else's"


def test_a_profile_that_proves_compute_on_the_cpu_goes_on_proving_it() -> None:
    stray = make.profile(POINT, (make.node(provider="CPUExecutionProvider"),))
    (found,) = read(Pass.PROFILE, readings(tenants=with_a_stranger), stray)
    assert isinstance(found, Profile)
    assert found.nodes == stray.nodes
    assert not found.is_complete
    assert "process 4242 " in (found.reason or "")


def test_cold_numbers_beside_somebody_else_are_null() -> None:
    (found,) = read(Pass.COLD, readings(tenants=with_a_stranger))
    assert isinstance(found, ColdReading)
    assert (found.session_ns, found.first_run_ns) == (None, None)
    assert "process 4242 " in (found.reason or "")


@pytest.mark.parametrize("kind", ANSWERS)
def test_where_somebody_is_there_before_nothing_is_started_and_only_the_reading_is_lost(kind: Pass) -> None:
    sampler = FakeSampler(readings(tenants=(THEIRS,)))
    started: list[Pass] = []

    def answers() -> Generator[Answer, None, None]:
        started.append(kind)
        yield ANSWERS[kind]

    recipe = SessionRecipe(optimisation=Optimisation.BASIC)
    (found,) = watched(answers, assignment(kind, recipe=recipe), sampler)
    assert type(found) is type(ANSWERS[kind])
    assert isinstance(found, MemoryReading | ColdReading | Profile)
    assert (found.reason or "").startswith("foreign_tenant: before anything was started, process 4242 ")
    if isinstance(found, ColdReading):
        assert found.optimisation is Optimisation.BASIC
    assert not started


def test_in_a_container_one_process_is_ours_and_two_at_once_are_one_too_many() -> None:
    def hosts(at: int) -> tuple[Tenant, ...]:
        return (HOSTS,) if 100 < at < 1000 else ()

    assert read(Pass.MEMORY, readings(tenants=hosts)) == [MEMORY]
    (found,) = read(Pass.MEMORY, readings(tenants=lambda at: (*hosts(at), *((THEIRS,) if at == 500 else ()))))
    assert isinstance(found, MemoryReading)
    assert found.peak_bytes is None
    assert "processes 77, 4242 " in (found.reason or "")


def test_memory_that_is_still_in_use_after_the_process_is_somebody_elses_where_no_process_is_told() -> None:
    def used(at: int) -> int:
        return 2**30 if at > 400 else 0

    (found,) = read(Pass.MEMORY, readings(memory_used_bytes=used))
    assert isinstance(found, MemoryReading)
    assert found.peak_bytes is None
    assert "1,024 MiB" in (found.reason or "")

    def given_back(at: int) -> int:
        return 2**30 if 400 < at < 1500 else 0

    assert read(Pass.MEMORY, readings(memory_used_bytes=given_back)) == [MEMORY], "ours, on its way out"


def test_our_own_process_that_is_listed_for_a_moment_after_its_end_is_no_stranger() -> None:
    gone = Tenant(pid=OURS.pid, used_bytes=0, is_ours=False)

    def tenants(at: int) -> tuple[Tenant, ...]:
        return (OURS,) if 100 < at < 900 else (gone,) if 900 <= at < 1200 else ()

    assert read(Pass.MEMORY, readings(tenants=tenants)) == [MEMORY]


def test_utilisation_of_what_ran_before_holds_up_no_memory_process() -> None:
    busy = readings(utilisation=0.9, tenants=alone)
    assert read(Pass.MEMORY, busy) == [MEMORY]
    (found,) = read(Pass.PROFILE, busy)
    assert isinstance(found, Profile)
    assert "90% busy" in (found.reason or ""), "a profile waits for an idle device, and does without"


def test_a_profile_says_that_the_device_was_throttled_and_keeps_its_shares() -> None:
    (found,) = read(Pass.PROFILE, readings(tenants=alone, clock_events=lambda at: 0x40 if at == 500 else 0x4))
    assert isinstance(found, Profile)
    assert found.nodes == PROFILE.nodes
    assert found.reason == "the device reported hw_thermal_slowdown while it was profiled"
    assert read(Pass.MEMORY, readings(tenants=alone, clock_events=0x40)) == [MEMORY]


@pytest.mark.parametrize("kind", [Pass.MEMORY, Pass.TIMING, Pass.ARENA])
def test_out_of_memory_beside_somebody_else_is_foreign_tenant(kind: Pass) -> None:
    full = make.skipped(POINT, PointState.OOM, "Failed to allocate memory")
    (found,) = read(kind, readings(tenants=with_a_stranger), full)
    assert isinstance(found, Skipped)
    assert found.state is PointState.FOREIGN_TENANT
    assert "process 4242 " in found.reason
    assert "Failed to allocate memory" in found.reason
    (found,) = read(kind, readings(tenants=alone), full)
    assert isinstance(found, Skipped)
    assert found.state is PointState.OOM


def test_the_arenas_own_figures_stand_beside_somebody_else() -> None:
    arena = ArenaReading(point=POINT, peak_bytes=1, held_bytes=2, runs=5)
    assert read(Pass.ARENA, readings(tenants=with_a_stranger), arena) == [arena]


def test_no_arena_is_started_beside_somebody_else() -> None:
    (found,) = read(
        Pass.ARENA, readings(tenants=(THEIRS,)), ArenaReading(point=POINT, peak_bytes=1, held_bytes=2, runs=5)
    )
    assert isinstance(found, Skipped)
    assert found.state is PointState.FOREIGN_TENANT


@pytest.mark.parametrize(("tenants", "state"), [(with_a_stranger, PointState.FOREIGN_TENANT), (alone, PointState.OOM)])
def test_sizes_that_found_no_memory_beside_somebody_else_are_not_too_large(
    tenants: Callable[[int], tuple[Tenant, ...]], state: PointState
) -> None:
    full = Explored(sizes=POINT.sizes, call_ns=None, state=PointState.OOM, reason="Failed to allocate memory")
    fine = Explored(sizes=POINT.sizes, call_ns=5)
    found, same = read(Pass.PROBE, readings(tenants=tenants), full, fine)
    assert isinstance(found, Explored)
    assert (found.state, same) == (state, fine)


def test_a_gpu_that_is_lost_while_memory_is_read_ends_the_run() -> None:
    with pytest.raises(DeviceError, match="GPU is lost"):
        read(Pass.MEMORY, readings(is_lost=lambda at: at > 500))


def test_a_run_with_a_stranger_in_its_memory_and_profile_says_so_and_keeps_its_latency() -> None:
    (memory,) = read(Pass.MEMORY, readings(tenants=with_a_stranger))
    (profile,) = read(Pass.PROFILE, readings(tenants=with_a_stranger))
    assert isinstance(memory, MemoryReading)
    assert isinstance(profile, Profile)
    plan = make.plan((POINT,), device=GPU)
    run = make.benchmark_run((make.measured(POINT),), plan=plan, memory=(memory,), profiles=(profile,))
    found = analyse(run)
    (point,) = found.points
    assert point.p50_ns.value is not None
    assert point.peak_memory_bytes is None
    assert "foreign_tenant" in (point.peak_memory_reason or "")
    assert point.memory is not None
    assert {"baseline_bytes", "peak_bytes", "run_peak_bytes", "context_bytes", "residual_bytes"} <= set(
        point.memory.reasons
    )
    assert "process 4242" in markdown.summary(run, found)
    assert isinstance(run.outcomes[0], Measured)


def calibrated(samples: list[TelemetrySample | None], device: Device = GPU) -> list[Answer]:
    """Ceilings, which are kept on the disk for all later runs: two micro-models."""
    sampler = FakeSampler(samples)
    says = [CeilingReading(micro=name, launch=1, call_ns=5.0) for name in ("one", "two")]

    def answers() -> Generator[Answer, None, None]:
        for at in range(0, 1000 if sampler.recordings else 0, 50):
            sampler.recordings[0].wait_past(at * MS - 1, 1.0)
        yield from says

    return list(undisturbed(answers, assignment(Pass.CEILINGS, device=device), sampler))


def test_ceilings_are_kept_only_if_nobody_else_was_there_and_nothing_throttled() -> None:
    assert len(calibrated(readings(tenants=alone, clock_events=0x4))) == 2
    assert len(calibrated(readings(tenants=(THEIRS,)), make.cpu_device())) == 2
    for samples in (readings(tenants=with_a_stranger), readings(tenants=(THEIRS,))):
        with pytest.raises(DeviceBusy, match="process 4242 computed"):
            calibrated(samples)
    with pytest.raises(DeviceError, match="hw_thermal_slowdown"):
        calibrated(readings(tenants=alone, clock_events=lambda at: 0x40 if at == 500 else 0))
