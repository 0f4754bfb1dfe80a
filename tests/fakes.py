"""Fakes of the outside worlds, held to the same contracts as the adapters."""

import hashlib
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onnxdyno import wire
from onnxdyno.domain.assignments import Assignment, Event
from onnxdyno.domain.devices import Device
from onnxdyno.domain.errors import DeviceBusy, ObjectChanged, ObjectMissing, PointError
from onnxdyno.domain.models import ObjectVersion
from onnxdyno.domain.outcomes import PointState
from onnxdyno.domain.plan import Variant
from onnxdyno.domain.sessions import AS_USERS_GET_IT, SessionRecipe
from onnxdyno.domain.telemetry import TelemetrySample
from onnxdyno.measuring.memory import MemoryGauge
from onnxdyno.ports import BoundRun, Exit, Launch, Launcher, LoadedModel, Recording, Runtime, Sampler


class MemoryStore:
    """An object store in memory: `ports.ObjectStore`, and `put` to play the part of a person who uploads."""

    def __init__(self, uri: str = "memory:test") -> None:
        self._uri = uri
        self._objects: dict[str, tuple[bytes, str]] = {}
        self._writes = 0
        self._lock = threading.Lock()
        self.requests: list[tuple[str, str]] = []
        """(method, key or prefix) of every call, in order."""

    @property
    def uri(self) -> str:
        return self._uri

    def list(self, prefix: str = "") -> Iterator[ObjectVersion]:
        self.requests.append(("list", prefix))
        for key in sorted(self._objects, key=lambda key: key.encode("utf-8", "surrogateescape")):
            if key.startswith(prefix) and not key.endswith("/"):
                yield self._version(key)

    def head(self, key: str) -> ObjectVersion | None:
        self.requests.append(("head", key))
        return self._version(key) if key in self._objects else None

    def get(self, key: str) -> bytes:
        self.requests.append(("get", key))
        if key not in self._objects:
            raise ObjectMissing(f"{self._uri}/{key}: no such object.")
        return self._objects[key][0]

    def fetch(self, version: ObjectVersion, sink: Callable[[bytes], None]) -> None:
        body = self.get(version.key)
        for start in range(0, len(body), 1 << 16):
            if version.key not in self._objects:
                raise ObjectMissing(f"{self._uri}/{version.key}: the object is gone.")
            if self._version(version.key).etag != version.etag:
                raise ObjectChanged(f"{self._uri}/{version.key}: replaced while it was read.")
            sink(body[start : start + (1 << 16)])

    def put_if_absent(self, key: str, body: bytes) -> bool:
        self.requests.append(("put", key))
        with self._lock:
            if key in self._objects:
                return False
            self._put(key, body)
            return True

    def put(self, key: str, body: bytes) -> None:
        """Upload, replacing what is there."""
        with self._lock:
            self._put(key, body)

    def delete(self, key: str) -> None:
        with self._lock:
            self._objects.pop(key, None)

    def filesystem(self) -> tuple[Any, str]:
        from pyarrow import fs

        system = fs._MockFileSystem()
        for key, (body, _) in self._objects.items():
            system.create_dir(f"store/{key}".rpartition("/")[0], recursive=True)
            with system.open_output_stream(f"store/{key}") as stream:
                stream.write(body)
        return system, "store"

    def _put(self, key: str, body: bytes) -> None:
        self._writes += 1
        self._objects[key] = (body, f"{hashlib.sha256(body).hexdigest()[:16]}-{self._writes}")

    def _version(self, key: str) -> ObjectVersion:
        body, etag = self._objects[key]
        return ObjectVersion(store_uri=self._uri, key=key, etag=etag, version_id=None, size_bytes=len(body))


@dataclass
class FakeGauge:
    """`measuring.memory.MemoryGauge`: what was taken and given back, and the peak of it."""

    used: int = 0
    peak: int = 0
    refusal: OSError | None = None

    def take(self, amount: int) -> None:
        """Use more."""
        self.used += amount
        self.peak = max(self.peak, self.used)

    def give_back(self, amount: int) -> None:
        """Use less."""
        self.used -= amount

    def used_bytes(self) -> int:
        return self.used

    def peak_bytes(self) -> int:
        return self.peak

    def reset(self) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.peak = self.used


@dataclass
class FakeCall:
    """`ports.BoundRun`: runs `act` with its inputs; what `act` returns are the outputs."""

    feeds: dict[str, Any]
    act: Callable[[dict[str, Any]], Sequence[tuple[str, Any]]]
    came_out: Sequence[tuple[str, Any]] = ()
    event_ns: int | None = None
    settle: Callable[[], Any] | None = None

    def __call__(self) -> None:
        try:
            self.raw()
        except (RuntimeError, MemoryError) as error:
            raise FakeRuntime.translate(error) from error

    @property
    def raw(self) -> Callable[[], Any]:
        def call() -> None:
            self.came_out = self.act(self.feeds)

        return call

    def device_ns(self, count: int) -> tuple[int, ...]:
        return () if self.event_ns is None else (self.event_ns,) * count

    def outputs(self) -> Sequence[tuple[str, Any]]:
        return self.came_out


@dataclass
class FakeModel:
    """`ports.LoadedModel`: every call does `act`; the first of each binding is made while it is bound."""

    act: Callable[[dict[str, Any]], Sequence[tuple[str, Any]]]
    placed: tuple[tuple[str, str, int], ...] = (("CPUExecutionProvider", "Conv", 1),)
    profile_file: Path | None = None
    event_ns: int | None = None
    settle: Callable[[], Any] | None = None
    bound: list[tuple[Variant, dict[str, Any]]] = field(default_factory=list)

    @property
    def session_ns(self) -> int:
        return 5_000_000

    @property
    def providers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(provider for provider, _, _ in self.placed))

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        return tuple((f"{provider}.device_id", "0") for provider in self.providers)

    @property
    def assignment(self) -> tuple[tuple[str, str, int], ...]:
        return self.placed

    def bind(self, feeds: dict[str, Any], variant: Variant) -> BoundRun:
        self.bound.append((variant, feeds))
        call = FakeCall(feeds, self.act, event_ns=self.event_ns, settle=self.settle)
        call()
        return call

    def end_profile(self) -> Path | None:
        return self.profile_file


@dataclass
class FakeRuntime:
    """`ports.Runtime`: loads `model`, or raises `refusal`. A `RuntimeError` out of a call is a shape error."""

    model: FakeModel
    refusal: Exception | None = None
    loads: list[Path] = field(default_factory=list)
    recipes: list[SessionRecipe] = field(default_factory=list)

    @property
    def versions(self) -> tuple[tuple[str, str], ...]:
        return (("fake", "1"),)

    def load(self, path: Path, device: Device, threads: int, recipe: SessionRecipe = AS_USERS_GET_IT) -> LoadedModel:
        self.loads.append(path)
        self.recipes.append(recipe)
        if self.refusal is not None:
            raise self.refusal
        return self.model

    @staticmethod
    def translate(error: Exception) -> PointError:
        is_memory = isinstance(error, MemoryError)
        return PointError(PointState.OOM if is_memory else PointState.SHAPE_ERROR, str(error), "Try another.")


FINE = Exit(status=0, stderr_tail="", timed_out=False, oom_killed=False)


@dataclass
class FakeLaunch:
    """`ports.Launch`: says these events, then ends as told. `patience_s` is how long it was let be silent each time."""

    lines: Sequence[bytes]
    ended: Exit
    patience_s: list[float] = field(default_factory=list)
    stops: int = 0

    def events(self, silence_s: Callable[[], float]) -> Generator[bytes, None, None]:
        for line in self.lines:
            self.patience_s.append(silence_s())
            yield line
        self.patience_s.append(silence_s())

    def stop(self) -> Exit:
        self.stops += 1
        return self.ended


Script = Callable[[Assignment], tuple[Sequence[Event | bytes], Exit]]
"""What a measuring process does with its assignment."""


@dataclass
class FakeLauncher:
    """`ports.Launcher`: each start plays the next script; more starts than scripts are refused."""

    scripts: Sequence[Script]
    assignments: list[Assignment] = field(default_factory=list)
    launches: list[FakeLaunch] = field(default_factory=list)

    def start(self, device: Device, assignment: bytes) -> Launch:
        if len(self.launches) == len(self.scripts):
            raise DeviceBusy(f"{device.id}: one process more than expected.")
        asked = wire.decode_assignment(assignment)
        events, ended = self.scripts[len(self.launches)](asked)
        lines = [event if isinstance(event, bytes) else wire.encode(event) for event in events]
        self.assignments.append(asked)
        self.launches.append(FakeLaunch(lines, ended))
        return self.launches[-1]


@dataclass
class FakeRecording:
    """`ports.Recording`: each wait for a later sample brings the next of `coming`; None = it does not come in time."""

    coming: Iterator[TelemetrySample | None]
    read: list[TelemetrySample] = field(default_factory=list)
    stops: int = 0

    def samples(self) -> tuple[TelemetrySample, ...]:
        return tuple(self.read)

    def wait_past(self, t_ns: int, timeout_s: float) -> TelemetrySample | None:
        while not self.read or self.read[-1].t_ns <= t_ns:
            sample = next(self.coming, None)
            if sample is None:
                return None
            self.read.append(sample)
        return self.read[-1]

    def stop(self) -> None:
        self.stops += 1


@dataclass
class FakeSampler:
    """`ports.Sampler`: every recording plays the same samples."""

    plays: Sequence[TelemetrySample | None]
    recordings: list[FakeRecording] = field(default_factory=list)

    def record(self, device: Device) -> Recording:
        self.recordings.append(FakeRecording(iter(self.plays)))
        return self.recordings[-1]


_GAUGE: type[MemoryGauge] = FakeGauge
_CALL: type[BoundRun] = FakeCall
_MODEL: type[LoadedModel] = FakeModel
_RUNTIME: type[Runtime] = FakeRuntime
_LAUNCH: type[Launch] = FakeLaunch
_RECORDING: type[Recording] = FakeRecording
_SAMPLER: type[Sampler] = FakeSampler
_LAUNCHER: type[Launcher] = FakeLauncher
