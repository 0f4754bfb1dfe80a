"""A device: one GPU, or one set of CPU cores, and the fingerprint under which its numbers may be compared."""

from dataclasses import dataclass
from enum import StrEnum


class DeviceKind(StrEnum):
    """Which execution provider measures on it."""

    CPU = "cpu"
    CUDA = "cuda"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One entry of a fingerprint: null with a reason where it cannot be read, never an empty string or 0."""

    name: str
    value: str | None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """`id` is `cpu` or the NVML UUID; `device_class` = hardware × EP × major versions, a safe path segment.

    `cores` are the logical CPUs that this process may use (for a GPU: that feed it); `threads` the default
    `intra_op_num_threads`.
    """

    id: str
    kind: DeviceKind
    name: str
    device_class: str
    memory_bytes: int | None
    cores: tuple[int, ...]
    threads: int
    compute_capability: str | None = None
    fingerprint: tuple[Fact, ...] = ()
    parent_id: str | None = None
    """Of a MIG instance: the GPU that it is cut from, which cannot be measured as a whole while it is cut."""
