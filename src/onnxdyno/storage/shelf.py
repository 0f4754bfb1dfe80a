"""The disk side of the cache: staging, placing under a digest, locks of what is in use, eviction.

```
<root>/<sha256>/…              a whole model; appears by one rename
<root>/copies/<sha256>/…       the proven copy of that model whose batch is dynamic
<root>/inputs/<digest>/…       input files that a sidecar names
<root>/unfinished/<random>/    one of these under way: `content/` and the `lock` its process holds
<root>/locks/<name>            held shared by every process that uses it
<root>/index/<digest>.json     which model an object version turned out to be
<root>/ceilings/<digest>.json  what a device can do at most, see storage/ceilings.py
```
The limit is on all but the last three, which are a few kilobytes each and stay.
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
COPIES = "copies"
INPUTS = "inputs"
_DIGEST = re.compile(r"[0-9a-f]{64}|[0-9a-f]{32}")
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
    """What is whole, under its name, within `limit_bytes`; least recently used out first, never what is in use.

    A name is the digest of a model, or `copies/` or `inputs/` and a digest.
    """

    def __init__(self, root: Path, limit_bytes: int) -> None:
        self.root = root
        self._limit_bytes = limit_bytes

    def folder(self, name: str) -> Path:
        """Where what bears this name lies, if it does."""
        return self.root / name

    def index(self, version_digest: str) -> Path:
        """Where it is written which model an object version turned out to be."""
        return self.root / "index" / f"{version_digest}.json"

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """An empty folder to fill; gone afterwards, also (by the next that needs room) after a kill."""
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

    def place(self, content: Path, name: str) -> Path:
        """Move what is whole to its name and hold it; if that is there already, it is kept."""
        self._hold(name)
        folder = self.folder(name)
        try:
            folder.parent.mkdir(exist_ok=True)
            content.rename(folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                self.release(name)
                raise
        os.utime(folder)
        return folder

    def use(self, name: str) -> Path | None:
        """Hold what is on the shelf and mark it used; None if it is not there."""
        self._hold(name)
        folder = self.folder(name)
        if not folder.is_dir():
            self.release(name)
            return None
        os.utime(folder)
        return folder

    def _hold(self, name: str) -> None:
        """Until `release` or the end of this process nobody evicts it."""
        path = self._lock_path(name)
        with _held_lock:
            if str(path) not in _held:
                lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
                fcntl.flock(lock, fcntl.LOCK_SH)
                _held[str(path)] = lock

    def release(self, name: str) -> None:
        """This process no longer uses it."""
        with _held_lock:
            lock = _held.pop(str(self._lock_path(name)), None)
        if lock is not None:
            os.close(lock)

    def release_inside(self, path: Path) -> None:
        """As `release`, by a file of it; one that is not on the shelf is nobody's."""
        root, path = self.root.resolve(), path.resolve()
        if path.is_relative_to(root):
            kind, *rest = path.relative_to(root).parts
            self.release(f"{kind}/{rest[0]}" if kind in (COPIES, INPUTS) else kind)

    def discard(self, name: str) -> None:
        """Remove what turned out not to be whole. Raises `InfrastructureError` while another process uses it."""
        self.release(name)
        with self._alone():
            if self.folder(name).is_dir() and not self._evict(self.folder(name)):
                raise InfrastructureError(f"{self.folder(name)} is not whole and in use. Try again later.")

    def reserve(self, needed_bytes: int, content: Path) -> None:
        """Make room for what goes into `content`. Raises `InfrastructureError` if the limit cannot hold it."""
        if needed_bytes > self._limit_bytes:
            raise InfrastructureError(
                f"model cache {self.root}: {needed_bytes:,} bytes are needed, the cache may hold "
                f"{self._limit_bytes:,}. Raise the cache limit.",
                retryable=False,
            )
        with self._alone():
            self._sweep(content.parent)
            free_bytes = self._limit_bytes - self._used_bytes(content.parent)
            for folder in sorted(self._whole(), key=lambda folder: folder.stat().st_mtime_ns):
                if free_bytes >= needed_bytes:
                    break
                size_bytes = _size_bytes(folder)
                free_bytes += size_bytes if self._evict(folder) else 0
        if free_bytes < needed_bytes:
            raise InfrastructureError(
                f"model cache {self.root}: {needed_bytes:,} bytes are needed and all the rest is in use. "
                "Raise the cache limit or try again later."
            )

    def _whole(self) -> list[Path]:
        folders = [folder for folder in (self.root, self.root / COPIES, self.root / INPUTS) if folder.is_dir()]
        return [path for folder in folders for path in folder.iterdir() if _DIGEST.fullmatch(path.name)]

    def _used_bytes(self, own: Path) -> int:
        under_way = [path for path in (self.root / "unfinished").iterdir() if path.name != own.name]
        return sum(_size_bytes(folder) for folder in [*self._whole(), *under_way])

    def _evict(self, folder: Path) -> bool:
        lock = _try_lock(self._lock_path(folder.relative_to(self.root).as_posix()))
        if lock is None:
            return False
        try:
            # first out of sight in one step: what bears a digest is whole
            grave = self.root / "unfinished" / f"{_GRAVE}{secrets.token_hex(8)}"
            grave.parent.mkdir(exist_ok=True)
            folder.rename(grave)
            shutil.rmtree(grave, ignore_errors=True)
        finally:
            os.close(lock)
        return True

    def _sweep(self, own: Path) -> None:
        """Remove what was under way when its process was killed."""
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
        self.root.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.root / "unfinished.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _lock_path(self, name: str) -> Path:
        folder = self.root / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / name.replace("/", ".")


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
