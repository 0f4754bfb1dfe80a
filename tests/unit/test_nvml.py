"""A machine without an NVIDIA driver has no GPUs, and that is no error."""

import ctypes
import ctypes.util

import pytest

from onnxdyno.adapters.host import slug
from onnxdyno.adapters.nvml import GpuProbe


def has_driver() -> bool:
    """Whether NVML can be loaded at all."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


@pytest.mark.skipif(has_driver(), reason="this machine has an NVIDIA driver: tests/gpu looks at its GPUs")
def test_without_a_driver_there_are_no_gpus_and_no_exception() -> None:
    probe = GpuProbe("1.31.1", cores=(0,), threads=1, slug=slug)
    assert probe.devices() == ()
    assert probe.devices() == (), "asking again is harmless"
