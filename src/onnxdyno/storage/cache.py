"""Models on this machine's disk under their digests: fetched once, whole or not at all."""

import errno
import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from onnxdyno.domain.errors import ModelError
from onnxdyno.domain.models import LocalModel, ModelRef, ObjectVersion
from onnxdyno.domain.outcomes import ModelState
from onnxdyno.domain.text import printable
from onnxdyno.graphs.identity import combined_sha256
from onnxdyno.graphs.reading import external_files
from onnxdyno.ports import ObjectStore
from onnxdyno.storage import keys
from onnxdyno.storage.records import decode, encode
from onnxdyno.storage.shelf import Shelf, disk

_CANNOT_STAND = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENOTEMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class External:
    """One external file of a model as it was fetched."""

    path: str
    etag: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Which model an object version turned out to be. `file` is its name in the folder of its digest."""

    sha256: str
    file: str
    size_bytes: int
    externals: tuple[External, ...]


class ModelCache:
    """Models under `root`, within its limit. A pulled model is not evicted while this process lives or holds it."""

    def __init__(self, root: Path, limit_bytes: int) -> None:
        self._shelf = Shelf(root, limit_bytes)

    def pull(self, store: ObjectStore, version: ObjectVersion) -> LocalModel:
        """This version and its external data, fetched unless they are here, proven to be what was listed.

        Raises `ModelError` (unreadable; `unsafe` before anything is asked of the store; `missing_external_data`),
        `ObjectChanged`, `ObjectMissing`, `StoreError`, `InfrastructureError` (disk full, limit).
        """
        with disk(self._shelf.root):
            digest = keys.version_digest(version)
            entry = self._known(digest)
            if entry is not None and _is_current(store, version, entry):
                folder = self._shelf.use(entry.sha256)
                if folder is not None and (folder / entry.file).is_file():
                    return _local(folder, entry, version)
            with self._shelf.staging() as content:
                entry = self._download(store, version, content)
                folder = self._shelf.place(content, entry.sha256)
            entry = _as_placed(folder, entry)
            self._remember(digest, entry)
        return _local(folder, entry, version)

    def release(self, local: LocalModel, files: Iterable[str] = ()) -> None:
        """This process no longer needs the model, what it is a copy of, and these input files: they may be evicted."""
        for path in (local.path, *map(Path, files)):
            self._shelf.release_inside(path)
        if local.ref.copy_of_sha256 is not None:
            self._shelf.release(local.ref.copy_of_sha256)

    def _download(self, store: ObjectStore, version: ObjectVersion, content: Path) -> Entry:
        self._shelf.reserve(version.size_bytes, content)
        model = content / local_name(version.key)
        file_sha256 = _stream(store, version, model)
        found = _find_externals(store, version, external_files(model))
        external_bytes = sum(each.size_bytes for _, each in found)
        if found:
            self._shelf.reserve(version.size_bytes + external_bytes, content)
        model = _out_of_the_way(model, [path for path, _ in found])
        digests = [(path, _stream_external(store, each, content, path)) for path, each in found]
        return Entry(
            sha256=combined_sha256(file_sha256, digests),
            file=model.name,
            size_bytes=version.size_bytes + external_bytes,
            externals=tuple(External(path=path, etag=each.etag, size_bytes=each.size_bytes) for path, each in found),
        )

    def _known(self, digest: str) -> Entry | None:
        try:
            return decode(self._shelf.index(digest).read_bytes(), Entry)
        except FileNotFoundError:
            return None

    def _remember(self, digest: str, entry: Entry) -> None:
        path = self._shelf.index(digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._shelf.staging() as folder:
            (folder / "entry").write_bytes(encode(entry))
            (folder / "entry").replace(path)


def local_name(key: str) -> str:
    """A safe file name for a model: the base name of its key, letters and digits, `.`, `_`, `-`; at most 200 bytes."""
    base = key.rpartition("/")[2]
    stem = base[:-5] if base.lower().endswith(".onnx") else base
    safe = "".join(mark if mark.isalnum() or mark in "._-" else "_" for mark in stem).lstrip(".-") or "model"
    return safe.encode("utf-8")[:190].decode("utf-8", "ignore") + ".onnx"


def _is_current(store: ObjectStore, version: ObjectVersion, entry: Entry) -> bool:
    """Whether the external files are still those that were fetched; the version itself cannot change."""
    for external in entry.externals:
        seen = store.head(keys.beside(version.key, external.path))
        if seen is None or seen.etag != external.etag:
            return False
    return True


def _find_externals(
    store: ObjectStore, version: ObjectVersion, paths: tuple[str, ...]
) -> list[tuple[str, ObjectVersion]]:
    seen = [(path, store.head(keys.beside(version.key, path))) for path in paths]
    missing = tuple(path for path, found in seen if found is None)
    if missing:
        names = ", ".join(printable(path, 100) for path in missing[:3]) + (" …" if len(missing) > 3 else "")
        raise ModelError(
            ModelState.MISSING_EXTERNAL_DATA,
            f"{printable(version.key)} keeps weights in {names}, which the registry does not hold.",
            "Upload the missing files beside the model; it is tried again by itself.",
            missing,
        )
    return [(path, found) for path, found in seen if found is not None]


def _out_of_the_way(model: Path, paths: list[str]) -> Path:
    """The model file under a name that no external file needs."""
    taken = {PurePosixPath(path).parts[0] for path in paths}
    name = model.name
    while name in taken:
        name = f"_{name}"
    return model if name == model.name else model.rename(model.with_name(name))


def _stream_external(store: ObjectStore, version: ObjectVersion, content: Path, path: str) -> str:
    target = content / path
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return _stream(store, version, target)
    except OSError as error:
        if error.errno not in _CANNOT_STAND:
            raise
        raise ModelError(
            ModelState.UNSAFE,
            f"external data {printable(path)} cannot be a file beside the model ({os.strerror(error.errno)}).",
            "Save the model again with short, distinct names of its external files.",
        ) from error


def _stream(store: ObjectStore, version: ObjectVersion, target: Path) -> str:
    """Write one object to disk while hashing it; returns its hex sha256."""
    digest = hashlib.sha256()
    with target.open("xb") as file:

        def sink(chunk: bytes) -> None:
            digest.update(chunk)
            file.write(chunk)

        store.fetch(version, sink)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def _as_placed(folder: Path, entry: Entry) -> Entry:
    """The entry with the model's name as it lies there: the same bytes may have come under another key before."""
    tops = {PurePosixPath(external.path).parts[0] for external in entry.externals}
    (file,) = (path.name for path in folder.iterdir() if path.name not in tops)
    return Entry(sha256=entry.sha256, file=file, size_bytes=entry.size_bytes, externals=entry.externals)


def _local(folder: Path, entry: Entry, version: ObjectVersion) -> LocalModel:
    ref = ModelRef(
        name=printable(version.key.rpartition("/")[2], 120),
        sha256=entry.sha256,
        size_bytes=entry.size_bytes,
        external_bytes=sum(external.size_bytes for external in entry.externals),
    )
    return LocalModel(ref=ref, path=folder / entry.file)
