"""The disk side of the model cache: staging, placing under a digest, locks of models in use, eviction.

```
<root>/<sha256>/…            a whole model; appears by one rename
<root>/unfinished/<random>/  a download under way: `content/` and the `lock` its process holds
<root>/locks/<sha256>        held shared by every process that uses the model
<root>/index/<digest>.json   which model an object version turned out to be
```
"""

import errno
import fcntl
import os
import re
import secrets
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onnxdyno.domain.errors import InfrastructureError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_GRAVE = "gone-"
_held: dict[str, int] = {}
_held_lock = threading.Lock()


@contextmanager
def disk(root: Path) -> Iterator[None]:
    """Turn what the disk refuses into one clear line."""
    try:
        yield
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else type(error).__name__
        advice = (
            "free space, or set a smaller cache limit" if error.errno in _FULL else "check the folder and its rights"
        )
        raise InfrastructureError(
            f"model cache {root}: {why}; {advice}. Nothing was left behind.", retryable=False
        ) from error


class Shelf:
    """Whole models under their digests within `limit_bytes`, least recently used out first, never one in use."""

    def __init__(self, root: Path, limit_bytes: int) -> None:
        self.root = root
        self._limit_bytes = limit_bytes

    def folder(self, sha256: str) -> Path:
        """Where the model with this digest lies, if it does."""
        return self.root / sha256

    def index(self, version_digest: str) -> Path:
        """Where it is written which model an object version turned out to be."""
        return self.root / "index" / f"{version_digest}.json"

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """An empty folder for one download; gone afterwards, also (by the next download) after a kill."""
        here = self.root / "unfinished" / secrets.token_hex(8)
        with self._alone():
            (here / "content").mkdir(parents=True)
            lock = os.open(here / "lock", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield here / "content"
        finally:
            shutil.rmtree(here, ignore_errors=True)
            os.close(lock)

    def place(self, content: Path, sha256: str) -> Path:
        """Move a whole model to its digest and hold it; if it is there already, that one is kept."""
        self._hold(sha256)
        folder = self.folder(sha256)
        try:
            content.rename(folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                self.release(sha256)
                raise
        os.utime(folder)
        return folder

    def use(self, sha256: str) -> Path | None:
        """Hold a model that is on the shelf and mark it used; None if it is not there."""
        self._hold(sha256)
        folder = self.folder(sha256)
        if not folder.is_dir():
            self.release(sha256)
            return None
        os.utime(folder)
        return folder

    def _hold(self, sha256: str) -> None:
        """Until `release` or the end of this process nobody evicts the model."""
        path = self._lock_path(sha256)
        with _held_lock:
            if str(path) not in _held:
                lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
                fcntl.flock(lock, fcntl.LOCK_SH)
                _held[str(path)] = lock

    def release(self, sha256: str) -> None:
        """This process no longer uses the model."""
        with _held_lock:
            lock = _held.pop(str(self._lock_path(sha256)), None)
        if lock is not None:
            os.close(lock)

    def reserve(self, needed_bytes: int, content: Path) -> None:
        """Make room for a download into `content`. Raises `InfrastructureError` if the limit cannot hold it."""
        if needed_bytes > self._limit_bytes:
            raise InfrastructureError(
                f"model cache {self.root}: the model needs {needed_bytes:,} bytes, the cache may hold "
                f"{self._limit_bytes:,}. Raise the cache limit.",
                retryable=False,
            )
        with self._alone():
            self._sweep(content.parent)
            free_bytes = self._limit_bytes - self._used_bytes(content.parent)
            for folder in sorted(self._models(), key=lambda folder: folder.stat().st_mtime_ns):
                if free_bytes >= needed_bytes:
                    break
                size_bytes = _size_bytes(folder)
                free_bytes += size_bytes if self._evict(folder) else 0
        if free_bytes < needed_bytes:
            raise InfrastructureError(
                f"model cache {self.root}: {needed_bytes:,} bytes are needed and every other model is in use. "
                "Raise the cache limit or try again later."
            )

    def _models(self) -> list[Path]:
        return [path for path in self.root.iterdir() if _SHA256.fullmatch(path.name)]

    def _used_bytes(self, own: Path) -> int:
        downloads = [path for path in (self.root / "unfinished").iterdir() if path.name != own.name]
        return sum(_size_bytes(folder) for folder in [*self._models(), *downloads])

    def _evict(self, folder: Path) -> bool:
        lock = _try_lock(self._lock_path(folder.name))
        if lock is None:
            return False
        try:
            # first out of sight in one step: what bears a digest is whole
            grave = self.root / "unfinished" / f"{_GRAVE}{secrets.token_hex(8)}"
            folder.rename(grave)
            shutil.rmtree(grave, ignore_errors=True)
        finally:
            os.close(lock)
        return True

    def _sweep(self, own: Path) -> None:
        """Remove downloads whose process is gone."""
        for path in (self.root / "unfinished").iterdir():
            if path.name == own.name:
                continue
            if path.name.startswith(_GRAVE) or not (path / "lock").exists():
                shutil.rmtree(path, ignore_errors=True)
                continue
            lock = _try_lock(path / "lock")
            if lock is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(lock)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        lock = os.open(self.root / "unfinished.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _lock_path(self, sha256: str) -> Path:
        folder = self.root / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / sha256


def _try_lock(path: Path) -> int | None:
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _size_bytes(folder: Path) -> int:
    total = 0
    for inside, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(Path(inside) / name).st_size
            except FileNotFoundError:
                continue
    return total
