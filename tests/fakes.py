"""Fakes of the outside worlds, held to the same contracts as the adapters."""

import hashlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from onnxdyno.domain.errors import ObjectChanged, ObjectMissing
from onnxdyno.domain.models import ObjectVersion


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
