"""The door to CUDA: memory, streams, events and copies of the one GPU that this process was pinned to.

Functions of `cuda.bindings` return a tuple whose first item is the status; none of them raises for a failed call.
"""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from cuda.bindings import driver, runtime

from onnxdyno.domain.errors import DeviceError
from onnxdyno.domain.outcomes import Transfer
from onnxdyno.ports import ClockNs

_WARM_UP_COPIES = 3
_LONGEST_NAME = 256


class CudaFailure(RuntimeError):
    """A failed call, in the form in which ONNX Runtime tells of its own: `CUDA failure 719: …`."""


def check(cuda: Any, name: str, result: tuple[Any, ...]) -> Any:
    """The values of a call, without its status. Raises `CudaFailure`."""
    status, *values = result
    if int(status) != 0:
        _, text = cuda.cudaGetErrorString(status)
        said = text.decode() if isinstance(text, bytes) else text
        raise CudaFailure(f"CUDA failure {int(status)}: {status.name}: {said} (in {name})")
    return values[0] if len(values) == 1 else tuple(values)


@contextmanager
def _usable(what: str) -> Iterator[None]:
    """A failure, or a driver that is not there, as `DeviceError`."""
    try:
        yield
    except RuntimeError as error:  # CudaFailure, and what the bindings raise when they find no driver
        raise DeviceError(
            f"{what}: {' '.join(str(error).split()).rstrip('.')}. Check the driver with nvidia-smi."
        ) from error


class DeviceMemory:
    """Bytes in use on the GPU over those in use when this gauge was reset, by cudaMemGetInfo.

    The first question creates the CUDA context, so the context itself is not in the difference; ONNX Runtime's arena
    keeps what it has taken, so the use after a run is its peak. Another process on the device would be counted:
    the device's lock and the check for foreign tenants are there to prevent that.
    """

    def __init__(self, cuda: Any = runtime) -> None:
        self._cuda = cuda

    def used_bytes(self) -> int:
        """Now, by every process on the device."""
        with _usable("the GPU's memory cannot be read"):
            free_bytes, total_bytes = check(self._cuda, "cudaMemGetInfo", self._cuda.cudaMemGetInfo())
        return int(total_bytes) - int(free_bytes)

    def peak_bytes(self) -> int:
        """As `used_bytes`: see the class."""
        return self.used_bytes()

    def reset(self) -> None:
        """Create the context, so that it is part of the baseline."""
        self.used_bytes()


class CudaStream:
    """`ports.Stream`: a stream that does not wait for the default one, and two events on it."""

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda
        flags = cuda.cudaStreamNonBlocking
        self._stream = check(cuda, "cudaStreamCreateWithFlags", cuda.cudaStreamCreateWithFlags(flags))
        self._events = [
            check(cuda, "cudaEventCreateWithFlags", cuda.cudaEventCreateWithFlags(cuda.cudaEventDefault))
            for _ in range(2)
        ]

    @property
    def handle(self) -> int:
        """Its address."""
        return int(self._stream)

    @property
    def wait(self) -> Callable[[], None]:
        """One call of the driver, and one look at its status."""
        cuda, stream, synchronise = self._cuda, self._stream, self._cuda.cudaStreamSynchronize

        def wait() -> None:
            result = synchronise(stream)
            if result[0]:
                check(cuda, "cudaStreamSynchronize", result)

        return wait

    def times_ns(self, submit: Callable[[], Any], count: int) -> tuple[int, ...]:
        """Device time of `count` calls; the events resolve about half a microsecond."""
        return tuple(self._time_ns(submit) for _ in range(count))

    def _time_ns(self, submit: Callable[[], Any]) -> int:
        cuda, (began, ended) = self._cuda, self._events
        check(cuda, "cudaEventRecord", cuda.cudaEventRecord(began, self._stream))
        submit()
        check(cuda, "cudaEventRecord", cuda.cudaEventRecord(ended, self._stream))
        check(cuda, "cudaEventSynchronize", cuda.cudaEventSynchronize(ended))
        elapsed_ms = check(cuda, "cudaEventElapsedTime", cuda.cudaEventElapsedTime(began, ended))
        return round(float(elapsed_ms) * 1e6)


class CudaGpu:
    """`ports.Gpu`: CUDA's index 0, since the process sees only the GPU whose UUID it was given."""

    def __init__(self, cuda: Any = runtime, low: Any = driver) -> None:
        """`cuda` and `low` are the modules `runtime` and `driver` of `cuda.bindings`."""
        self._cuda = cuda
        self._low = low

    def identity(self) -> str:
        """By the driver's interface: it tells a MIG instance from the GPU that it is part of, and makes no context."""
        low = self._low
        with _usable("the GPU cannot be identified"):
            self._said("cuInit", low.cuInit(0))
            device = self._said("cuDeviceGet", low.cuDeviceGet(0))
            raw = bytes(self._said("cuDeviceGetUuid", low.cuDeviceGetUuid(device)).bytes)
            name = bytes(self._said("cuDeviceGetName", low.cuDeviceGetName(_LONGEST_NAME, device)))
        return f"{'MIG' if b'MIG' in name else 'GPU'}-{uuid.UUID(bytes=raw)}"

    def open_stream(self) -> CudaStream:
        """Raises `DeviceError`."""
        with _usable("no stream on the GPU"):
            return CudaStream(self._cuda)

    def copy(self, to_device_bytes: int, to_host_bytes: int, *, count: int, clock: ClockNs) -> Transfer:
        """Blocks of at least one byte each; both are freed on every way out."""
        reason = None
        h2d_ns: tuple[int, ...] = ()
        d2h_ns: tuple[int, ...] = ()
        try:
            h2d_ns, d2h_ns = self._copied(max(1, to_device_bytes), max(1, to_host_bytes), count, clock)
        except RuntimeError as error:
            reason = f"copies through pinned memory failed: {error}."
        return Transfer(h2d_bytes=to_device_bytes, d2h_bytes=to_host_bytes, h2d_ns=h2d_ns, d2h_ns=d2h_ns, reason=reason)

    def _copied(
        self, to_device_bytes: int, to_host_bytes: int, count: int, clock: ClockNs
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        cuda = self._cuda
        size_bytes = max(to_device_bytes, to_host_bytes)
        with ExitStack() as blocks:
            stream = check(
                cuda, "cudaStreamCreateWithFlags", cuda.cudaStreamCreateWithFlags(cuda.cudaStreamNonBlocking)
            )
            blocks.callback(cuda.cudaStreamDestroy, stream)
            pinned = check(cuda, "cudaHostAlloc", cuda.cudaHostAlloc(size_bytes, cuda.cudaHostAllocDefault))
            blocks.callback(cuda.cudaFreeHost, pinned)
            resident = check(cuda, "cudaMalloc", cuda.cudaMalloc(size_bytes))
            blocks.callback(cuda.cudaFree, resident)

            def time_ns(target: Any, source: Any, amount: int, kind: Any) -> int:
                began_ns = clock()
                copied = cuda.cudaMemcpyAsync(target, source, amount, kind, stream)
                done = cuda.cudaStreamSynchronize(stream)
                took_ns = clock() - began_ns
                check(cuda, "cudaMemcpyAsync", copied)
                check(cuda, "cudaStreamSynchronize", done)
                return took_ns

            kinds = cuda.cudaMemcpyKind
            there, back = kinds.cudaMemcpyHostToDevice, kinds.cudaMemcpyDeviceToHost
            h2d_ns, d2h_ns = [], []
            for _ in range(_WARM_UP_COPIES + count):
                h2d_ns.append(time_ns(resident, pinned, to_device_bytes, there))
                d2h_ns.append(time_ns(pinned, resident, to_host_bytes, back))
            return tuple(h2d_ns[_WARM_UP_COPIES:]), tuple(d2h_ns[_WARM_UP_COPIES:])

    @staticmethod
    def _said(name: str, result: tuple[Any, ...]) -> Any:
        """The value of a call of the driver's interface."""
        status, *values = result
        if int(status) != 0:
            raise CudaFailure(f"CUDA failure {int(status)}: {status.name} (in {name})")
        return values[0] if values else None
