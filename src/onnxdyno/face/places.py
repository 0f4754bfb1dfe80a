"""Where a call ran, read from what it gave back and from what its process has loaded; never from what somebody says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

CPU, CUDA = "cpu", "cuda"
UNKNOWN = "unknown"
_DLPACK = {1: CPU, 2: CUDA, 3: CPU, 13: CUDA}
"""Device types of DLPack (dlpack.h): host, CUDA, page-locked host, CUDA managed."""
_MOST_VALUES = 64
_DEEPEST = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The device that a call ran on: the CPU's name, `cuda:0`, or `unknown` with the reason."""

    name: str
    is_cuda: bool
    reason: str | None = None


def place_of(output: Any, *, drivers: tuple[str, ...] | None, cpu_name: str) -> Place:
    """Where the call that gave `output` ran.

    A CUDA device is named by the values that lie on it. The CPU is named only where it must have been the CPU: where
    no driver of an accelerator is loaded; a value in host memory may have been computed elsewhere and copied back.
    """
    found = sorted(set(devices_of(output)))
    elsewhere = [each for each in found if not each.startswith(CPU)]
    if elsewhere:
        is_cuda = any(each.startswith(CUDA) for each in elsewhere)
        return Place(name=" + ".join(elsewhere), is_cuda=is_cuda)
    if drivers is None:
        return Place(name=UNKNOWN, is_cuda=False, reason="what this process has loaded cannot be read")
    if drivers:
        where = "lies in host memory" if found else "names no device"
        reason = f"{', '.join(drivers)} is loaded in this process, and what the call gave back {where}"
        return Place(name=UNKNOWN, is_cuda=False, reason=reason)
    return Place(name=cpu_name, is_cuda=False)


def devices_of(output: Any) -> Iterator[str]:
    """`cpu` or `cuda:0` of every array in `output`: itself, or in lists, tuples and mappings (the first 64 values)."""
    left = [_MOST_VALUES]
    yield from _devices(output, left, _DEEPEST)


def _devices(value: Any, left: list[int], depth: int) -> Iterator[str]:
    left[0] -= 1
    if left[0] < 0:
        return
    if isinstance(value, list | tuple | Mapping):
        parts: Iterable[Any] = value.values() if isinstance(value, Mapping) else value
        for part in parts if depth else ():
            yield from _devices(part, left, depth - 1)
        return
    name = _device(value)
    if name is not None:
        yield name


def _device(value: Any) -> str | None:
    """By the array's own word: DLPack, which torch, CuPy, JAX, numpy and OrtValue speak, else its `device_name()`."""
    for read in (_by_dlpack, _by_name):
        try:
            return read(value)
        except Exception:  # noqa: BLE001, S112  whatever foreign code raises, it has not named a device
            continue
    return None


def _by_dlpack(value: Any) -> str:
    kind, index = value.__dlpack_device__()
    name = _DLPACK.get(int(kind), f"DLPack device type {int(kind)}")
    return name if name == CPU else f"{name}:{int(index)}"


def _by_name(value: Any) -> str:
    name = value.device_name()
    if not isinstance(name, str):
        raise TypeError(f"a device name of type {type(name).__name__}")
    return name.lower()
