"""Columns that several tables have, from domain values."""

from typing import Any

from onnxdyno.domain.axes import AxisSizes, Role
from onnxdyno.domain.findings import Estimate
from onnxdyno.domain.models import Signature
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.storage.jsontext import finite

NS_PER_MS = 1e6


def key(run: BenchmarkRun) -> dict[str, Any]:
    """What joins every table."""
    return {
        "run_id": run.origin.run_id,
        "device_class": run.plan.device.device_class,
        "model_sha256": run.plan.model.ref.sha256,
    }


def at(signature: Signature, sizes: AxisSizes) -> dict[str, Any]:
    """The columns that say where: every dynamic axis, and the common ones by role (a fixed axis at its fixed size)."""
    return {
        "axes": sizes,
        "batch": size_at(signature, sizes, Role.BATCH),
        "height_px": size_at(signature, sizes, Role.HEIGHT),
        "width_px": size_at(signature, sizes, Role.WIDTH),
        "sequence": size_at(signature, sizes, Role.SEQUENCE),
    }


def size_at(signature: Signature, sizes: AxisSizes, role: Role) -> int | None:
    """Size of the axis with this role there; None for a model without one."""
    axis = signature.axis(role)
    return None if axis is None else dict(sizes).get(axis.name, axis.size)


def estimate(name: str, found: Estimate, *, unit: str = "ms", scale: float = NS_PER_MS) -> dict[str, Any]:
    """An estimate as its four columns; a number that is not finite is no number."""
    numbers = [finite(value) for value in (found.value, found.low, found.high)]
    value, low, high = (None if number is None else number / scale for number in numbers)
    base = f"{name}_{unit}"
    return {base: value, f"{base}_low": low, f"{base}_high": high, f"{name}_reason": found.reason}
