"""The door to NVML: the GPUs of this machine and what they say of themselves while they are measured."""

from onnxdyno.adapters.nvml.probe import GpuProbe
from onnxdyno.adapters.nvml.sampler import GpuSampler

__all__ = ["GpuProbe", "GpuSampler"]
