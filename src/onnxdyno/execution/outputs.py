"""What came out of a call and where it ran: shapes, finiteness, and compute ops that ran on the CPU."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxdyno.domain.devices import Device, DeviceKind
from onnxdyno.domain.operators import COMPUTE_OPS
from onnxdyno.domain.outcomes import Flag
from onnxdyno.ports import LoadedModel


def fallback_reason(assignment: Sequence[tuple[str, str, int]], device: Device) -> str | None:
    """Why a GPU number would be a lie: compute ops that the runtime gave to the CPU; None if there are none."""
    if device.kind is DeviceKind.CPU:
        return None
    strays = [f"{count} {op}" for provider, op, count in assignment if provider.startswith("CPU") and op in COMPUTE_OPS]
    return f"compute nodes ran on the CPU: {', '.join(strays)}." if strays else None


def flags_of(outputs: Sequence[Sequence[tuple[str, Any]]], loaded: LoadedModel, device: Device) -> tuple[Flag, ...]:
    flags = []
    if any(not is_finite(value) for named in outputs for _, value in named):
        flags.append(Flag.NON_FINITE)
    is_mixed = any(provider.startswith("CPU") for provider, _, _ in loaded.assignment)
    if device.kind is DeviceKind.CUDA and is_mixed:
        flags.append(Flag.CPU_NODES)
    return tuple(flags)


def is_finite(value: Any) -> bool:
    """Whether a float output holds neither NaN nor infinity; anything that is no float tensor is."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return True
    return bool(np.isfinite(value).all())


def describe_outputs(outputs: Sequence[tuple[str, Any]]) -> tuple[str, ...]:
    """`name float32[1,10]` for a tensor, `name list(3)` for a sequence, in order."""
    return tuple(f"{name} {describe_value(value)}" for name, value in outputs)


def other_shapes(outputs: Sequence[Sequence[tuple[str, Any]]]) -> tuple[tuple[str, ...], ...]:
    """Descriptions of later input sets' outputs that differ from the first's; each once, in order."""
    described = tuple(dict.fromkeys(map(describe_outputs, outputs)))
    return described[1:]


def describe_value(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{','.join(str(size) for size in value.shape)}]"
    return f"{type(value).__name__}({len(value)})" if isinstance(value, list | dict) else type(value).__name__
