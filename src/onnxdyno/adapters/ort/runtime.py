"""ONNX Runtime as this process has it: sessions, and what their errors mean."""

import time
from pathlib import Path

import onnxruntime

from onnxdyno.adapters.ort.calls import translate
from onnxdyno.adapters.ort.models import OrtModel
from onnxdyno.adapters.ort.sessions import FATAL, PROVIDERS, providers, session_options
from onnxdyno.domain.devices import Device, DeviceKind
from onnxdyno.domain.errors import DeviceError, ModelError, PointError
from onnxdyno.domain.outcomes import PointState
from onnxdyno.domain.sessions import AS_USERS_GET_IT, SessionRecipe
from onnxdyno.measuring.messages import is_device_failure, is_graph_refused, judge_load, tidy
from onnxdyno.ports import Gpu


class OrtRuntime:
    """ONNX Runtime as this process has it."""

    def __init__(self, gpu: Gpu | None = None) -> None:
        """With `gpu`, sessions on CUDA submit to a stream of ours, on which their calls are waited for and timed."""
        self._gpu = gpu
        onnxruntime.set_default_logger_severity(FATAL)

    @property
    def versions(self) -> tuple[tuple[str, str], ...]:
        """(name, version) of the engine and its build."""
        return (("onnxruntime", onnxruntime.__version__), ("onnxruntime_build", onnxruntime.get_build_info()))

    def load(self, path: Path, device: Device, threads: int, recipe: SessionRecipe = AS_USERS_GET_IT) -> OrtModel:
        """Create a session as the recipe says.

        Raises `ModelError` if the runtime refuses the model, `DeviceError` if the device's provider is not there:
        onnxruntime itself falls back to the CPU with no more than a log line. `PointError`: see `ports.Runtime`.
        """
        began_ns = time.perf_counter_ns()  # the first stream makes the CUDA context, which is part of a cold start
        stream = self._gpu.open_stream() if self._gpu is not None and device.kind is DeviceKind.CUDA else None
        options = session_options(device, threads, recipe)
        wanted_providers = providers(device, recipe, stream)
        try:
            session = onnxruntime.InferenceSession(str(path), options, providers=wanted_providers, enable_fallback=0)
        except Exception as error:  # its exceptions have no common base class
            raise _refusal(error, device, recipe) from error
        session_ns = time.perf_counter_ns() - began_ns
        session.disable_fallback()  # else a failed call is silently repeated on the CPU
        wanted = PROVIDERS[device.kind]
        if wanted not in session.get_providers():
            raise DeviceError(
                f"{device.name}: {wanted} did not start (the session has {', '.join(session.get_providers())}). "
                "Check that the CUDA and cuDNN libraries match this onnxruntime-gpu."
            )
        return OrtModel(session, device, session_ns, stream=stream, is_graph=recipe.is_graph)

    @staticmethod
    def translate(error: Exception) -> PointError:
        """A failed call as the state of its point."""
        return translate(error)


def _refusal(error: Exception, device: Device, recipe: SessionRecipe) -> ModelError | PointError | DeviceError:
    text = str(error)
    if recipe.is_graph and is_graph_refused(text):
        return PointError(PointState.NOT_APPLICABLE, tidy(text), "Use the variant device.")
    if device.kind is DeviceKind.CUDA and is_device_failure(text):
        return DeviceError(f"{device.name}: {tidy(text)} Check the driver with nvidia-smi.")
    problem = judge_load(text)
    return ModelError(problem.state, problem.reason, problem.remedy)
