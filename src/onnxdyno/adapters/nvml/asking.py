"""One call of NVML and what it gave: any of them may be unsupported, forbidden, or meet a GPU that is lost."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import pynvml

Value = TypeVar("Value")

_LOST = (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED)


def ask(read: Callable[[], Value]) -> tuple[Value | None, str | None]:
    """What a call gives, or why it gives nothing."""
    try:
        return read(), None
    except pynvml.NVMLError as error:
        return None, told(error)


def told(error: pynvml.NVMLError) -> str:
    """The error in NVML's words."""
    return f"NVML: {error}"


def is_loss(error: pynvml.NVMLError) -> bool:
    """Whether the GPU itself is gone, not only this reading."""
    return error.value in _LOST


@contextmanager
def nvml() -> Iterator[None]:
    """NVML between start and end. Raises `pynvml.NVMLError` where there is no driver."""
    pynvml.nvmlInit()
    try:
        yield
    finally:
        ask(pynvml.nvmlShutdown)


def is_mig_on(handle: Any) -> bool:
    """Whether the GPU is cut into instances."""
    mode, _ = ask(lambda: pynvml.nvmlDeviceGetMigMode(handle))
    return mode is not None and mode[0] == pynvml.NVML_DEVICE_MIG_ENABLE


def mig_handles(handle: Any) -> tuple[Any, ...]:
    """The instances of a GPU, in NVML's order; slots without one answer NotFound."""
    count, _ = ask(lambda: int(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)))
    found = (ask(partial(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, at))[0] for at in range(count or 0))
    return tuple(each for each in found if each is not None)
