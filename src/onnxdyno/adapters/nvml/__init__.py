"""The door to NVML: the GPUs of this machine and what they say of themselves while they are measured."""

from onnxdyno.adapters.nvml.clock import SmClock
from onnxdyno.adapters.nvml.probe import GpuProbe
from onnxdyno.adapters.nvml.sampler import GpuSampler
from onnxdyno.adapters.nvml.usage import process_bytes, used_bytes

__all__ = ["GpuProbe", "GpuSampler", "SmClock", "process_bytes", "used_bytes"]
