"""Calls whose inputs and outputs stay on the device: bound before they are timed, submitted, waited for."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnxruntime

from onnxdyno.adapters.ort.calls import OrtCall, translate
from onnxdyno.domain.errors import PointError
from onnxdyno.domain.outcomes import PointState
from onnxdyno.measuring.messages import is_graph_refused, tidy
from onnxdyno.ports import Stream

_RANDOM_OPS = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
)
_NO_GRAPH = -1
"""The graph id with which a session that records graphs runs without one."""


def resident(
    session: Any,
    feeds: dict[str, Any],
    location: tuple[str, int],
    *,
    stream: Stream | None = None,
    graph: int | None = None,
    is_waited_for: bool = True,
) -> OrtCall:
    """Inputs and outputs stay where `location` is; `graph` is the id under which a graph is recorded and replayed.

    Outputs take the buffers that a trial call made: each binding has its own inputs, so its shapes do not change,
    unless the model draws random numbers; then the runtime allocates. With `stream` the runtime does not wait for the
    device; the call does, or with `is_waited_for` False whoever times it, off the clock. Raises `PointError`.
    """
    _refuse_what_cannot_stay(feeds)
    names = [output.name for output in session.get_outputs()]
    wait = _nothing if stream is None else stream.wait
    try:
        inputs = {name: onnxruntime.OrtValue.ortvalue_from_numpy(value, *location) for name, value in feeds.items()}
        first = _bound(session, inputs, dict.fromkeys(names), location)
        session.run_with_iobinding(first, _run_options(stream, None if graph is None else _NO_GRAPH))
        wait()
        if _is_random(session):
            return _allocating(session, first, names, location, graph=graph)
        fixed = _bound(session, inputs, dict(zip(names, first.get_outputs(), strict=True)), location)
        submit = _submission(session, fixed, _run_options(stream, graph))
        if graph is not None:
            _record(submit, wait)
    except PointError:
        raise
    except Exception as error:  # its exceptions have no common base class
        raise translate(error) from error
    return _timed(submit, partial(_read, names, fixed), stream, is_waited_for=is_waited_for)


def _timed(
    submit: Callable[[], Any], read: Callable[[], list[tuple[str, Any]]], stream: Stream | None, *, is_waited_for: bool
) -> OrtCall:
    if stream is None:
        return OrtCall(submit, read)
    wait = stream.wait

    def call() -> None:
        submit()
        wait()

    def settled() -> list[tuple[str, Any]]:
        wait()
        return read()

    by_events = partial(stream.times_ns, submit)
    if is_waited_for:
        return OrtCall(call, settled, by_events=by_events)
    return OrtCall(submit, settled, settle=wait)


def _submission(session: Any, binding: Any, options: Any) -> Callable[[], Any]:
    """The private call where it exists: the public wrapper adds about 20 µs of checks for another provider (1.31)."""
    inner, handle = getattr(session, "_sess", None), getattr(binding, "_iobinding", None)
    if inner is None or handle is None:
        return partial(session.run_with_iobinding, binding, options)
    run = inner.run_with_iobinding

    def submit() -> None:
        run(handle, options)

    return submit


def _record(submit: Callable[[], Any], wait: Callable[[], Any]) -> None:
    """The runtime runs the model until its graph is recorded, then replays it. Raises `PointError` if it cannot."""
    try:
        submit()
        wait()
    except Exception as error:
        text = str(error)
        if is_graph_refused(text) or "captur" in text.lower():
            raise PointError(PointState.NOT_APPLICABLE, tidy(text), "Use the variant device.") from error
        raise


def _allocating(
    session: Any, binding: Any, names: Sequence[str], location: tuple[str, int], *, graph: int | None
) -> OrtCall:
    """A call whose outputs the runtime allocates, and which it waits for: their shapes may differ each time."""
    if graph is not None:
        reason = "the model draws random numbers: a recorded graph would replay the sizes of one draw."
        raise PointError(PointState.NOT_APPLICABLE, reason, "Use the variant device.")
    return OrtCall(partial(_run_anew, session, binding, names, location), partial(_read, names, binding))


def _run_options(stream: Stream | None, graph: int | None) -> Any:
    options = onnxruntime.RunOptions()
    if stream is not None:
        options.add_run_config_entry("disable_synchronize_execution_providers", "1")
    if graph is not None:
        options.add_run_config_entry("gpu_graph_id", str(graph))
    return options


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


def _refuse_what_cannot_stay(feeds: dict[str, Any]) -> None:
    refused = [name for name, value in feeds.items() if not _is_bindable(value)]
    if refused:
        reason = f"input {refused[0]!r} is no tensor of numbers: it cannot stay on the device."
        raise PointError(PointState.UNSUPPORTED, reason, "Use the variant e2e.")


def _nothing() -> None:
    """The runtime has waited already."""


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
