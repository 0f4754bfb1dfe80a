"""Calls that are bound before they are timed: host arrays in and out, or buffers that stay on the device."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnxruntime

from onnxdyno.domain.errors import PointError
from onnxdyno.domain.outcomes import PointState
from onnxdyno.measuring.messages import judge_call

_RANDOM_OPS = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
)


def translate(error: Exception) -> PointError:
    """A failed call as the state of its point."""
    text = f"out of memory: {error}" if isinstance(error, MemoryError) else str(error)
    problem = judge_call(text)
    return PointError(problem.state, problem.reason, problem.remedy)


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
            raise translate(error) from error

    def outputs(self) -> Sequence[tuple[str, Any]]:
        """Name and value of each output of the last call. Raises `PointError` if they cannot be brought to the host."""
        try:
            return self._read()
        except Exception as error:  # its exceptions have no common base class
            raise translate(error) from error

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
            raise translate(error) from error
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


def refuse_foreign_types(feeds: dict[str, Any]) -> None:
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
