"""The door to CUDA on fake bindings: what it promises, and what it makes of each failure."""

import time
import uuid

import pytest
from cuda.bindings import runtime

from cuda_contract import check_copies, check_gpu, check_stream
from cuda_fake import UUID, FakeCuda, FakeDriver, Status
from onnxdyno.adapters.cuda import CudaFailure, CudaGpu, CudaStream, DeviceMemory
from onnxdyno.domain.errors import DeviceError
from onnxdyno.domain.outcomes import PointState
from onnxdyno.measuring.messages import judge_call, judge_load, tidy
from onnxdyno.ports import Gpu, Stream


def gpu_of(cuda: FakeCuda, driver: FakeDriver | None = None) -> CudaGpu:
    return CudaGpu(cuda, driver or FakeDriver())


def test_the_adapter_keeps_the_contract_on_fake_bindings() -> None:
    for check in (check_gpu, check_stream, check_copies):
        check(gpu_of(FakeCuda()))


def test_the_identity_is_the_uuid_as_nvml_writes_it() -> None:
    assert gpu_of(FakeCuda()).identity() == f"GPU-{uuid.UUID(bytes=UUID)}"


def test_a_part_of_a_gpu_is_named_as_such() -> None:
    assert gpu_of(FakeCuda(), FakeDriver(name=b"NVIDIA H200 MIG 1g.18gb")).identity().startswith("MIG-")


def test_a_driver_that_does_not_start_is_a_device_error() -> None:
    with pytest.raises(DeviceError, match="CUDA failure 101"):
        gpu_of(FakeCuda(), FakeDriver(status=Status.cudaErrorInvalidDevice)).identity()


@pytest.mark.skipif(runtime.cudaGetDeviceCount()[0] == 0, reason="a GPU is here: tests/gpu runs the contract on it")
def test_the_real_bindings_without_a_driver_are_a_device_error_too() -> None:
    with pytest.raises(DeviceError, match="nvidia-smi"):
        CudaGpu().open_stream()
    with pytest.raises(DeviceError, match="nvidia-smi"):
        CudaGpu().identity()


def test_waiting_runs_what_was_submitted_and_a_failed_launch_is_raised() -> None:
    cuda = FakeCuda()
    stream = gpu_of(cuda).open_stream()
    cuda.work(stream.handle, 5_000)
    stream.wait()
    assert cuda.now_ns == 5_000
    cuda.faults["cudaStreamSynchronize"] = 719
    with pytest.raises(CudaFailure, match="CUDA failure 719: cudaErrorLaunchFailure: unspecified launch failure"):
        stream.wait()


def test_events_give_the_time_of_the_device_not_of_the_host() -> None:
    cuda = FakeCuda()
    stream = gpu_of(cuda).open_stream()
    cuda.work(stream.handle, 9_000)  # submitted before the first event: not in any time
    assert stream.times_ns(lambda: cuda.work(stream.handle, 2_500), 4) == (2_500,) * 4


@pytest.mark.parametrize("name", ["cudaHostAlloc", "cudaMalloc", "cudaMemcpyAsync", "cudaStreamSynchronize"])
def test_copies_that_cannot_be_had_are_a_reason_and_leave_nothing_behind(name: str) -> None:
    cuda = FakeCuda()
    cuda.faults[name] = 2
    transfer = gpu_of(cuda).copy(64, 32, count=3, clock=time.perf_counter_ns)
    assert (transfer.h2d_ns, transfer.d2h_ns) == ((), ())
    assert transfer.reason is not None
    assert "out of memory" in transfer.reason
    assert cuda.owned == set()


def test_copies_have_the_sizes_of_inputs_and_outputs_and_free_their_blocks() -> None:
    cuda = FakeCuda()
    gpu_of(cuda).copy(64, 32, count=1, clock=time.perf_counter_ns)
    assert set(cuda.copies) == {(1, 64), (2, 32)}
    assert cuda.owned == set()


def test_memory_in_use_is_total_minus_free_and_a_failure_is_a_device_error() -> None:
    cuda = FakeCuda()
    assert DeviceMemory(cuda).used_bytes() == 40 * 2**20
    cuda.faults["cudaMemGetInfo"] = 101
    with pytest.raises(DeviceError, match="nvidia-smi"):
        DeviceMemory(cuda).used_bytes()


@pytest.mark.parametrize(("code", "is_lasting"), [(719, True), (700, True), (906, False)])
def test_a_failure_on_the_device_is_a_crash_and_says_whether_it_lasts(code: int, is_lasting: bool) -> None:
    problem = judge_call(f"CUDA failure {code}: something (in cudaStreamSynchronize)")
    assert (problem.state, problem.is_lasting) == (PointState.CRASHED, is_lasting)


def test_memory_that_the_device_lacks_is_oom_and_does_not_last() -> None:
    problem = judge_call("CUDA failure 2: cudaErrorMemoryAllocation: out of memory (in cudaMalloc)")
    assert (problem.state, problem.is_lasting) == (PointState.OOM, False)


def test_the_runtimes_own_words_on_a_cuda_failure_lose_the_name_of_the_machine() -> None:
    said = (
        "[ONNXRuntimeError] : 1 : FAIL : CUDA failure 700: an illegal memory access was encountered ; GPU=0 ; "
        "hostname=box-17 ; file=/onnxruntime_src/onnxruntime/core/providers/cuda/cuda_call.cc ; line=129 ; "
        "expr=cudaStreamSynchronize(stream); "
    )
    assert tidy(said) == "CUDA failure 700: an illegal memory access was encountered"
    assert judge_call(said).is_lasting
    assert judge_load("CUDA failure 2: out of memory ; GPU=0").state == "too_large"


_GPU: type[Gpu] = CudaGpu
_STREAM: type[Stream] = CudaStream
