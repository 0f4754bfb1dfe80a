"""Device memory of one process on another device: what is known is added, what is not is bounded from above."""

from onnxdyno.analysis.prediction.records import Basis, MemoryPrediction
from onnxdyno.domain.errors import SpecError
from onnxdyno.hardware.catalogue import LEAST_VISIBLE_SHARE
from onnxdyno.hardware.lookup import Catalogue, shipped
from onnxdyno.hardware.records import Accelerator

MIB = 2**20

_CONTEXT_BYTES, _LEAST_CONTEXT_BYTES, _MOST_CONTEXT_BYTES = 400 * MIB, 250 * MIB, 1100 * MIB
"""CUDA context with lazily loaded kernels: 256 to 426 MiB reported (RTX 3090, V100, RTX 6000 Ada); with cuDNN, cuBLAS
about 650 MB outside the allocator, 1 GB on ONNX Runtime 1.4 (the reports are listed in docs/prediction.md)."""
_WORKSPACE_BYTES, _MOST_WORKSPACE_BYTES = 64 * MIB, 1024 * MIB
"""cuDNN and cuBLAS workspace: 32 MiB is cuBLAS's own on Hopper, 4 MiB before; an exhaustive search takes up to 1 GB."""
_MOST_ARENA = 4.0
"""The arena's default doubles every extension: regions hold up to twice the bytes asked for, and as much again is lost
where a tensor does not fit into what a region has left. Reported: 4.4 for weights alone (onnxruntime #14526)."""
_LIKELY_ARENA = 1.5
_ONE_DOUBLING = 2.0
"""The same arena on another device differs by at most one extension."""


def predict_memory(
    target_id: str,
    *,
    weights_bytes: int,
    activation_bytes: int,
    measured_bytes: int | None = None,
    context_bytes: int | None = None,
    arena_grows_as_requested: bool = False,
    catalogue: Catalogue | None = None,
) -> MemoryPrediction:
    """Device memory of a process with this model loaded and run once at a point, with an interval.

    `weights_bytes` and `activation_bytes` (the peak of live activations at the point) by the model's own arithmetic;
    `measured_bytes`: the peak of the whole process on another GPU, at the same point and runtime; `context_bytes`: what
    an empty context takes of it, or was measured to take on the target. `arena_grows_as_requested`: the arena does not
    round up to powers of two. The upper bound is meant to hold; the lower says what cannot be avoided. Raises
    `SpecError` for a CPU, an unknown device or a negative size.
    """
    known = shipped() if catalogue is None else catalogue
    target = known.find(target_id)
    if not isinstance(target, Accelerator):
        raise SpecError(f"{target.id} is a CPU: its memory is the host's. Give a GPU.")
    _non_negative(weights_bytes, activation_bytes, measured_bytes or 0, context_bytes or 0)
    model_bytes = weights_bytes + activation_bytes
    context = _CONTEXT_BYTES if context_bytes is None else context_bytes
    least_context = _LEAST_CONTEXT_BYTES if context_bytes is None else context_bytes
    most_context = _MOST_CONTEXT_BYTES if context_bytes is None else context_bytes
    if measured_bytes is None:
        growth = 1.0 if arena_grows_as_requested else _LIKELY_ARENA
        most_growth = 1.0 if arena_grows_as_requested else _MOST_ARENA
        slack, workspace = round((growth - 1) * model_bytes), _WORKSPACE_BYTES
        low = model_bytes + least_context
        high = round(most_growth * model_bytes) + most_context + _MOST_WORKSPACE_BYTES
    else:
        arena = max(measured_bytes - context, model_bytes)
        slack, workspace = arena - model_bytes, 0
        growth = 1.0 if arena_grows_as_requested else _ONE_DOUBLING
        low = round(max(model_bytes, arena / growth)) + least_context
        high = round(growth * max(measured_bytes - least_context, model_bytes)) + most_context
    total = model_bytes + slack + workspace + context
    return MemoryPrediction(
        target_id=target.id,
        weights_bytes=weights_bytes,
        activation_bytes=activation_bytes,
        workspace_bytes=workspace,
        context_bytes=context,
        arena_slack_bytes=slack,
        total_bytes=total,
        low_bytes=min(low, total),
        high_bytes=max(high, total),
        fits=max(high, total) <= LEAST_VISIBLE_SHARE * target.memory_bytes,
        basis=Basis.EXTRAPOLATED,
        notes=_notes(measured_bytes, context_bytes),
    )


def _notes(measured_bytes: int | None, context_bytes: int | None) -> tuple[str, ...]:
    notes = []
    if measured_bytes is None:
        notes.append("nothing was measured: arena and workspace are bounds")
    if context_bytes is None:
        notes.append("the context is from public reports")
    return tuple(notes)


def _non_negative(*sizes_bytes: int) -> None:
    if any(each < 0 for each in sizes_bytes):
        raise SpecError("memory sizes must be 0 or more bytes. Give the sizes of the model.")
