"""The door to ONNX Runtime: sessions on one device, calls that are bound before they are timed."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from onnxdyno.domain.devices import Device, DeviceKind
from onnxdyno.domain.errors import DeviceError, ModelError, PointError
from onnxdyno.domain.outcomes import PointState
from onnxdyno.domain.plan import Variant
from onnxdyno.measuring.messages import judge_call, judge_load

_PROVIDERS = {DeviceKind.CPU: "CPUExecutionProvider", DeviceKind.CUDA: "CUDAExecutionProvider"}
_RANDOM_OPS = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
)
_FATAL = 4


class OrtRuntime:
    """ONNX Runtime as this process has it."""

    def __init__(self) -> None:
        onnxruntime.set_default_logger_severity(_FATAL)

    @property
    def versions(self) -> tuple[tuple[str, str], ...]:
        """(name, version) of the engine and its build."""
        return (("onnxruntime", onnxruntime.__version__), ("onnxruntime_build", onnxruntime.get_build_info()))

    def load(self, path: Path, device: Device, threads: int, profile_prefix: Path | None = None) -> "OrtModel":
        """Create a session with all optimisations.

        Raises `ModelError` if the runtime refuses the model, `DeviceError` if the device's provider is not there:
        onnxruntime itself falls back to the CPU with no more than a log line.
        """
        options = _session_options(threads, profile_prefix)
        began_ns = time.perf_counter_ns()
        try:
            session = onnxruntime.InferenceSession(str(path), options, providers=_providers(device))
        except Exception as error:  # its exceptions have no common base class
            raise _refusal(error) from error
        session_ns = time.perf_counter_ns() - began_ns
        session.disable_fallback()  # else a failed call is silently repeated on the CPU
        wanted = _PROVIDERS[device.kind]
        if wanted not in session.get_providers():
            raise DeviceError(
                f"{device.name}: {wanted} did not start (the session has {', '.join(session.get_providers())}). "
                "Check that the CUDA and cuDNN libraries match this onnxruntime-gpu."
            )
        return OrtModel(session, device, session_ns)

    @staticmethod
    def translate(error: Exception) -> PointError:
        """A failed call as the state of its point."""
        text = f"out of memory: {error}" if isinstance(error, MemoryError) else str(error)
        problem = judge_call(text)
        return PointError(problem.state, problem.reason, problem.remedy)


class OrtModel:
    """One session."""

    def __init__(self, session: Any, device: Device, session_ns: int) -> None:
        self._session = session
        self._device = device
        self.session_ns = session_ns
        self.providers: tuple[str, ...] = tuple(session.get_providers())

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        """(`provider.option`, value) of each provider after defaults, as the runtime reports them."""
        reported: dict[str, dict[str, str]] = self._session.get_provider_options()
        return tuple(
            (f"{provider}.{name}", str(value))
            for provider in self.providers
            for name, value in sorted(reported.get(provider, {}).items())
        )

    @property
    def assignment(self) -> tuple[tuple[str, str, int], ...]:
        """(provider, op type, count) from the runtime's own record, before its later fusions."""
        counts = Counter(
            (part.ep_name, node.op_type)
            for part in self._session.get_provider_graph_assignment_info()
            for node in part.get_nodes()
        )
        return tuple((provider, op_type, count) for (provider, op_type), count in sorted(counts.items()))

    def bind(self, feeds: dict[str, Any], variant: Variant) -> "OrtCall":
        """Bind one input set; for `device`, outputs of the shapes of one trial call are allocated beforehand.

        Raises `PointError` if the runtime refuses the inputs or fails in the trial call.
        """
        _refuse_foreign_types(feeds)
        match variant:
            case Variant.E2E:
                return OrtCall.host(self._session, feeds)
            case Variant.DEVICE:
                return OrtCall.resident(self._session, feeds, _location(self._device))

    def end_profile(self) -> Path | None:
        """Stop profiling; the file written."""
        name = self._session.end_profiling()
        return Path(name) if name else None


class OrtCall:
    """One bound call."""

    def __init__(self, call: Callable[[], Any], read: Callable[[], Sequence[tuple[str, Any]]]) -> None:
        self._call = call
        self._read = read

    @property
    def raw(self) -> Callable[[], Any]:
        """The bare call, for the timed loop: no attribute look-ups, and errors of the runtime come untranslated."""
        return self._call

    def __call__(self) -> None:
        """One inference. Raises `PointError`."""
        try:
            self._call()
        except Exception as error:  # its exceptions have no common base class
            raise OrtRuntime.translate(error) from error

    def outputs(self) -> Sequence[tuple[str, Any]]:
        """Name and value of each output of the last call. Raises `PointError` if they cannot be brought to the host."""
        try:
            return self._read()
        except Exception as error:  # its exceptions have no common base class
            raise OrtRuntime.translate(error) from error

    @classmethod
    def host(cls, session: Any, feeds: dict[str, Any]) -> "OrtCall":
        """Host arrays in and out through the public `run`: what a user's own call costs.

        Outputs are let go at once, and `outputs` makes one more call: keeping those of the last call during the next
        one cost 2.5 % of SqueezeNet's time (seen with 1.31; benchmarks/loop_cost.py).
        """
        names = [output.name for output in session.get_outputs()]
        call = partial(session.run, names, feeds)
        bound = cls(call, lambda: list(zip(names, call(), strict=True)))
        bound()
        return bound

    @classmethod
    def resident(cls, session: Any, feeds: dict[str, Any], location: tuple[str, int]) -> "OrtCall":
        """Inputs and outputs stay on the device.

        Outputs take the buffers that a trial call made: each binding has its own inputs, so its shapes do not change,
        unless the model draws random numbers; then the runtime allocates. The private call is used where it exists:
        the public wrapper adds about 20 µs of checks for another provider (seen with 1.31), which are not the model's.
        """
        names = [output.name for output in session.get_outputs()]
        options = onnxruntime.RunOptions()
        refused = [name for name, value in feeds.items() if not _is_bindable(value)]
        if refused:
            reason = f"input {refused[0]!r} is no tensor of numbers: it cannot stay on the device."
            raise PointError(PointState.UNSUPPORTED, reason, "Use the variant e2e.")
        try:
            inputs = {name: onnxruntime.OrtValue.ortvalue_from_numpy(value, *location) for name, value in feeds.items()}
            first = _bound(session, inputs, dict.fromkeys(names), location)
            session.run_with_iobinding(first, options)
            values = dict(zip(names, first.get_outputs(), strict=True))
            fixed = _bound(session, inputs, values, location)
        except Exception as error:  # its exceptions have no common base class
            raise OrtRuntime.translate(error) from error
        if _is_random(session):
            return cls(partial(_run_anew, session, first, names, location), lambda: _read(names, first))
        inner, handle = getattr(session, "_sess", None), getattr(fixed, "_iobinding", None)
        if inner is None or handle is None:
            return cls(lambda: session.run_with_iobinding(fixed, options), lambda: _read(names, fixed))
        run = inner.run_with_iobinding
        return cls(lambda: run(handle, options), lambda: _read(names, fixed))


def _run_anew(session: Any, binding: Any, names: Sequence[str], location: tuple[str, int]) -> None:
    """One call whose outputs are allocated for it; a binding keeps those of its last call otherwise."""
    binding.clear_binding_outputs()
    for name in names:
        binding.bind_output(name, *location)
    session.run_with_iobinding(binding)


def _is_random(session: Any) -> bool:
    """Whether the same inputs may give outputs of other shapes."""
    parts = session.get_provider_graph_assignment_info()
    return any(node.op_type in _RANDOM_OPS for part in parts for node in part.get_nodes())


def _refusal(error: Exception) -> ModelError:
    problem = judge_load(str(error))
    return ModelError(problem.state, problem.reason, problem.remedy)


def _session_options(threads: int, profile_prefix: Path | None) -> Any:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _FATAL
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if profile_prefix is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(profile_prefix)
    return options


def _providers(device: Device) -> list[Any]:
    match device.kind:
        case DeviceKind.CPU:
            return ["CPUExecutionProvider"]
        case DeviceKind.CUDA:
            return [("CUDAExecutionProvider", {"device_id": "0"}), "CPUExecutionProvider"]


def _location(device: Device) -> tuple[str, int]:
    """Where buffers live. Index 0, because the process sees only the one GPU that it was pinned to by UUID."""
    return ("cpu", 0) if device.kind is DeviceKind.CPU else ("cuda", 0)


def _refuse_foreign_types(feeds: dict[str, Any]) -> None:
    """Raises `PointError` (unsupported) for types that numpy has from elsewhere (bfloat16, float8, int4)."""
    for name, value in feeds.items():
        if isinstance(value, np.ndarray) and value.dtype.kind == "V":
            reason = f"input {name!r} is {value.dtype}, which the runtime does not take from numpy."
            raise PointError(PointState.UNSUPPORTED, reason, "Export the model with inputs of float32 or float16.")


def _is_bindable(value: Any) -> bool:
    """Whether the runtime can hold it on a device: no sequences, no strings."""
    return isinstance(value, np.ndarray) and value.dtype.kind not in "OUS"


def _bound(
    session: Any,
    inputs: dict[str, Any],
    outputs: dict[str, Any],
    location: tuple[str, int],
) -> Any:
    binding = session.io_binding()
    for name, value in inputs.items():
        binding.bind_ortvalue_input(name, value)
    for name, output in outputs.items():
        if output is None:
            binding.bind_output(name, *location)
        else:
            binding.bind_ortvalue_output(name, output)
    return binding


def _read(names: Sequence[str], binding: Any) -> list[tuple[str, Any]]:
    return list(zip(names, binding.copy_outputs_to_cpu(), strict=True))
