# ruff: noqa: N802, N815  names are those of cuda.bindings
"""`cuda.bindings` without a GPU: the functions that the adapter calls, with the same arguments and tuples back.

Streams hold work until they are waited for; device time passes on a clock of its own. Faults are set by hand, as
`runtime.faults["cudaStreamSynchronize"] = 719`: a lasting one stays, any other is told once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

LASTING = frozenset({700, 719})
UUID = bytes(range(16))


class Status(IntEnum):
    """Of `cudaError_t`."""

    cudaSuccess = 0
    cudaErrorMemoryAllocation = 2
    cudaErrorInvalidDevice = 101
    cudaErrorIllegalAddress = 700
    cudaErrorLaunchFailure = 719


_SAID = {2: b"out of memory", 101: b"invalid device ordinal", 700: b"an illegal memory access was encountered"}


@dataclass
class Uuid:
    bytes: bytes


class Kinds(IntEnum):
    """Of `cudaMemcpyKind`."""

    cudaMemcpyHostToDevice = 1
    cudaMemcpyDeviceToHost = 2


@dataclass
class FakeCuda:
    """`cuda.bindings.runtime`."""

    now_ns: int = 0
    pending: dict[int, list[Callable[[], None]]] = field(default_factory=dict)
    reached_ns: dict[int, int] = field(default_factory=dict)
    owned: set[int] = field(default_factory=set)
    faults: dict[str, int] = field(default_factory=dict)
    waits: int = 0
    copies: list[tuple[int, int]] = field(default_factory=list)
    last_handle: int = 0x1000

    cudaError_t = Status
    cudaMemcpyKind = Kinds
    cudaStreamNonBlocking = 1
    cudaEventDefault = 0
    cudaHostAllocDefault = 0

    def work(self, stream: int, duration_ns: int) -> None:
        """What a launched kernel does: nothing until somebody waits, then device time passes."""

        def run() -> None:
            self.now_ns += duration_ns

        self.pending[stream].append(run)

    def _status(self, name: str) -> Status:
        code = self.faults.get(name, 0)
        if code not in LASTING:
            self.faults.pop(name, None)
        return Status(code)

    def _new(self, name: str) -> tuple[Status, int | None]:
        status = self._status(name)
        if status:
            return status, None
        self.last_handle += 0x10
        self.owned.add(self.last_handle)
        return status, self.last_handle

    def _gone(self, handle: int) -> tuple[Status]:
        self.owned.remove(handle)
        return (Status.cudaSuccess,)

    def _drain(self, stream: int) -> None:
        for run in self.pending[stream]:
            run()
        self.pending[stream].clear()

    def cudaGetErrorString(self, status: Status) -> tuple[Status, bytes]:
        return Status.cudaSuccess, _SAID.get(int(status), b"unspecified launch failure")

    def cudaMemGetInfo(self) -> tuple[Status, int | None, int | None]:
        status = self._status("cudaMemGetInfo")
        return (status, None, None) if status else (status, 60 * 2**20, 100 * 2**20)

    def cudaStreamCreateWithFlags(self, flags: int) -> tuple[Status, int | None]:
        status, handle = self._new("cudaStreamCreateWithFlags")
        if handle is not None:
            self.pending[handle] = []
        return status, handle

    def cudaStreamSynchronize(self, stream: int) -> tuple[Status]:
        self.waits += 1
        self._drain(stream)
        return (self._status("cudaStreamSynchronize"),)

    def cudaStreamDestroy(self, stream: int) -> tuple[Status]:
        return self._gone(stream)

    def cudaEventCreateWithFlags(self, flags: int) -> tuple[Status, int | None]:
        return self._new("cudaEventCreateWithFlags")

    def cudaEventRecord(self, event: int, stream: int) -> tuple[Status]:
        def reach() -> None:
            self.reached_ns[event] = self.now_ns

        self.pending[stream].append(reach)
        return (self._status("cudaEventRecord"),)

    def cudaEventSynchronize(self, event: int) -> tuple[Status]:
        for stream in self.pending:
            self._drain(stream)
        return (self._status("cudaEventSynchronize"),)

    def cudaEventElapsedTime(self, began: int, ended: int) -> tuple[Status, float]:
        return Status.cudaSuccess, (self.reached_ns[ended] - self.reached_ns[began]) / 1e6

    def cudaHostAlloc(self, size: int, flags: int) -> tuple[Status, int | None]:
        return self._new("cudaHostAlloc")

    def cudaMalloc(self, size: int) -> tuple[Status, int | None]:
        return self._new("cudaMalloc")

    def cudaFreeHost(self, block: int) -> tuple[Status]:
        return self._gone(block)

    def cudaFree(self, block: int) -> tuple[Status]:
        return self._gone(block)

    def cudaMemcpyAsync(self, target: int, source: int, amount: int, kind: Kinds, stream: int) -> tuple[Status]:
        self.copies.append((int(kind), amount))
        self.work(stream, amount)
        return (self._status("cudaMemcpyAsync"),)


@dataclass
class FakeDriver:
    """`cuda.bindings.driver`."""

    uuid: bytes = UUID
    name: bytes = b"NVIDIA Fake 1"
    status: Status = Status.cudaSuccess

    def cuInit(self, flags: int) -> tuple[Status]:
        return (self.status,)

    def cuDeviceGet(self, ordinal: int) -> tuple[Status, Any]:
        return Status.cudaSuccess, ordinal

    def cuDeviceGetUuid(self, device: Any) -> tuple[Status, Uuid]:
        return Status.cudaSuccess, Uuid(self.uuid)

    def cuDeviceGetName(self, length: int, device: Any) -> tuple[Status, bytes]:
        return Status.cudaSuccess, self.name.ljust(length, b"\0")
