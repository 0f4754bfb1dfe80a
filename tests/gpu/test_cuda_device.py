"""What only a machine with an NVIDIA GPU can show: the right provider on the pinned device, and its memory."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

from onnxdyno.adapters import host
from onnxdyno.adapters.nvml import GpuProbe
from onnxdyno.adapters.processes import DeviceLock, ProcessLauncher
from onnxdyno.domain.assignments import Assignment, Pass, Ran, Turn
from onnxdyno.domain.axes import Role, axis_sizes
from onnxdyno.domain.devices import Device, DeviceKind
from onnxdyno.domain.models import Dim, InputRecipe
from onnxdyno.domain.outcomes import (
    Flag,
    LaunchReading,
    Measured,
    MemoryReading,
    PointState,
    Profile,
    Skipped,
)
from onnxdyno.domain.plan import Point, Protocol, Variant
from onnxdyno.launching.driving import Answer, Limits, drive

CASES = Path(__file__).parents[1] / "cases"
MODEL = CASES / "unet_multiple_of_8.onnx"
DIMS = tuple(
    Dim(role=Role.OTHER, axes=(size,)) if isinstance(size, str) else Dim(role=Role.OTHER, constant=size)
    for size in ("batch", 3, "height", "width")
)
POINT = Point(sizes=axis_sizes({"batch": 4, "height": 256, "width": 256}), variant=Variant.DEVICE)


def missing_driver() -> str | None:
    """Why there is no GPU here, or None."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        return f"no NVIDIA driver: {error}"
    return None


pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(missing_driver() is not None, reason=missing_driver() or ""),
]


@pytest.fixture(scope="module")
def gpu() -> Device:
    """The first GPU of this machine."""
    (cpu,) = host.CpuProbe("1.31.1").devices()
    gpus = GpuProbe("1.31.1", cores=cpu.cores, threads=cpu.threads, slug=host.slug).devices()
    assert gpus, "NVML is here and lists no GPU"
    return gpus[0]


def run(gpu: Device, locks: Path, kind: Pass, point: Point = POINT) -> list[Answer]:
    """Every answer of one pass on the GPU."""
    assignment = Assignment(
        kind=kind,
        launch=1,
        launches=1,
        model_path=str(MODEL),
        device=gpu,
        threads=gpu.threads,
        recipes=(InputRecipe(name="x", kind="tensor", dtype="float32", dims=DIMS, rule="normal"),),
        turns=(Turn(point=point, budget_ns=5_000_000_000),),
        seed=0,
        protocol=Protocol(),
    )
    with DeviceLock(locks, gpu, 60, print) as lock:
        launcher = ProcessLauncher(lock, host.oom_kills)
        return list(drive(launcher, assignment, Limits(load_s=120, turn_s=lambda _: 120)))


def test_a_gpu_is_listed_with_its_uuid_and_every_missing_fact_has_a_reason(gpu: Device) -> None:
    assert gpu.kind is DeviceKind.CUDA
    assert gpu.id.startswith("GPU-")
    assert gpu.memory_bytes is not None
    assert gpu.memory_bytes > 2**30
    assert gpu.compute_capability is not None
    assert ".cuda" in gpu.device_class
    for fact in gpu.fingerprint:
        assert (fact.value is None) == (fact.reason is not None), fact


@pytest.mark.parametrize("variant", [Variant.DEVICE, Variant.E2E, Variant.ENQUEUE])
def test_a_model_is_measured_by_cuda_on_the_pinned_gpu(gpu: Device, tmp_path: Path, variant: Variant) -> None:
    answers = run(gpu, tmp_path, Pass.TIMING, Point(sizes=POINT.sizes, variant=variant))
    reading, measured = answers
    assert isinstance(reading, LaunchReading)
    assert reading.providers[0] == "CUDAExecutionProvider"
    placed = {op_type: provider for provider, op_type, _ in reading.assignment}
    assert placed["Conv"] == "CUDAExecutionProvider"
    assert isinstance(measured, Measured), measured
    assert measured.samples_ns
    assert min(measured.samples_ns) > 0


def test_events_on_the_runtimes_own_stream_agree_with_the_clock_and_copies_stand_beside(
    gpu: Device, tmp_path: Path
) -> None:
    (measured,) = (each for each in run(gpu, tmp_path, Pass.TIMING) if isinstance(each, Measured))
    assert len(measured.device_ns) >= 2
    assert min(measured.device_ns) > 0
    assert Flag.EVENTS_DISAGREE not in measured.flags
    assert measured.transfer is not None
    assert measured.transfer.reason is None
    assert measured.transfer.h2d_bytes == 4 * 3 * 256 * 256 * 4
    assert min(measured.transfer.h2d_ns + measured.transfer.d2h_ns) > 0


def test_to_submit_a_call_takes_less_than_to_wait_for_it(gpu: Device, tmp_path: Path) -> None:
    times_ns = {}
    for variant in (Variant.DEVICE, Variant.ENQUEUE):
        point = Point(sizes=axis_sizes({"batch": 64, "height": 512, "width": 512}), variant=variant)
        (measured,) = (each for each in run(gpu, tmp_path, Pass.TIMING, point) if isinstance(each, Measured))
        times_ns[variant] = median(measured.samples_ns)
    assert times_ns[Variant.ENQUEUE] < times_ns[Variant.DEVICE]


def test_a_graph_is_measured_or_refused_in_the_runtimes_words(gpu: Device, tmp_path: Path) -> None:
    answers = run(gpu, tmp_path, Pass.TIMING, Point(sizes=POINT.sizes, variant=Variant.GRAPH))
    (answer,) = (each for each in answers if isinstance(each, Measured | Skipped))
    if isinstance(answer, Skipped):
        assert answer.state is PointState.NOT_APPLICABLE, answer
        assert "graph" in answer.reason.lower()
    else:
        assert answer.samples_ns


def test_the_pinned_gpu_is_the_one_that_nvml_names(gpu: Device) -> None:
    code = (
        "import sys; from onnxdyno.adapters.cuda import CudaGpu\n"
        "found = CudaGpu().identity(); print(found); sys.exit(found != sys.argv[1])"
    )
    done = in_process(gpu, code, gpu.id)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("check", ["check_gpu", "check_stream", "check_copies"])
def test_the_adapter_keeps_the_contract_on_the_real_gpu(gpu: Device, check: str) -> None:
    code = f"import cuda_contract; from onnxdyno.adapters.cuda import CudaGpu; cuda_contract.{check}(CudaGpu())"
    done = in_process(gpu, code)
    assert done.returncode == 0, done.stderr


def in_process(gpu: Device, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own: a CUDA context in this one would be on the device for the other tests."""
    path = os.pathsep.join([str(CASES.parent), *sys.path])
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": gpu.id, "PYTHONPATH": path},
    )


def test_a_probe_runs_on_the_gpu(gpu: Device, tmp_path: Path) -> None:
    assert isinstance(run(gpu, tmp_path, Pass.PROBE)[-1], Ran)


def test_memory_of_the_gpu_is_read_over_its_context_and_grows_with_the_batch(gpu: Device, tmp_path: Path) -> None:
    peaks = []
    for batch in (1, 64):
        sizes = axis_sizes({"batch": batch, "height": 256, "width": 256})
        answers = run(gpu, tmp_path, Pass.MEMORY, Point(sizes=sizes, variant=Variant.DEVICE))
        (reading,) = (each for each in answers if isinstance(each, MemoryReading))
        assert reading.reason is None
        assert reading.peak_bytes is not None
        peaks.append(reading.peak_bytes)
    assert 0 < peaks[0] < peaks[1]


def test_a_profile_names_the_provider_of_its_nodes(gpu: Device, tmp_path: Path) -> None:
    (profile,) = (each for each in run(gpu, tmp_path, Pass.PROFILE) if isinstance(each, Profile))
    assert "CUDAExecutionProvider" in {node.provider for node in profile.nodes}


def test_the_gauge_sees_a_block_of_device_memory_come(gpu: Device) -> None:
    code = (
        "from cuda.bindings import runtime\n"
        "from onnxdyno.adapters.cuda import DeviceMemory\n"
        "gauge = DeviceMemory(); gauge.reset(); before = gauge.used_bytes()\n"
        "status, block = runtime.cudaMalloc(256 * 2**20); assert status == 0, status\n"
        "print(gauge.peak_bytes() - before >= 256 * 2**20)"
    )
    assert in_process(gpu, code).stdout.strip() == "True"
