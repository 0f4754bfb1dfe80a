"""The door to NVML: the GPUs of this machine and what they say of themselves while they are measured."""

from onnxdyno.adapters.nvml.probe import GpuProbe
from onnxdyno.adapters.nvml.sampler import GpuSampler
from onnxdyno.adapters.nvml.usage import used_bytes

__all__ = ["GpuProbe", "GpuSampler", "used_bytes"]
