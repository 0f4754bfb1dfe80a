"""The door to NVML: the GPUs of this machine by UUID. What a driver does not tell is null with its reason."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pynvml

from onnxdyno.domain.devices import Device, DeviceKind, Fact


class GpuProbe:
    """Every GPU that NVML lists; none where there is no driver."""

    def __init__(self, runtime_version: str, cores: tuple[int, ...], threads: int, slug: Callable[[str], str]) -> None:
        self._ort = ".".join(runtime_version.split(".")[:2])
        self._cores = cores
        self._threads = threads
        self._slug = slug

    def devices(self) -> tuple[Device, ...]:
        """By PCI bus order. A GPU that NVML cannot open is left out: it cannot be measured either."""
        try:
            with _nvml():
                found = [_ask(partial(self._device, at))[0] for at in range(_count())]
                return tuple(device for device in found if device is not None)
        except pynvml.NVMLError:
            return ()

    def _device(self, at: int) -> Device:
        handle = pynvml.nvmlDeviceGetHandleByIndex(at)
        name = _value(lambda: pynvml.nvmlDeviceGetName(handle)) or "unknown NVIDIA GPU"
        capability = _value(lambda: _dotted(pynvml.nvmlDeviceGetCudaComputeCapability(handle)))
        memory = _ask(lambda: int(pynvml.nvmlDeviceGetMemoryInfo(handle).total))[0]
        return Device(
            id=str(pynvml.nvmlDeviceGetUUID(handle)),
            kind=DeviceKind.CUDA,
            name=name,
            device_class=f"{self._slug(name)}.cuda{self._cuda_major()}.ort{self._ort}",
            memory_bytes=memory,
            cores=self._cores,
            threads=self._threads,
            compute_capability=capability,
            fingerprint=_fingerprint(handle, name, capability),
        )

    def _cuda_major(self) -> str:
        version = _ask(lambda: int(pynvml.nvmlSystemGetCudaDriverVersion_v2()))[0]
        return str(version // 1000) if version is not None else ""


def _fingerprint(handle: Any, name: str, capability: str | None) -> tuple[Fact, ...]:
    return (
        Fact(name="gpu", value=name),
        Fact(name="compute_capability", value=capability, reason=None if capability else "not told by the driver"),
        _fact("driver", pynvml.nvmlSystemGetDriverVersion),
        _fact("cuda_driver", pynvml.nvmlSystemGetCudaDriverVersion_v2),
        _fact("vbios", lambda: pynvml.nvmlDeviceGetVbiosVersion(handle)),
        _fact("memory_bytes", lambda: pynvml.nvmlDeviceGetMemoryInfo(handle).total),
        _fact("ecc", lambda: pynvml.nvmlDeviceGetEccMode(handle)[0]),
        _fact("mig", lambda: pynvml.nvmlDeviceGetMigMode(handle)[0]),
        _fact("power_limit_mw", lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle)),
        _fact("sm_clock_max_mhz", lambda: pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM)),
        _fact("memory_clock_max_mhz", lambda: pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_MEM)),
        _fact("pcie_generation", lambda: pynvml.nvmlDeviceGetMaxPcieLinkGeneration(handle)),
        _fact("pcie_lanes", lambda: pynvml.nvmlDeviceGetMaxPcieLinkWidth(handle)),
    )


def _fact(name: str, read: Callable[[], Any]) -> Fact:
    value, reason = _ask(read)
    return Fact(name=name, value=None if value is None else str(value), reason=reason)


def _value(read: Callable[[], Any]) -> str | None:
    value, _ = _ask(read)
    return None if value is None else str(value)


def _ask(read: Callable[[], Any]) -> tuple[Any, str | None]:
    try:
        return read(), None
    except pynvml.NVMLError as error:
        return None, f"NVML: {error}"


def _count() -> int:
    return int(pynvml.nvmlDeviceGetCount())


def _dotted(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"


@contextmanager
def _nvml() -> Iterator[None]:
    pynvml.nvmlInit()
    try:
        yield
    finally:
        pynvml.nvmlShutdown()
