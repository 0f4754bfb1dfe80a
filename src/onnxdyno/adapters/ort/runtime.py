"""ONNX Runtime as this process has it: sessions, and what their errors mean."""

import time
from pathlib import Path

import onnxruntime

from onnxdyno.adapters.ort.calls import translate
from onnxdyno.adapters.ort.models import OrtModel
from onnxdyno.adapters.ort.sessions import FATAL, PROVIDERS, providers, session_options
from onnxdyno.domain.devices import Device
from onnxdyno.domain.errors import DeviceError, ModelError, PointError
from onnxdyno.domain.sessions import AS_USERS_GET_IT, SessionRecipe
from onnxdyno.measuring.messages import judge_load


class OrtRuntime:
    """ONNX Runtime as this process has it."""

    def __init__(self) -> None:
        onnxruntime.set_default_logger_severity(FATAL)

    @property
    def versions(self) -> tuple[tuple[str, str], ...]:
        """(name, version) of the engine and its build."""
        return (("onnxruntime", onnxruntime.__version__), ("onnxruntime_build", onnxruntime.get_build_info()))

    def load(self, path: Path, device: Device, threads: int, recipe: SessionRecipe = AS_USERS_GET_IT) -> OrtModel:
        """Create a session as the recipe says.

        Raises `ModelError` if the runtime refuses the model, `DeviceError` if the device's provider is not there:
        onnxruntime itself falls back to the CPU with no more than a log line.
        """
        options = session_options(device, threads, recipe)
        began_ns = time.perf_counter_ns()
        try:
            session = onnxruntime.InferenceSession(str(path), options, providers=providers(device, recipe))
        except Exception as error:  # its exceptions have no common base class
            raise _refusal(error) from error
        session_ns = time.perf_counter_ns() - began_ns
        session.disable_fallback()  # else a failed call is silently repeated on the CPU
        wanted = PROVIDERS[device.kind]
        if wanted not in session.get_providers():
            raise DeviceError(
                f"{device.name}: {wanted} did not start (the session has {', '.join(session.get_providers())}). "
                "Check that the CUDA and cuDNN libraries match this onnxruntime-gpu."
            )
        return OrtModel(session, device, session_ns)

    @staticmethod
    def translate(error: Exception) -> PointError:
        """A failed call as the state of its point."""
        return translate(error)


def _refusal(error: Exception) -> ModelError:
    problem = judge_load(str(error))
    return ModelError(problem.state, problem.reason, problem.remedy)
