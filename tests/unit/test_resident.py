"""Calls on a stream, with a real session on the CPU and the stream of fake bindings: submit, wait, events, graphs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from cuda.bindings import runtime

from cuda_fake import FakeCuda, FakeDriver
from factories import cpu_device, gpu_device
from onnxdyno.adapters.cuda import CudaGpu, CudaStream
from onnxdyno.adapters.ort import OrtModel, OrtRuntime
from onnxdyno.adapters.ort.resident import resident
from onnxdyno.adapters.ort.sessions import providers, session_options
from onnxdyno.domain.errors import DeviceError, PointError
from onnxdyno.domain.outcomes import PointState
from onnxdyno.domain.plan import Variant
from onnxdyno.domain.sessions import SessionRecipe

CASES = Path(__file__).parents[1] / "cases"
FEEDS = {"x": np.ones((1, 3, 8, 8), np.float32)}
HOST = ("cpu", 0)
WORK_NS = 7_000


@dataclass
class Submitting:
    """A session on the CPU that leaves work on a stream at each call, as one on CUDA does; `refusal` is raised once."""

    session: Any
    cuda: FakeCuda
    stream: CudaStream
    refusal: Exception | None = None
    asked: list[dict[str, str | None]] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        if name == "_sess":
            raise AttributeError(name)  # so that the public call below is used
        return getattr(self.session, name)

    def run_with_iobinding(self, binding: Any, options: Any = None) -> None:
        keys = ("disable_synchronize_execution_providers", "gpu_graph_id")
        self.asked.append({key: _entry(options, key) for key in keys})
        if self.refusal is not None and self.asked[-1]["gpu_graph_id"] not in (None, "-1"):
            raise self.refusal
        self.session.run_with_iobinding(binding, options)
        self.cuda.work(self.stream.handle, WORK_NS)


def _entry(options: Any, key: str) -> str | None:
    try:
        return None if options is None else options.get_run_config_entry(key)
    except RuntimeError:
        return None


@pytest.fixture
def session() -> Submitting:
    cuda = FakeCuda()
    stream = CudaGpu(cuda, FakeDriver()).open_stream()
    options = session_options(cpu_device(), 1, SessionRecipe())
    real = onnxruntime.InferenceSession(
        str(CASES / "unet_multiple_of_8.onnx"), options, providers=["CPUExecutionProvider"]
    )
    return Submitting(real, cuda, stream)


def expected(session: Submitting) -> np.ndarray[Any, Any]:
    (value,) = session.session.run(None, FEEDS)
    return np.asarray(value)


def test_a_call_submits_without_the_runtimes_own_wait_and_then_waits(session: Submitting) -> None:
    call = resident(session, FEEDS, HOST, stream=session.stream)
    before_ns, waits = session.cuda.now_ns, session.cuda.waits
    call()
    assert session.cuda.now_ns - before_ns == WORK_NS
    assert session.cuda.waits == waits + 1
    assert session.asked[-1]["disable_synchronize_execution_providers"] == "1"
    ((_, value),) = call.outputs()
    np.testing.assert_allclose(value, expected(session))


def test_events_time_a_call_without_the_host(session: Submitting) -> None:
    call = resident(session, FEEDS, HOST, stream=session.stream)
    assert call.device_ns(3) == (WORK_NS,) * 3


def test_an_enqueued_call_returns_before_the_device_is_done_and_is_settled_off_the_clock(session: Submitting) -> None:
    call = resident(session, FEEDS, HOST, stream=session.stream, is_waited_for=False)
    before_ns = session.cuda.now_ns
    call()
    assert session.cuda.now_ns == before_ns
    assert call.settle is not None
    call.settle()
    assert session.cuda.now_ns - before_ns == WORK_NS
    assert call.device_ns(3) == ()
    ((_, value),) = call.outputs()
    np.testing.assert_allclose(value, expected(session))


def test_a_failure_that_shows_when_waiting_is_the_points_error_and_lasts(session: Submitting) -> None:
    call = resident(session, FEEDS, HOST, stream=session.stream)
    session.cuda.faults["cudaStreamSynchronize"] = 719
    for attempt in (call, call.outputs, lambda: call.device_ns(1)):
        with pytest.raises(PointError) as raised:
            _wait_in(attempt, session)
        assert raised.value.state is PointState.CRASHED
        assert raised.value.is_lasting
        assert "CUDA failure 719" in raised.value.reason


def _wait_in(attempt: Callable[[], Any], session: Submitting) -> None:
    session.cuda.faults["cudaEventSynchronize"] = 719
    attempt()


def test_memory_that_runs_out_while_waiting_is_oom(session: Submitting) -> None:
    session.cuda.faults["cudaStreamSynchronize"] = 2
    with pytest.raises(PointError) as raised:
        resident(session, FEEDS, HOST, stream=session.stream)
    assert (raised.value.state, raised.value.is_lasting) == (PointState.OOM, False)


def test_each_binding_of_a_graph_has_an_id_of_its_own_after_a_trial_without_one(session: Submitting) -> None:
    model = OrtModel(session, cpu_device(), 1, stream=session.stream, is_graph=True)
    for _ in range(2):
        model.bind(FEEDS, Variant.GRAPH)()
    assert [each["gpu_graph_id"] for each in session.asked] == ["-1", "1", "1", "-1", "2", "2"]


@pytest.mark.parametrize(
    "said",
    [
        "This session cannot use the graph capture feature as requested by the user as it has control flow nodes",
        "CUDA failure 900: operation not permitted when stream is capturing ; GPU=0 ; hostname=h ; file=f ; line=1 ; ",
    ],
)
def test_a_graph_that_cannot_be_recorded_is_not_applicable_in_the_runtimes_words(
    session: Submitting, said: str
) -> None:
    session.refusal = RuntimeError(said)
    model = OrtModel(session, cpu_device(), 1, stream=session.stream, is_graph=True)
    with pytest.raises(PointError) as raised:
        model.bind(FEEDS, Variant.GRAPH)
    assert raised.value.state is PointState.NOT_APPLICABLE
    assert "captur" in raised.value.reason


@pytest.mark.parametrize("variant", [Variant.ENQUEUE, Variant.GRAPH])
def test_what_only_cuda_has_is_not_applicable_on_a_session_of_the_cpu(variant: Variant) -> None:
    loaded = OrtRuntime().load(CASES / "unet_multiple_of_8.onnx", cpu_device(), 1)
    with pytest.raises(PointError) as raised:
        loaded.bind(FEEDS, variant)
    assert raised.value.state is PointState.NOT_APPLICABLE


def test_a_session_on_cuda_is_told_the_stream() -> None:
    stream = CudaGpu(FakeCuda(), FakeDriver()).open_stream()
    (_, options), _ = providers(gpu_device(), SessionRecipe(), stream)
    assert options["user_compute_stream"] == str(stream.handle)


@pytest.mark.skipif(runtime.cudaGetDeviceCount()[0] == 0, reason="a GPU is here, and the stream is none of it")
def test_cuda_that_is_not_there_is_a_device_error_and_no_session_on_the_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    engine = OrtRuntime(CudaGpu(FakeCuda(), FakeDriver()))
    with pytest.raises(DeviceError):
        engine.load(CASES / "unet_multiple_of_8.onnx", gpu_device(), 1)
    assert capsys.readouterr().out == ""
