"""The GPUs of this machine by UUID, MIG instances too. What a driver does not tell is null with its reason."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pynvml

from onnxdyno.adapters.nvml.asking import ask, is_mig_on, mig_handles, nvml
from onnxdyno.domain.devices import Device, DeviceKind, Fact

Read = Callable[[], Any]


def _nowhere(_: str) -> int | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slice:
    """A MIG instance: its handle and its profile, such as `1g.5gb`."""

    handle: Any
    profile: str


class GpuProbe:
    """Every GPU that NVML lists; none where there is no driver."""

    def __init__(
        self,
        runtime_version: str,
        cores: tuple[int, ...],
        threads: int,
        slug: Callable[[str], str],
        numa_node: Callable[[str], int | None] = _nowhere,
    ) -> None:
        """`numa_node`: of a PCI bus id."""
        self._ort = ".".join(runtime_version.split(".")[:2])
        self._cores = cores
        self._threads = threads
        self._slug = slug
        self._numa_node = numa_node

    def devices(self) -> tuple[Device, ...]:
        """By PCI bus order, each GPU before its MIG instances.

        A GPU that NVML cannot open is left out: it cannot be measured either.
        """
        try:
            with nvml():
                found = [ask(partial(self._at, at))[0] or () for at in range(int(pynvml.nvmlDeviceGetCount()))]
        except pynvml.NVMLError:
            return ()
        return tuple(device for each in found for device in each)

    def _at(self, at: int) -> tuple[Device, ...]:
        handle = pynvml.nvmlDeviceGetHandleByIndex(at)
        whole = self._device(handle, None)
        parts = mig_handles(handle) if is_mig_on(handle) else ()
        sliced = (ask(partial(self._device, handle, _slice(part)))[0] for part in parts)
        return (whole, *(each for each in sliced if each is not None))

    def _device(self, handle: Any, part: _Slice | None) -> Device:
        """The GPU, or one instance of it: then memory is the instance's own, all else is of the GPU it is cut from."""
        own = handle if part is None else part.handle
        name = self._name(handle, part)
        capability, _ = ask(lambda: _dotted(pynvml.nvmlDeviceGetCudaComputeCapability(handle)))
        memory, _ = ask(lambda: int(pynvml.nvmlDeviceGetMemoryInfo(own).total))
        parent = None if part is None else str(pynvml.nvmlDeviceGetUUID(handle))
        return Device(
            id=str(pynvml.nvmlDeviceGetUUID(own)),
            kind=DeviceKind.CUDA,
            name=name,
            device_class=f"{self._slug(name)}.cuda{self._cuda_major()}.ort{self._ort}",
            memory_bytes=memory,
            cores=self._cores,
            threads=self._threads,
            compute_capability=capability,
            parent_id=parent,
            fingerprint=(
                Fact(name="gpu", value=name),
                *(_fact(fact, read) for fact, read in _readings(handle, own)),
                self._numa_fact(handle),
                *(() if part is None else _slice_facts(parent, part)),
            ),
        )

    def _name(self, handle: Any, part: _Slice | None) -> str:
        """An instance never has the name of its whole GPU: classes and numbers would mix."""
        whole = ask(lambda: str(pynvml.nvmlDeviceGetName(handle)))[0] or "unknown NVIDIA GPU"
        return whole if part is None else f"{whole} MIG {part.profile}"

    def _cuda_major(self) -> str:
        version, _ = ask(lambda: int(pynvml.nvmlSystemGetCudaDriverVersion_v2()))
        return str(version // 1000) if version is not None else ""

    def _numa_fact(self, handle: Any) -> Fact:
        bus_id, reason = ask(lambda: str(pynvml.nvmlDeviceGetPciInfo(handle).busId))
        node = None if bus_id is None else self._numa_node(bus_id)
        if node is None:
            return Fact(name="gpu_numa_node", value=None, reason=reason or "the system does not say for this PCI slot")
        return Fact(name="gpu_numa_node", value=str(node))


def _readings(handle: Any, own: Any) -> tuple[tuple[str, Read], ...]:
    """What the fingerprint holds, in order."""
    return (
        ("compute_capability", lambda: _dotted(pynvml.nvmlDeviceGetCudaComputeCapability(handle))),
        ("driver", pynvml.nvmlSystemGetDriverVersion),
        ("cuda_driver", pynvml.nvmlSystemGetCudaDriverVersion_v2),
        ("vbios", lambda: pynvml.nvmlDeviceGetVbiosVersion(handle)),
        ("memory_bytes", lambda: pynvml.nvmlDeviceGetMemoryInfo(own).total),
        ("ecc", lambda: pynvml.nvmlDeviceGetEccMode(handle)[0]),
        ("mig", lambda: pynvml.nvmlDeviceGetMigMode(handle)[0]),
        ("power_limit_mw", lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle)),
        ("power_limit_default_mw", lambda: pynvml.nvmlDeviceGetPowerManagementDefaultLimit(handle)),
        ("sm_clock_max_mhz", lambda: pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM)),
        ("memory_clock_max_mhz", lambda: pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_MEM)),
        ("graphics_clock_set_mhz", lambda: pynvml.nvmlDeviceGetApplicationsClock(handle, pynvml.NVML_CLOCK_GRAPHICS)),
        ("memory_clock_set_mhz", lambda: pynvml.nvmlDeviceGetApplicationsClock(handle, pynvml.NVML_CLOCK_MEM)),
        ("pcie_generation", lambda: pynvml.nvmlDeviceGetMaxPcieLinkGeneration(handle)),
        ("pcie_lanes", lambda: pynvml.nvmlDeviceGetMaxPcieLinkWidth(handle)),
        ("persistence_mode", lambda: pynvml.nvmlDeviceGetPersistenceMode(handle)),
        ("compute_mode", lambda: pynvml.nvmlDeviceGetComputeMode(handle)),
    )


def _slice(handle: Any) -> _Slice:
    """Its profile as NVML names it, else by its shares of the GPU: `1g.5gb`."""
    named, _ = ask(lambda: str(pynvml.nvmlDeviceGetName(handle)))
    profile = (named or "").partition(" MIG ")[2]
    if not profile:
        shares, _ = ask(partial(pynvml.nvmlDeviceGetAttributes_v2, handle))
        profile = (
            "instance" if shares is None else f"{shares.gpuInstanceSliceCount}g.{shares.memorySizeMB / 1024:.0f}gb"
        )
    return _Slice(handle=handle, profile=profile)


def _slice_facts(parent: str | None, part: _Slice) -> tuple[Fact, ...]:
    return (
        Fact(name="mig_parent", value=parent),
        Fact(name="mig_profile", value=part.profile),
        _fact("mig_multiprocessors", lambda: pynvml.nvmlDeviceGetAttributes_v2(part.handle).multiprocessorCount),
    )


def _fact(name: str, read: Read) -> Fact:
    value, reason = ask(read)
    return Fact(name=name, value=None if value is None else str(value), reason=reason)


def _dotted(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"
