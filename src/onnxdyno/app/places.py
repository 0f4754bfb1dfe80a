"""Where this process works: stores, devices, the cache, the locks; here their adapters are picked."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from onnxdyno.adapters import environment, host, local, nvml, processes
from onnxdyno.adapters.cgroups import CgroupBounds
from onnxdyno.adapters.environment import Environment
from onnxdyno.domain.claims import Owner
from onnxdyno.domain.cost import Count
from onnxdyno.domain.devices import Device, DeviceKind, Fact
from onnxdyno.domain.errors import DeviceError
from onnxdyno.domain.plan import BenchmarkPlan
from onnxdyno.domain.text import printable
from onnxdyno.ports import DeviceProbe, Ledger, ObjectStore, Sampler
from onnxdyno.storage.cache import ModelCache
from onnxdyno.storage.progress import MemoryLedger, StoreLedger
from onnxdyno.storage.shelf import Shelf

MEMORY_SHARE = 0.9
"""Share of the memory that is free now which a measuring process on the CPU may take."""


def open_store(uri: str, *, may_be_new: bool = False) -> ObjectStore:
    """The store that `file:…` or `s3://…` names. Raises `UsageError`.

    `may_be_new`: a directory that does not exist yet is an empty store (results), not a mistake (a registry).
    """
    scheme = uri.partition(":")[0].lower()
    if scheme == "s3":
        from onnxdyno.adapters import s3  # boto3 is only loaded where S3 is asked for

        return s3.S3Store(*s3.parse_uri(uri))
    return local.LocalStore(local.parse_uri(uri), may_be_new=may_be_new)


def devices() -> tuple[Device, ...]:
    """Every device of this machine: the CPU first, then GPUs by UUID. Raises `UsageError`.

    A fingerprint also holds the versions of what measures, and that of a GPU the facts of the host that feeds it.
    """
    runtime = runtime_version()
    cpus: DeviceProbe = host.CpuProbe(runtime, surroundings().image_digest)
    (cpu,) = cpus.devices()
    gpus: DeviceProbe = nvml.GpuProbe(runtime, cpu.cores, cpu.threads, host.slug, host.numa_node)
    ours = (Fact(name="onnxruntime", value=runtime), Fact(name="onnxdyno", value=metadata.version("onnxdyno")))
    around = (*_cuda_wheels(), *cpu.fingerprint, *ours)
    return (
        replace(cpu, fingerprint=(*cpu.fingerprint, *ours)),
        *(replace(gpu, fingerprint=(*gpu.fingerprint, *around)) for gpu in gpus.devices()),
    )


def _wheel(name: str, *distributions: str) -> Fact:
    """The version of CUDA's own library, where it came as a wheel."""
    for distribution in distributions:
        with suppress(metadata.PackageNotFoundError):
            return Fact(name=name, value=metadata.version(distribution))
    reason = f"no wheel {' or '.join(distributions)}: the system's own is used, if there is one"
    return Fact(name=name, value=None, reason=reason)


def _cuda_wheels() -> tuple[Fact, ...]:
    return (
        _wheel("cuda_runtime", "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu13"),
        _wheel("cudnn", "nvidia-cudnn-cu13"),
    )


def device(wanted: str | None = None) -> Device:
    """The device with this id, class, kind (`cpu`, `cuda`) or `cuda:<index>`; None = the CPU. Raises `DeviceError`.

    A GPU that is cut into MIG instances is not one of them: the index counts its instances in its place.
    """
    found = devices()
    cut = {each.parent_id for each in found} - {None}
    gpus = [each for each in found if each.kind is DeviceKind.CUDA and each.id not in cut]
    if wanted in cut:
        parts = ", ".join(each.id for each in found if each.parent_id == wanted)
        raise DeviceError(f"{wanted}: MIG is on, so this GPU cannot be measured as a whole. Name an instance: {parts}.")
    named = {f"cuda:{index}": each for index, each in enumerate(gpus)}
    for each in (*reversed(gpus), found[0]):
        named |= {each.id: each, each.device_class: each, each.kind.value: each}
    try:
        return named[wanted or "cpu"]
    except KeyError:
        raise DeviceError(
            f"no device {printable(wanted or '')!r} here (there is: {', '.join(each.id for each in found)}). "
            "`onnxdyno devices` lists them; a GPU needs the NVIDIA driver."
        ) from None


def surroundings() -> Environment:
    """What environment variables say. Raises `UsageError`."""
    return environment.read(os.environ)


def cache() -> ModelCache:
    """The fetched models of `shelf`."""
    found = surroundings()
    return ModelCache(found.cache_folder, found.cache_limit_bytes)


def shelf() -> Shelf:
    """Models, copies of them and input files on this machine's disk, within one limit."""
    found = surroundings()
    return Shelf(found.cache_folder, found.cache_limit_bytes)


def ledger(results_uri: str | None, run_id: str) -> Ledger:
    """Where the finished pieces of a run are kept; without a results store they end with the process."""
    return MemoryLedger() if results_uri is None else StoreLedger(open_store(results_uri, may_be_new=True), run_id)


@contextmanager
def launcher(planned: BenchmarkPlan, tell_waiting: Callable[[str], None]) -> Iterator[processes.ProcessLauncher]:
    """What starts measuring processes for the plan's device, while this run holds its lock."""
    with launcher_on(planned.device, tell_waiting) as found:
        yield found


@contextmanager
def launcher_on(device: Device, tell_waiting: Callable[[str], None]) -> Iterator[processes.ProcessLauncher]:
    """What starts measuring processes for a device, while this process holds its lock."""
    found = surroundings()
    processes.remove_left_behind()
    with processes.DeviceLock(found.lock_folder, device, found.lock_wait_s, tell_waiting) as lock:
        yield processes.ProcessLauncher(lock, host.oom_kills)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for the files of a moment; if this process is killed, a later start removes it."""
    found = processes.make_scratch()
    try:
        yield found.path
    finally:
        found.remove()


def cpu_cache_bytes(core: int) -> tuple[int, ...]:
    """Of the data caches of one core, smallest first; empty where the kernel does not say."""
    return host.cache_bytes(core)


def sampler() -> Sampler:
    """What reads a GPU while a run has it."""
    return nvml.GpuSampler(host.is_descendant)


def memory_bounds(launcher: processes.ProcessLauncher) -> CgroupBounds:
    """Measuring processes of this launcher held to an amount of memory, where the kernel lets us."""
    return CgroupBounds(host.memory_cgroup(), launcher.joining)


def device_used_bytes(on: Device) -> Count:
    """What is in use on a GPU now, by the driver's word."""
    value, reason = nvml.used_bytes(on.id)
    return Count(value=value, reason=reason)


def memory_limit_bytes() -> int:
    """What a measuring process may take now."""
    return int(host.available_bytes() * MEMORY_SHARE)


def runtime_version() -> str:
    """Version of the installed runtime, without importing it."""
    return metadata.version("onnxruntime-gpu")


def now() -> str:
    """UTC, ISO 8601 with seconds; a label, never a duration."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def myself() -> Owner:
    """This process, as the owner of a claim."""
    pid = os.getpid()
    return Owner(host=host.host_id(), pid=pid, started=host.process_started(pid) or "")


def is_alive(owner: Owner) -> bool | None:
    """None: on another host, whose processes cannot be looked at from here."""
    if owner.host != host.host_id():
        return None
    return host.process_started(owner.pid) == owner.started
