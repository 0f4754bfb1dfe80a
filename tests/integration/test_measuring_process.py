"""The real measuring process on real models: what it reads, how it is confined, and how it may end."""

import os
import select
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Thread
from typing import Any

import onnx
import psutil
import pytest
from onnx import TensorProto, helper

from factories import cpu_device, gpu_device, point
from onnxdyno import wire
from onnxdyno.adapters import host
from onnxdyno.adapters.cgroups import CgroupBounds
from onnxdyno.adapters.processes import (
    DeviceLock,
    Process,
    ProcessLauncher,
    make_scratch,
    pinned_environment,
    remove_left_behind,
)
from onnxdyno.domain.assignments import Assignment, Began, Pass, Ran, Turn
from onnxdyno.domain.axes import Role
from onnxdyno.domain.devices import Device
from onnxdyno.domain.errors import DeviceBusy, DeviceError, InfrastructureError, ModelError
from onnxdyno.domain.models import Dim, InputRecipe
from onnxdyno.domain.outcomes import (
    ArenaReading,
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
from onnxdyno.domain.sessions import ArenaStrategy, SessionRecipe
from onnxdyno.launching.driving import Answer, Limits, drive
from onnxdyno.ports import Exit, Launch, Launcher

CASES = Path(__file__).parents[1] / "cases"
GIB = 2**30
QUICK = Protocol(warm_up_runs=2, window_ns=2_000_000, least_samples=12, least_time_ns=1_000_000)
PATIENT = Limits(load_s=60, turn_s=lambda _: 60)


def dims(*sizes: str | int) -> tuple[Dim, ...]:
    """Axis names and fixed sizes."""
    return tuple(
        Dim(role=Role.OTHER, axes=(size,)) if isinstance(size, str) else Dim(role=Role.OTHER, constant=size)
        for size in sizes
    )


def recipe(name: str, *sizes: str | int, dtype: str = "float32", rule: str = "normal", **changes: Any) -> InputRecipe:
    """One tensor input."""
    return InputRecipe(name=name, kind="tensor", dtype=dtype, dims=dims(*sizes), rule=rule, **changes)


UNET = "unet_multiple_of_8.onnx", (recipe("x", "batch", 3, "height", "width"),)
OOM = "batch_oom_64MiB_per_item.onnx", (recipe("x", "batch", 4096),)
STEPS = recipe("n_steps", dtype="int64", rule="constant", low=3)
ENDLESS = "loop_tripcount_input.onnx", (recipe("x", "batch", 32), replace(STEPS, low=float(2**40)))
SHORT = "loop_tripcount_input.onnx", (recipe("x", "batch", 32), STEPS)
ONE, TWO, FOUR = (point(batch=size) for size in (1, 2, 4))


def cpu() -> Device:
    """This machine's CPU."""
    (device,) = host.CpuProbe("1.31.1").devices()
    return device


def asked(model: tuple[str, tuple[InputRecipe, ...]], kind: Pass, *points: Point, **changes: Any) -> Assignment:
    """An assignment on this machine's CPU."""
    name, recipes = model
    values: dict[str, Any] = {
        "kind": kind,
        "launch": 1,
        "launches": 3,
        "model_path": str(CASES / name),
        "device": cpu(),
        "threads": 1,
        "recipes": recipes,
        "turns": tuple(Turn(point=each, budget_ns=400_000_000) for each in points),
        "seed": 0,
        "protocol": QUICK,
        "memory_limit_bytes": 4 * GIB,
    }
    return Assignment(**(values | changes))


@dataclass
class Watched:
    """A launch whose lines are seen as they come."""

    process: Process
    on_line: Callable[[Process, bytes], None]

    def events(self, silence_s: Callable[[], float]) -> Generator[bytes, None, None]:
        for line in self.process.events(silence_s):
            self.on_line(self.process, line)
            yield line

    def stop(self) -> Exit:
        return self.process.stop()


@dataclass
class Watching:
    """A launcher that remembers the processes and assignments of a real one."""

    launcher: ProcessLauncher
    on_line: Callable[[Process, bytes], None] = lambda process, line: None
    processes: list[Process] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)

    def start(self, device: Device, assignment: bytes) -> Launch:
        process = self.launcher.start(device, assignment)
        self.processes.append(process)
        self.assignments.append(wire.decode_assignment(assignment))
        return Watched(process, self.on_line)


_WATCHING: type[Launcher] = Watching


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where scratch folders are made."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def launcher(tmp_path: Path, scratch: Path) -> Iterator[Watching]:
    """A launcher under the CPU's lock; nothing may be left when the test ends."""
    with DeviceLock(tmp_path / "locks", cpu(), 0, print) as lock:
        watching = Watching(ProcessLauncher(lock, host.oom_kills))
        yield watching
        assert list(scratch.iterdir()) == [], "a scratch folder was left"
        for process in watching.processes:
            assert not psutil.pid_exists(process.pid)


def run(launcher: Launcher, assignment: Assignment, limits: Limits = PATIENT) -> list[Answer]:
    """Every answer."""
    return list(drive(launcher, assignment, limits))


def states(answers: Sequence[Answer]) -> dict[int, str]:
    """State by batch; a point is answered once."""
    points = [each for each in answers if isinstance(each, Measured | Skipped)]
    assert len({each.point for each in points}) == len(points)
    return {dict(each.point.sizes)["batch"]: each.state.value for each in points}


def skips(answers: Sequence[Answer]) -> list[Skipped]:
    """What has no number."""
    return [each for each in answers if isinstance(each, Skipped)]


GOOD, BAD = point(batch=1, height=32, width=32), point(batch=1, height=36, width=36)


def test_a_probe_finds_the_first_size_that_runs(launcher: Watching) -> None:
    answers = run(launcher, asked(UNET, Pass.PROBE, BAD, GOOD, point(batch=1, height=64, width=40)))
    reading, bad, ran = answers
    assert isinstance(reading, LaunchReading)
    assert reading.session_ns > 0
    assert reading.providers == ("CPUExecutionProvider",)
    assert {provider for provider, _, _ in reading.assignment} == {"CPUExecutionProvider"}
    assert "Conv" in {op_type for _, op_type, _ in reading.assignment}
    assert dict(reading.runtime)["onnxruntime"]
    assert isinstance(bad, Skipped)
    assert bad.state is PointState.SHAPE_ERROR
    assert "skip" in bad.reason
    assert isinstance(ran, Ran)
    assert ran.point == GOOD
    assert ran.run_ns > 0
    assert ran.outputs[0].endswith(",32,32]")


def test_timing_measures_what_runs_and_names_what_does_not(launcher: Watching) -> None:
    """O09: one row each, and the sweep goes on."""
    odd, small = point(batch=1, height=33, width=40), point(batch=1, height=4, width=4)
    large = point(batch=2, height=64, width=40)
    answers = run(launcher, asked(UNET, Pass.TIMING, GOOD, BAD, odd, small, large))
    measured = {each.point: each for each in answers if isinstance(each, Measured)}
    assert set(measured) == {GOOD, large}
    assert {each.point: each.state for each in skips(answers)} == dict.fromkeys(
        (BAD, odd, small), PointState.SHAPE_ERROR
    )
    assert len(launcher.processes) == 1
    for each in measured.values():
        assert each.samples_ns
        assert min(each.samples_ns) > 0
        assert 0 < each.runs <= len(each.samples_ns)
        assert each.busy_ns >= each.runs * min(each.samples_ns)
        assert len(each.input_sha256) == 64
        assert each.first_run_ns > 0


@pytest.mark.parametrize("variant", [Variant.DEVICE, Variant.E2E])
def test_both_variants_of_the_same_point_give_the_same_outputs(launcher: Watching, variant: Variant) -> None:
    answers = run(launcher, asked(UNET, Pass.TIMING, replace(GOOD, variant=variant)))
    (got,) = (each for each in answers if isinstance(each, Measured))
    assert got.outputs[0].endswith(",32,32]")


@pytest.mark.parametrize("variant", [Variant.ENQUEUE, Variant.GRAPH])
def test_a_variant_of_cuda_is_one_row_without_a_number_on_the_cpu(launcher: Watching, variant: Variant) -> None:
    answers = run(launcher, asked(UNET, Pass.TIMING, replace(GOOD, variant=variant)))
    (skip,) = (each for each in answers if isinstance(each, Skipped))
    assert skip.state is PointState.NOT_APPLICABLE
    assert not any(isinstance(each, Measured) for each in answers)


def test_memory_grows_with_the_batch_when_each_point_has_its_own_process(launcher: Watching) -> None:
    peaks = []
    for batch in (1, 4):
        answers = run(launcher, asked(OOM, Pass.MEMORY, point(batch=batch)))
        (reading,) = (each for each in answers if isinstance(each, MemoryReading))
        assert reading.reason is None
        assert reading.peak_bytes is not None
        peaks.append(reading.peak_bytes)
    assert peaks[0] > 64 * 2**20
    assert peaks[1] - peaks[0] > 2 * 64 * 2**20
    assert len(launcher.processes) == 2


def test_a_profile_is_read_from_the_real_run(launcher: Watching) -> None:
    (profile,) = (each for each in run(launcher, asked(UNET, Pass.PROFILE, GOOD)) if isinstance(each, Profile))
    assert profile.is_complete
    assert profile.runs == QUICK.profile_runs
    assert profile.model_run_ns is not None
    assert sum(node.self_ns for node in profile.nodes) <= profile.model_run_ns
    assert "Conv" in {node.op_type for node in profile.nodes}


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("custom_domain_op.onnx", ModelState.UNSUPPORTED),
        ("bf16_add.onnx", ModelState.UNSUPPORTED),
        ("truncated_60pct.onnx", ModelState.INVALID_FILE),
        ("external_missing/model.onnx", ModelState.MISSING_EXTERNAL_DATA),
        ("not_there.onnx", ModelState.ENVIRONMENT),
    ],
)
def test_a_refusal_of_the_runtime_becomes_a_model_error_here(launcher: Watching, name: str, state: ModelState) -> None:
    with pytest.raises(ModelError) as refused:
        run(launcher, asked((name, ()), Pass.PROBE, ONE))
    assert refused.value.state is state
    assert refused.value.remedy


STRINGS = "string_input.onnx", (recipe("text", "batch", dtype="string", rule="strings"),)
SEQUENCE = "sequence_input.onnx", (replace(recipe("xs", "batch", 4), kind="sequence"),)
ZIPMAP = "sklearn_logreg_zipmap.onnx", (recipe("X", "batch", 4),)
NAN = "nan_inf_outputs.onnx", (recipe("x", "batch", 4),)
HALF = "fp16_conv.onnx", (recipe("x", "batch", 3, 16, 16, dtype="float16"),)
BOXES = (
    "nms_empty_output.onnx",
    (recipe("boxes", "batch", 6, 4), recipe("scores", "batch", 2, 6, rule="constant", low=-1.0)),
)


@pytest.mark.parametrize("model", [STRINGS, SEQUENCE], ids=["O16", "O17"])
def test_inputs_that_cannot_stay_on_a_device_are_measured_from_the_host(
    launcher: Watching, model: tuple[str, tuple[InputRecipe, ...]]
) -> None:
    answers = run(launcher, asked(model, Pass.TIMING, replace(TWO, variant=Variant.E2E), TWO))
    (got,) = (each for each in answers if isinstance(each, Measured))
    assert got.point.variant is Variant.E2E
    (skip,) = skips(answers)
    assert skip.state is PointState.UNSUPPORTED
    assert skip.reason == f"input {model[1][0].name!r} is no tensor of numbers: it cannot stay on the device."
    assert skip.remedy == "Use the variant e2e."


@pytest.mark.parametrize(
    ("model", "output"),
    [(ZIPMAP, "list(2)"), (HALF, "float16["), (BOXES, "int64[0,3]")],
    ids=["O39", "O31", "O35"],
)
@pytest.mark.parametrize("variant", [Variant.DEVICE, Variant.E2E])
def test_odd_inputs_and_outputs_are_measured(
    launcher: Watching, model: tuple[str, tuple[InputRecipe, ...]], output: str, variant: Variant
) -> None:
    answers = run(launcher, asked(model, Pass.TIMING, replace(TWO, variant=variant)))
    (got,) = (each for each in answers if isinstance(each, Measured))
    assert any(output in each for each in got.outputs), got.outputs


def test_outputs_that_are_not_finite_are_flagged(launcher: Watching) -> None:
    """O30."""
    (got,) = (each for each in run(launcher, asked(NAN, Pass.TIMING, TWO)) if isinstance(each, Measured))
    assert got.flags == (Flag.NON_FINITE,)


def test_a_size_beyond_the_memory_limit_is_oom_and_the_next_one_has_a_process_of_its_own(launcher: Watching) -> None:
    """O37. On its way to giving up the arena may take, and keep, what the smaller size needs."""
    answers = run(launcher, asked(OOM, Pass.TIMING, point(batch=256), TWO, memory_limit_bytes=3 * GIB))
    got = states(answers)
    assert got[256] == "oom"
    assert got[2] in ("ok", "noisy", "not_steady", "unconverged", "disturbed")
    assert "Failed to allocate memory" in skips(answers)[0].reason
    assert len(launcher.processes) == 2


def peaks(launcher: Watching, *batches: int, **changes: Any) -> dict[int, int]:
    """Peak memory by batch, each in a process of its own, in this order."""
    found: dict[int, int] = {}
    for batch in batches:
        answers = run(launcher, asked(OOM, Pass.MEMORY, point(batch=batch), **changes))
        (reading,) = (each for each in answers if isinstance(each, MemoryReading))
        found[batch] = reading.peak_bytes or 0
    return found


def test_memory_of_a_point_is_its_own_and_not_what_a_larger_one_left(launcher: Watching) -> None:
    """O37: 64 MiB an item and twice that while it runs; in one process batch 1 after 16 would show what 16 took."""
    upwards, downwards = peaks(launcher, 1, 4, 8), peaks(launcher, 8, 4, 1)
    for batch, peak_bytes in upwards.items():
        assert downwards[batch] == pytest.approx(peak_bytes, rel=0.05)
        assert peak_bytes / batch > 2 * 64 * 2**20
    assert 6 <= upwards[8] / upwards[1] <= 17
    assert upwards[8] / upwards[4] == pytest.approx(2, rel=0.1)


def test_an_arena_that_grows_by_what_is_asked_takes_no_more_than_the_tensors(launcher: Watching) -> None:
    """O37: two tensors of 64 MiB an item are alive at once."""
    recipe = SessionRecipe(arena=ArenaStrategy.SAME_AS_REQUESTED)
    answers = run(launcher, asked(OOM, Pass.ARENA, point(batch=4), recipe=recipe))
    (arena,) = (each for each in answers if isinstance(each, ArenaReading))
    assert arena.peak_bytes is not None
    assert arena.held_bytes is not None
    assert arena.peak_bytes == pytest.approx(2 * 4 * 64 * 2**20, rel=0.01)
    assert arena.held_bytes >= arena.peak_bytes
    assert peaks(launcher, 4, recipe=recipe)[4] >= arena.peak_bytes


def test_a_limit_of_the_arena_that_is_too_low_is_oom_and_one_that_is_enough_runs(launcher: Watching) -> None:
    low, enough = (SessionRecipe(arena_limit_bytes=limit * 2**20) for limit in (300, 1200))
    (skip,) = skips(run(launcher, asked(OOM, Pass.ARENA, point(batch=4), recipe=low)))
    assert skip.state is PointState.OOM
    assert not skips(run(launcher, asked(OOM, Pass.ARENA, point(batch=4), recipe=enough)))


def test_a_batch_beyond_six_gibibytes_is_oom_in_the_memory_pass_and_the_next_point_is_read(launcher: Watching) -> None:
    """O37: a point that does not fit takes nothing from another."""
    limits = {"memory_limit_bytes": 6 * GIB}
    (skip,) = skips(run(launcher, asked(OOM, Pass.MEMORY, point(batch=256), **limits)))
    assert skip.state is PointState.OOM
    assert "Failed to allocate memory" in skip.reason
    assert peaks(launcher, 2, **limits)[2] > 4 * 64 * 2**20


def test_a_process_held_to_a_memory_cgroup_is_killed_below_its_need_and_the_cgroup_is_gone_after(
    launcher: Watching,
) -> None:
    bounds = CgroupBounds(host.memory_cgroup(), launcher.launcher.joining)
    problem = bounds.problem()
    if problem is not None:
        pytest.skip(problem)
    own = host.memory_cgroup()
    assert own is not None
    before = set(own.iterdir())
    asks = asked(OOM, Pass.FIT, ONE, memory_limit_bytes=None)
    with bounds.bounded(2 * GIB) as wide:
        assert any(isinstance(each, ArenaReading) for each in run(wide, asks))
    with bounds.bounded(150 * 2**20) as narrow:
        (skip,) = skips(run(narrow, asks))
    assert skip.state in (PointState.OOM, PointState.CRASHED)
    assert set(own.iterdir()) == before


def test_a_node_that_wants_four_tebibytes_is_one_row_a_point_and_the_run_goes_on(launcher: Watching) -> None:
    """O38. Each process ends in order after its row: an arena that ran out may keep what the next point needs (O37)."""
    bomb = "huge_constantofshape.onnx", (recipe("x", "batch", 4),)
    answers = run(launcher, asked(bomb, Pass.TIMING, ONE, TWO))
    assert states(answers) == {1: "oom", 2: "oom"}
    assert all("bomb" in skip.reason for skip in skips(answers))
    assert len(launcher.processes) == 2


def test_inputs_beyond_the_memory_limit_are_oom_in_every_pass(launcher: Watching) -> None:
    wide = UNET[0], (recipe("x", "batch", 3, "height", "width", rule="constant"),)
    huge = point(batch=64, height=4096, width=4096)
    for kind in (Pass.MEMORY, Pass.TIMING, Pass.PROFILE):
        (skip,) = skips(run(launcher, asked(wide, kind, huge, memory_limit_bytes=GIB)))
        assert skip.state is PointState.OOM
    assert len(launcher.processes) == 3


def test_a_loop_that_never_ends_is_a_timeout_and_its_process_is_gone(launcher: Watching) -> None:
    """O12."""
    answers = run(launcher, asked(ENDLESS, Pass.TIMING, ONE), Limits(load_s=60, turn_s=lambda _: 1.0))
    (skip,) = skips(answers)
    assert skip.state is PointState.TIMEOUT
    assert len(launcher.processes) == 1


def kill_at(turn: int, how: signal.Signals, times: int) -> Callable[[Process, bytes], None]:
    """Send a signal when a process begins this turn of the whole assignment, at most so many times."""
    done: list[int] = []

    def on_line(process: Process, line: bytes) -> None:
        if len(done) < times and wire.decode(line) == Began(turn=0 if done else turn):
            done.append(process.pid)
            os.kill(process.pid, how)

    return on_line


def test_a_kill_in_mid_sweep_costs_one_try_and_repeats_nothing_finished(launcher: Watching) -> None:
    launcher.on_line = kill_at(1, signal.SIGKILL, 1)
    answers = run(launcher, asked(SHORT, Pass.TIMING, ONE, TWO, FOUR))
    assert set(states(answers)) == {1, 2, 4}
    assert skips(answers) == []
    assert [[turn.point for turn in each.turns] for each in launcher.assignments] == [[ONE, TWO, FOUR], [TWO, FOUR]]


def test_a_point_at_which_the_process_always_segfaults_is_crashed_and_the_others_are_measured(
    launcher: Watching,
) -> None:
    launcher.on_line = kill_at(1, signal.SIGSEGV, 2)
    answers = run(launcher, asked(SHORT, Pass.TIMING, ONE, TWO, FOUR))
    (skip,) = skips(answers)
    assert (skip.point, skip.state) == (TWO, PointState.CRASHED)
    assert "(SIGSEGV)" in skip.reason
    assert set(states(answers)) == {1, 2, 4}
    assert len(launcher.processes) == 3


def test_a_reader_who_leaves_ends_the_process_in_mid_call(launcher: Watching) -> None:
    answers = drive(launcher, asked(ENDLESS, Pass.TIMING, ONE), PATIENT)
    assert isinstance(next(answers), LaunchReading)
    (process,) = launcher.processes
    assert psutil.pid_exists(process.pid)
    answers.close()  # a generator
    assert not psutil.pid_exists(process.pid)


def test_an_assignment_larger_than_a_pipe_is_handed_over(launcher: Watching) -> None:
    points = [point(batch=1, height=size, width=size) for size in (36, *range(1_000, 6_000))]
    assignment = asked(UNET, Pass.PROBE, GOOD, *points)
    assert len(wire.encode_assignment(assignment)) > 200_000
    assert isinstance(run(launcher, assignment)[-1], Ran)


def test_without_a_gpu_a_cuda_device_is_a_device_error_and_never_a_cpu_number(launcher: Watching) -> None:
    """The UUID is nobody's, so this holds on a machine with GPUs too."""
    device = gpu_device(cores=cpu().cores)
    for kind in (Pass.PROBE, Pass.TIMING):
        with pytest.raises(DeviceError, match="no stream on the GPU"):
            run(launcher, asked(UNET, kind, GOOD, device=device))
    assert len(launcher.processes) == 2, "a device that is not there is not tried again"


def environment_of(process: Process) -> dict[str, str]:
    """The environment that a running process was started with."""
    entries = Path(f"/proc/{process.pid}/environ").read_bytes().rstrip(b"\0").split(b"\0")
    return dict(entry.decode().split("=", 1) for entry in entries)


@pytest.mark.parametrize("is_gpu", [False, True])
def test_secrets_stay_out_and_only_the_own_gpu_is_visible(
    launcher: Watching, monkeypatch: pytest.MonkeyPatch, scratch: Path, is_gpu: bool
) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "PREFECT_API_KEY", "PREFECT_API_URL", "MY_TOKEN"):
        monkeypatch.setenv(name, "secret-value")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    device = gpu_device(cores=cpu().cores) if is_gpu else cpu()
    process = launcher.launcher.start(device, wire.encode_assignment(asked(ENDLESS, Pass.TIMING, ONE, device=device)))
    launcher.processes.append(process)
    try:
        seen = environment_of(process)
    finally:
        process.stop()
    assert "secret-value" not in "".join(seen.values())
    assert seen["CUDA_VISIBLE_DEVICES"] == (device.id if is_gpu else "")
    assert seen["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert Path(seen["TMPDIR"]).parent == scratch
    assert seen["PATH"] == os.environ["PATH"]


def test_only_names_known_to_be_harmless_are_inherited() -> None:
    given = {
        "PATH": "p",
        "LC_ALL": "C",
        "HOME": "h",
        "SECRET": "s",
        "LD_PRELOAD": "x",
        "AWS_REGION": "r",
        "PYTHONHOME": "y",
    }
    kept = pinned_environment(given, gpu_device(), Path("scratch"))
    assert {name for name in given if name in kept} == {"PATH", "LC_ALL", "HOME"}


def test_the_process_runs_on_its_cores_in_a_session_of_its_own_under_its_limit(launcher: Watching) -> None:
    one = cpu().cores[:1]
    seen: dict[str, Any] = {}

    def look(process: Process, line: bytes) -> None:
        if isinstance(wire.decode(line), Began):
            seen["cores"] = os.sched_getaffinity(process.pid)
            seen["session"] = os.getsid(process.pid)
            seen["limits"] = Path(f"/proc/{process.pid}/limits").read_text()

    launcher.on_line = look
    run(launcher, asked(SHORT, Pass.TIMING, ONE, device=replace(cpu(), cores=one), memory_limit_bytes=2 * GIB))
    assert seen["cores"] == set(one)
    assert seen["session"] == launcher.processes[0].pid
    assert f"Max data size             {2 * GIB}" in seen["limits"]
    assert "Max core file size        0  " in seen["limits"]


def wait_for_end(descriptor: int, seconds: float = 30) -> bool:
    """Whether the process of a pidfd ended in time; no polling."""
    return bool(select.select([descriptor], [], [], seconds)[0])


PARENT = """
    import sys
    from pathlib import Path
    from onnxdyno import wire
    from onnxdyno.adapters import host
    from onnxdyno.adapters.processes import DeviceLock, ProcessLauncher
    assignment = Path(sys.argv[1]).read_bytes()
    device = wire.decode_assignment(assignment).device
    with DeviceLock(Path(sys.argv[2]), device, 0, print) as lock:
        process = ProcessLauncher(lock, host.oom_kills).start(device, assignment)
        for line in process.events(lambda: 60):
            if b'"began"' in line:
                print(process.pid, flush=True)
"""


def test_when_the_parent_is_killed_nothing_runs_on_and_the_device_is_free(tmp_path: Path, scratch: Path) -> None:
    task = tmp_path / "assignment.json"
    task.write_bytes(wire.encode_assignment(asked(ENDLESS, Pass.TIMING, ONE)))
    command = [sys.executable, "-c", textwrap.dedent(PARENT), str(task), str(tmp_path / "locks")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(scratch)}
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        descriptor = os.pidfd_open(child)
        try:
            with pytest.raises(DeviceBusy), DeviceLock(tmp_path / "locks", cpu(), 0, print):
                pass
            parent.send_signal(signal.SIGKILL)
            assert wait_for_end(descriptor)
        finally:
            os.close(descriptor)
    groups = [process.pid for process in psutil.process_iter() if _session(process.pid) == child]
    assert groups == []
    with DeviceLock(tmp_path / "locks", cpu(), 5, print):
        pass
    assert len(list(scratch.iterdir())) == 1
    remove_left_behind()
    assert list(scratch.iterdir()) == []


def test_a_start_removes_no_folder_that_a_process_works_in_and_none_of_another_kind(
    tmp_path: Path, scratch: Path
) -> None:
    with DeviceLock(tmp_path / "locks", cpu(), 0, print) as lock:
        process = ProcessLauncher(lock, host.oom_kills).start(
            cpu(), wire.encode_assignment(asked(ENDLESS, Pass.TIMING, ONE))
        )
    try:
        (held,) = scratch.iterdir()
        outside = tmp_path / "of-somebody"
        outside.mkdir()
        (scratch / "onnxdyno-scratch-abcdefgh").symlink_to(outside)
        (scratch / "onnxdyno-results").mkdir()
        (scratch / "onnxdyno-scratch-file0000").write_bytes(b"")
        (scratch / "onnxdyno-scratch-dead0000" / "deep").mkdir(parents=True)
        before = set(scratch.iterdir())
        remove_left_behind()
        assert before - set(scratch.iterdir()) == {scratch / "onnxdyno-scratch-dead0000"}
        assert held.is_dir()
        assert outside.is_dir()
    finally:
        process.stop()
    assert not held.exists()


def test_a_folder_is_held_by_the_measuring_process_when_its_parent_let_go(tmp_path: Path, scratch: Path) -> None:
    made = make_scratch()
    with subprocess.Popen(["/bin/sh", "-c", "read end"], stdin=subprocess.PIPE, pass_fds=(made.descriptor,)) as child:
        os.close(made.descriptor)
        remove_left_behind()
        assert made.path.is_dir()
        child.communicate(b"\n", timeout=60)
    remove_left_behind()
    assert not made.path.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take another user's place")
def test_a_folder_of_another_user_is_left_to_them(scratch: Path) -> None:
    theirs = scratch / "onnxdyno-scratch-theirs00"
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    remove_left_behind()
    assert theirs.is_dir()


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid) if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE else None
    except (ProcessLookupError, psutil.NoSuchProcess):
        return None


def test_a_worker_that_is_orphaned_before_it_asks_ends_at_once() -> None:
    command = [sys.executable, "-m", "onnxdyno.worker", "--answer-to", "1", "--parent", "1"]
    done = subprocess.run(command, input=b"", capture_output=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.decode().strip() == "the process that asked for this measurement is gone"


def test_a_second_run_on_a_device_waits_says_so_and_gives_up_in_one_line(tmp_path: Path) -> None:
    told: list[str] = []
    with DeviceLock(tmp_path, cpu(), 0, print):
        with pytest.raises(DeviceBusy) as busy, DeviceLock(tmp_path, cpu(), 0.3, told.append):
            pass
        assert told == ["waiting for cpu: another run has it"]
        assert "ONNXDYNO_LOCK_WAIT_S" in str(busy.value)
        with DeviceLock(tmp_path, gpu_device(), 0, told.append):
            pass
    with DeviceLock(tmp_path, cpu(), 0, told.append):
        pass
    assert len(told) == 1


def test_a_run_that_rests_lets_another_have_the_device_and_takes_it_back(tmp_path: Path) -> None:
    turns: list[str] = []

    def other() -> None:
        with DeviceLock(tmp_path, cpu(), 30, print):
            turns.append("other")

    with DeviceLock(tmp_path, cpu(), 30, print) as lock:
        neighbour = Thread(target=other)
        neighbour.start()
        turns.append("ours")
        while "other" not in turns:
            ProcessLauncher(lock, host.oom_kills).rest(0.3)
        neighbour.join(30)
        assert turns == ["ours", "other"]
        with pytest.raises(DeviceBusy), DeviceLock(tmp_path, cpu(), 0, print):
            pass


def test_a_rest_that_another_run_makes_too_long_ends_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DeviceLock(tmp_path, cpu(), 0, print) as lock, ExitStack() as held:

        def steal(seconds: float) -> None:
            held.enter_context(DeviceLock(tmp_path, cpu(), 0, print))

        monkeypatch.setattr("onnxdyno.adapters.processes.time.sleep", steal)
        with pytest.raises(DeviceBusy) as busy:
            lock.rest(1)
        assert "another run has held this device" in str(busy.value)


def test_a_second_run_starts_when_the_first_one_ends(tmp_path: Path) -> None:
    first = DeviceLock(tmp_path, cpu(), 0, print)
    first.__enter__()

    def let_go(_: str) -> None:
        first.__exit__(None, None, None)

    with DeviceLock(tmp_path, cpu(), 60, let_go), pytest.raises(DeviceBusy), DeviceLock(tmp_path, cpu(), 0, print):
        pass


def test_a_measuring_process_holds_the_lock_although_its_parent_let_go(tmp_path: Path, scratch: Path) -> None:
    assignment = asked(ENDLESS, Pass.TIMING, ONE)
    with DeviceLock(tmp_path / "locks", cpu(), 0, print) as lock:
        process = ProcessLauncher(lock, host.oom_kills).start(cpu(), wire.encode_assignment(assignment))
    try:
        with pytest.raises(DeviceBusy), DeviceLock(tmp_path / "locks", cpu(), 0, print):
            pass
    finally:
        process.stop()
    with DeviceLock(tmp_path / "locks", cpu(), 0, print):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take another user's place")
@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_users_of_one_machine_share_the_lock_of_a_device(umask: int) -> None:
    take = (
        "import os, sys; from pathlib import Path; from factories import cpu_device\n"
        "from onnxdyno.adapters.processes import DeviceLock\n"
        "from onnxdyno.domain.errors import DeviceBusy\n"
        "os.umask(int(sys.argv[3])); os.setuid(int(sys.argv[2]))\n"
        "try:\n"
        "    with DeviceLock(Path(sys.argv[1]), cpu_device(), 0, print): print('taken')\n"
        "except DeviceBusy: print('busy')\n"
    )
    with tempfile.TemporaryDirectory() as root:
        Path(root).chmod(0o777)
        folder = Path(root) / "locks"

        def taken_by(user: int) -> str:
            command = [sys.executable, "-c", take, str(folder), str(user), str(umask)]
            place = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=place)
            return done.stdout.strip() or done.stderr

        assert [taken_by(user) for user in (65534, 0, 65533)] == ["taken", "taken", "taken"]
        with DeviceLock(folder, cpu_device(), 0, print):
            assert taken_by(65534) == "busy"


def test_a_disk_without_room_for_a_measuring_process_is_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = tmp_path / "room"
    monkeypatch.setattr(tempfile, "tempdir", str(room))
    before = len(list(Path("/proc/self/fd").iterdir()))
    with DeviceLock(tmp_path / "locks", cpu(), 0, print) as lock:
        launcher = ProcessLauncher(lock, host.oom_kills)
        with pytest.raises(InfrastructureError, match="no measuring process could be started"):
            launcher.start(cpu(), b"{}")
        room.mkdir()
        launcher.start(cpu(), b"{}").stop()
    assert list(room.iterdir()) == []
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_hostile_device_id_stays_inside_the_lock_folder(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    with DeviceLock(folder, gpu_device(id="../../\x1betc"), 0, print):
        (lock,) = folder.iterdir()
        assert lock.name == "_______etc.lock"


def test_the_measuring_process_loads_neither_store_nor_tables_nor_orchestrator() -> None:
    code = (
        "import sys, onnxdyno.worker, onnxdyno.execution, onnxdyno.adapters.ort, onnxdyno.adapters.host\n"
        "print([name for name in ('prefect', 'boto3', 'botocore', 'pyarrow', 'pynvml', 'duckdb', 'onnx') "
        "if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    assert out.strip() == "[]"


def test_a_model_runs_without_core_dumps_without_a_network_and_within_bounds(launcher: Watching) -> None:
    """Where the kernel does not let the network go, the reading says so: both are seen from outside."""
    seen: dict[str, str] = {}

    def look(process: Process, _: bytes) -> None:
        if seen:  # at its first words it lives; at its last it may be gone
            return
        seen["limits"] = Path(f"/proc/{process.pid}/limits").read_text()
        seen["network"] = str(Path(f"/proc/{process.pid}/ns/net").readlink())
        seen["devices"] = Path(f"/proc/{process.pid}/net/dev").read_text()

    launcher.on_line = look
    bounded = replace(asked(UNET, Pass.TIMING, GOOD, memory_limit_bytes=3 * GIB), cpu_limit_s=500)
    reading = next(each for each in run(launcher, bounded) if isinstance(each, LaunchReading))
    limits = {line[:25].strip(): line[26:].split()[0] for line in seen["limits"].splitlines()[1:]}
    assert limits["Max core file size"] == "0"
    assert limits["Max data size"] == str(3 * GIB)
    assert limits["Max cpu time"] == "500"
    is_own = seen["network"] != str(Path("/proc/self/ns/net").readlink())
    assert dict(reading.runtime)["network"] == "none" if is_own else "reachable" in dict(reading.runtime)["network"]
    if is_own:
        assert [line.split(":")[0].strip() for line in seen["devices"].splitlines()[2:]] == ["lo"]


def test_a_process_that_burns_its_cpu_time_is_ended(launcher: Watching) -> None:
    endless = replace(asked(ENDLESS, Pass.TIMING, ONE), cpu_limit_s=1)
    (outcome,) = skips(run(launcher, endless))
    assert outcome.state is PointState.CRASHED
    assert "SIGXCPU" in outcome.reason or "SIGKILL" in outcome.reason


def test_a_model_that_draws_the_size_of_its_output_is_measured_bound(launcher: Watching, tmp_path: Path) -> None:
    """Buffers of a first call would not fit the next one (seen with text-to-speech models)."""
    drawn = helper.make_node("RandomUniform", [], ["r"], shape=[64], low=-1.0, high=1.0)
    nodes = [drawn, helper.make_node("Add", ["x", "r"], ["s"]), helper.make_node("NonZero", ["p"], ["y"])]
    nodes.insert(2, helper.make_node("Relu", ["s"], ["p"]))
    graph = helper.make_graph(
        nodes,
        "drawn",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [64])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [1, None])],
    )
    path = tmp_path / "drawn.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    recipe = InputRecipe(
        name="x", kind="tensor", dtype="float32", dims=(Dim(role=Role.OTHER, constant=64),), rule="normal"
    )
    only = point()
    assignment = replace(asked(UNET, Pass.TIMING, only), model_path=str(path), recipes=(recipe,))
    (outcome,) = [each for each in run(launcher, assignment) if isinstance(each, Measured | Skipped)]
    assert isinstance(outcome, Measured), outcome
