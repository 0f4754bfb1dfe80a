"""The outside worlds, as small Protocols. Adapters implement them; fakes in tests are held to the same contracts."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from onnxdyno.domain.devices import Device
from onnxdyno.domain.errors import PointError
from onnxdyno.domain.models import ObjectVersion
from onnxdyno.domain.outcomes import Transfer
from onnxdyno.domain.plan import Variant
from onnxdyno.domain.sessions import AS_USERS_GET_IT, SessionRecipe
from onnxdyno.domain.telemetry import TelemetrySample

ClockNs = Callable[[], int]
"""A monotonic clock in nanoseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Brakes:
    """What has held the cores themselves back so far; None = this machine does not say.

    `throttles` and `throttled_ns`: of the process's cgroups, for their CPU quota (`quota_cores` is the least of them).
    `clock_hz`: of the core that computes, now; `expected_hz`: what it should hold. `heat_events`: for its temperature.
    """

    throttles: int | None = None
    throttled_ns: int | None = None
    quota_cores: float | None = None
    clock_hz: float | None = None
    expected_hz: float | None = None
    heat_events: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """What has been counted so far of the work that is timed: CPU time, and involuntary context switches.

    `waits_ns`: (thread, nanoseconds it was ready to run and had no core), None where the kernel does not say.
    `cores`: how many the work may use.
    """

    cpu_ns: int
    switches: int = 0
    waits_ns: tuple[tuple[int, int], ...] | None = None
    cores: int = 1
    brakes: Brakes = Brakes()
    energy_uj: int | None = None
    """Of all the machine's CPU packages, where that can be read."""
    device_clock_hz: float | None = None
    """Of the GPU that computes, now; None on a CPU, and where nobody can tell."""


Witness = Callable[[], Sighting]
"""Read before and after a window of calls, never inside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyMeter:
    """A counter of energy in microjoules that never goes back; no `read_uj` has a reason. It may come to give None."""

    read_uj: Callable[[], int | None] | None = None
    reason: str | None = None


class DeviceClock(Protocol):
    """The clock at which a GPU computes; asked by the measuring process between windows of calls, never inside."""

    def read_hz(self) -> float | None:
        """Now; None where it cannot be read, for the reason that `reason` then has."""
        ...

    @property
    def reason(self) -> str | None:
        """Why the last reading gave nothing; None: it gave something, or there was none yet."""
        ...


class ObjectStore(Protocol):
    """A prefix of an object store. Keys are relative to it, `/`-separated, exact (never decoded or normalised).

    Every method raises `StoreError` (with `retryable`) when the store cannot be reached or refuses.
    """

    @property
    def uri(self) -> str:
        """`file:/path` or `s3://bucket/prefix`, without credentials and without a trailing slash."""
        ...

    def list(self, prefix: str = "") -> Iterator[ObjectVersion]:
        """Every object whose key starts with `prefix`, in key order, all pages; folder markers are left out."""
        ...

    def head(self, key: str) -> ObjectVersion | None:
        """The current version of one object, or None."""
        ...

    def get(self, key: str) -> bytes:
        """The bytes of a small object. Raises `ObjectMissing`."""
        ...

    def fetch(self, version: ObjectVersion, sink: Callable[[bytes], None]) -> None:
        """Stream exactly this version into `sink` chunk by chunk.

        Raises `ObjectChanged` if the object was replaced, `ObjectMissing` if it is gone, `StoreError` if it came short.
        """
        ...

    def put_if_absent(self, key: str, body: bytes) -> bool:
        """Create the object, all or nothing; False (and no change) if the key already exists."""
        ...

    def delete(self, key: str) -> None:
        """Remove the object; nothing happens if it is not there."""
        ...

    def filesystem(self) -> tuple[Any, str]:
        """A pyarrow file system built from the same settings and the path of this prefix in it, for reading tables."""
        ...


class Stream(Protocol):
    """A queue of the one GPU that this process was pinned to; a runtime submits to it."""

    @property
    def handle(self) -> int:
        """Its address, as a runtime takes it."""
        ...

    @property
    def wait(self) -> Callable[[], None]:
        """The bare call that returns when all submitted work is done, and raises if any of it failed."""
        ...

    def times_ns(self, submit: Callable[[], Any], count: int) -> tuple[int, ...]:
        """Device time of `count` calls, each between two events on this stream. Raises what a failed call raises."""
        ...


class Gpu(Protocol):
    """The one GPU that this process was pinned to. Every method raises `DeviceError` if it cannot be used."""

    def identity(self) -> str:
        """Its UUID as NVML writes it: `GPU-…`, or `MIG-…` for a part of one."""
        ...

    def open_stream(self) -> Stream:
        """A stream of its own, that waits for no other."""
        ...

    def copy(self, to_device_bytes: int, to_host_bytes: int, *, count: int, clock: ClockNs) -> Transfer:
        """Time copies each way through pinned memory; one that cannot be had is a reason in it, never an error."""
        ...


class BoundRun(Protocol):
    """A call with its inputs (and outputs) already bound; calling it submits and waits (`enqueue`: submits)."""

    def __call__(self) -> None:
        """One inference. Raises `PointError`."""
        ...

    @property
    def raw(self) -> Callable[[], Any]:
        """The bare call, for the timed loop only; errors come untranslated."""
        ...

    @property
    def settle(self) -> Callable[[], Any] | None:
        """What must be called between two timed calls, off the clock; None = nothing."""
        ...

    def device_ns(self, count: int) -> tuple[int, ...]:
        """`count` more calls by the device's own events; none where there are no events. Raises `PointError`."""
        ...

    def outputs(self) -> Sequence[tuple[str, Any]]:
        """Name and value of each output for the bound inputs; tensors as numpy arrays. May make one more call."""
        ...


class LoadedModel(Protocol):
    """A session on one device."""

    @property
    def session_ns(self) -> int:
        """Session creation with optimisation."""
        ...

    @property
    def providers(self) -> tuple[str, ...]:
        """The session's provider list, in order."""
        ...

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        """(`provider.option`, value) of each provider, after defaults."""
        ...

    @property
    def assignment(self) -> tuple[tuple[str, str, int], ...]:
        """(provider, op type, count): the runtime's own record of which provider took which nodes."""
        ...

    def bind(self, feeds: dict[str, Any], variant: Variant) -> BoundRun:
        """Bind one input set. Raises `PointError` if the runtime refuses it."""
        ...

    def end_profile(self) -> Path | None:
        """Stop profiling; the file written, if profiling was on."""
        ...


class Runtime(Protocol):
    """An inference engine."""

    @property
    def versions(self) -> tuple[tuple[str, str], ...]:
        """(name, version) of the engine and its build."""
        ...

    def load(self, path: Path, device: Device, threads: int, recipe: SessionRecipe = AS_USERS_GET_IT) -> LoadedModel:
        """Create a session. Raises `ModelError` for a model that can never run here.

        Raises `PointError` (not applicable) if the model runs, but not as a recorded graph as the recipe says.
        """
        ...

    def translate(self, error: Exception) -> PointError:
        """What an exception that came out of a raw call means for its point."""
        ...


class DeviceProbe(Protocol):
    """What devices this machine has."""

    def devices(self) -> tuple[Device, ...]:
        """Every device of this kind; empty when there is none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a measuring process ended: its exit status (negative = signal), the end of its standard error, why."""

    status: int
    stderr_tail: str
    timed_out: bool
    oom_killed: bool


class Launch(Protocol):
    """One measuring process at work."""

    def events(self, silence_s: Callable[[], float]) -> Generator[bytes, None, None]:
        """Lines from the process as they come; ends when it ends. `silence_s` is how long it may say nothing now."""
        ...

    def stop(self) -> Exit:
        """Wait for it to end, or end its whole group if it has not; always reaps."""
        ...


class Launcher(Protocol):
    """Starts measuring processes: own session, pinned to the device before anything loads, under the device's lock."""

    def start(self, device: Device, assignment: bytes) -> Launch:
        """Start one. Raises `DeviceBusy` when another run holds the device longer than the launcher waits."""
        ...


class Recording(Protocol):
    """Readings of one device, taken by a thread of the parent while a measuring process works."""

    def samples(self) -> tuple[TelemetrySample, ...]:
        """Everything read so far, in order; a bounded number of the latest."""
        ...

    def wait_past(self, t_ns: int, timeout_s: float) -> TelemetrySample | None:
        """The latest sample once one began after `t_ns` (CLOCK_MONOTONIC); None if none did within `timeout_s`."""
        ...

    def stop(self) -> None:
        """Read no more. Always returns, also when the driver hangs."""
        ...


class Sampler(Protocol):
    """What reads a device while it is measured."""

    def record(self, device: Device) -> Recording:
        """Begin to read at 10 to 20 Hz. Whatever cannot be read is None in the samples, with its reason."""
        ...


class MemoryBounds(Protocol):
    """Holds measuring processes to an amount of memory, where the kernel lets us."""

    def problem(self) -> str | None:
        """Why that cannot be done here; None: it can."""
        ...

    def bounded(self, limit_bytes: int) -> AbstractContextManager[Launcher]:
        """A launcher whose processes get no more than this. Raises `OSError`. Ask `problem` before."""
        ...


class Ledger(Protocol):
    """The finished pieces of one run, by name: what lets a run that died be finished without repeating them."""

    def read_all(self) -> dict[str, bytes]:
        """Every piece kept so far."""
        ...

    def keep(self, name: str, body: bytes) -> bytes:
        """Keep one piece; returns what is kept under that name, which is another's body if another was first."""
        ...
