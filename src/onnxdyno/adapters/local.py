"""A local directory as an object store."""

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from onnxdyno.domain.errors import InfrastructureError, ObjectChanged, ObjectMissing, StoreError, UsageError
from onnxdyno.domain.models import ObjectVersion
from onnxdyno.domain.text import printable

_TEMPORARY = ".onnxdyno-unfinished-"
_CHUNK_BYTES = 1 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def parse_uri(uri: str) -> Path:
    """The absolute directory that `file:relative`, `file:/absolute` or `file:///absolute` names.

    Raises `UsageError`, with the right spelling, for anything else. Percent escapes are decoded only in the `file://`
    form, which is a URL; the short form is a path as it is.
    """
    scheme, colon, rest = uri.partition(":")
    if not colon or scheme.lower() != "file":
        raise UsageError(f"{printable(uri)!r} names no store: write `file:<directory>` or `s3://<bucket>/<prefix>`.")
    if rest.startswith("//"):
        host, _, path = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise UsageError(f"{printable(uri)!r} names a host: write `file:{host}/{path}` for a relative directory.")
        rest = "/" + unquote(path, errors="surrogateescape")
    if not rest or "\0" in rest:
        raise UsageError(f"{printable(uri)!r} names no directory: write `file:<directory>`.")
    return Path(rest).expanduser().absolute()


class LocalStore:
    """Objects are the regular files below `root`; a file appears whole or not at all.

    Keys that are no plain relative path are refused, symbolic links are followed only to files inside `root`.
    With `may_be_new` a `root` that does not exist is an empty store, else it is an error.
    """

    def __init__(self, root: Path, *, may_be_new: bool = False) -> None:
        self._root = Path(os.path.normpath(root.absolute()))
        self._may_be_new = may_be_new

    def __repr__(self) -> str:
        return f"LocalStore({self.uri!a})"

    @property
    def uri(self) -> str:
        """`file:/absolute/path`."""
        return f"file:{self._root}"

    def list(self, prefix: str = "") -> Iterator[ObjectVersion]:
        """Every object whose key starts with `prefix`, in the order of the keys' bytes."""
        if not self._root.is_dir():
            if self._may_be_new and not self._root.exists():
                return
            raise StoreError(f"{self._name('')}: no such directory. Create it or correct the URI.", retryable=False)
        start = self._root / prefix.rpartition("/")[0].lstrip("/")
        if ".." in start.parts or not start.is_dir():
            return
        keys = [key for key in self._walk(start) if key.startswith(prefix)]
        for key in sorted(keys, key=os.fsencode):
            found = self.head(key)
            if found is not None:
                yield found

    def _walk(self, start: Path) -> Iterator[str]:
        def refuse(error: OSError) -> None:
            if not isinstance(error, FileNotFoundError):
                raise self._failure("", "listed", error) from error

        for folder, folders, names in os.walk(start, onerror=refuse):
            folders[:] = [name for name in folders if not name.startswith(_TEMPORARY)]
            for name in names:
                if not name.startswith(_TEMPORARY):
                    yield os.path.relpath(Path(folder) / name, self._root)

    def head(self, key: str) -> ObjectVersion | None:
        """The current version of one object, or None; None too for a key that is too long to be here."""
        if _is_too_long(key):
            return None
        path = self._path(key)
        try:
            if not self._is_inside(path):
                return None
            status = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._failure(key, "read", error) from error
        return self._version(key, status) if stat.S_ISREG(status.st_mode) else None

    def get(self, key: str) -> bytes:
        """The bytes of a small object. Raises `ObjectMissing`."""
        version = self.head(key)
        if version is None:
            raise ObjectMissing(f"{self._name(key)}: no such object.")
        try:
            return self._path(key).read_bytes()
        except FileNotFoundError:
            raise ObjectMissing(f"{self._name(key)}: no such object.") from None
        except OSError as error:
            raise self._failure(key, "read", error) from error

    def fetch(self, version: ObjectVersion, sink: Callable[[bytes], None]) -> None:
        """Stream exactly this version into `sink`. Raises `ObjectChanged`, `ObjectMissing`, `StoreError`."""
        if self.head(version.key) is None:
            raise ObjectMissing(f"{self._name(version.key)}: the object is gone.")
        for chunk in self._chunks(version):
            sink(chunk)

    def _chunks(self, version: ObjectVersion) -> Iterator[bytes]:
        try:
            with self._path(version.key).open("rb", buffering=0) as file:
                self._check(version, os.fstat(file.fileno()))
                while chunk := file.read(_CHUNK_BYTES):
                    yield chunk
                self._check(version, os.fstat(file.fileno()))
        except FileNotFoundError:
            raise ObjectMissing(f"{self._name(version.key)}: the object is gone.") from None
        except OSError as error:
            raise self._failure(version.key, "read", error) from error

    def _check(self, version: ObjectVersion, status: os.stat_result) -> None:
        if self._version(version.key, status).etag != version.etag:
            raise ObjectChanged(f"{self._name(version.key)}: replaced while it was read. Try again.", retryable=True)

    def put_if_absent(self, key: str, body: bytes) -> bool:
        """Create the object, all or nothing; False if the key exists."""
        path = self._path(key)
        temporary = path.parent / f"{_TEMPORARY}{secrets.token_hex(8)}"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not self._is_inside(path.parent / "x"):
                raise StoreError(f"{self._name(key)}: its folder is a link out of the store.", retryable=False)
            try:
                return self._create(path, temporary, body)
            finally:
                temporary.unlink(missing_ok=True)
        except OSError as error:
            raise self._failure(key, "written", error) from error

    def _create(self, path: Path, temporary: Path, body: bytes) -> bool:
        with temporary.open("xb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, "a folder has this name") from None
            return False
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return True

    def delete(self, key: str) -> None:
        """Remove the object; nothing happens if it is not there."""
        if self.head(key) is None:
            return
        try:
            self._path(key).unlink(missing_ok=True)
        except OSError as error:
            raise self._failure(key, "deleted", error) from error

    def filesystem(self) -> tuple[Any, str]:
        """A pyarrow file system and the path of `root` in it."""
        from pyarrow import fs

        return fs.LocalFileSystem(), str(self._root)

    def _path(self, key: str) -> Path:
        parts = key.split("/")
        if any(part in ("", ".", "..") or part.startswith(_TEMPORARY) for part in parts) or "\0" in key:
            raise StoreError(
                f"{self._name(key)}: not a key of a local store (no empty, '.' or '..' parts).", retryable=False
            )
        if _is_too_long(key):
            raise StoreError(f"{self._name(key)}: too long for a local store (255 bytes a part).", retryable=False)
        return self._root.joinpath(*parts)

    def _is_inside(self, path: Path) -> bool:
        return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self._root))

    def _version(self, key: str, status: os.stat_result) -> ObjectVersion:
        etag = f"{status.st_mtime_ns:x}-{status.st_size:x}-{status.st_ino:x}"
        return ObjectVersion(store_uri=self.uri, key=key, etag=etag, version_id=None, size_bytes=status.st_size)

    def _name(self, key: str) -> str:
        return printable(f"{self.uri}/{key}" if key else self.uri)

    def _failure(self, key: str, verb: str, error: OSError) -> InfrastructureError:
        why = os.strerror(error.errno) if error.errno else type(error).__name__
        if error.errno in _FULL:
            return InfrastructureError(
                f"{self._name(key)}: cannot be {verb}: {why}. Nothing was left behind; free space and run again.",
                retryable=False,
            )
        return StoreError(
            f"{self._name(key)}: cannot be {verb}: {why}.", retryable=error.errno in (errno.EIO, errno.ESTALE)
        )


def _is_too_long(key: str) -> bool:
    return len(os.fsencode(key)) > 2048 or any(len(os.fsencode(part)) > 255 for part in key.split("/"))
