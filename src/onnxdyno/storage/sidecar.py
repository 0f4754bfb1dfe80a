"""The spec that may lie beside a model, `<model>.bench.yaml`, and the input files that it names."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onnxdyno.domain.errors import SpecError
from onnxdyno.domain.models import ObjectVersion
from onnxdyno.domain.text import printable
from onnxdyno.ports import ObjectStore
from onnxdyno.storage import keys
from onnxdyno.storage.shelf import INPUTS, Shelf, disk

LIMIT_BYTES = 1 << 20
FILES_LIMIT_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """The text of a spec and the key it came from."""

    key: str
    text: str


def find_sidecar(store: ObjectStore, model_key: str) -> Sidecar | None:
    """`model.onnx.bench.yaml`, else `model.bench.yaml`. Raises `SpecError` if it is too large or not UTF-8 text."""
    stem = model_key[:-5] if model_key.lower().endswith(".onnx") else model_key
    for key in dict.fromkeys((f"{model_key}.bench.yaml", f"{stem}.bench.yaml")):
        version = store.head(key)
        if version is None:
            continue
        if version.size_bytes > LIMIT_BYTES:
            raise SpecError(f"{printable(key)}: {version.size_bytes:,} bytes; a spec has at most {LIMIT_BYTES:,}.")
        try:
            return Sidecar(key=key, text=store.get(key).decode("utf-8-sig"))
        except UnicodeDecodeError:
            raise SpecError(f"{printable(key)}: not UTF-8 text. Save it as UTF-8.") from None
    return None


def fetch_files(store: ObjectStore, sidecar: Sidecar, names: Sequence[str], shelf: Shelf) -> Path:
    """The folder on the shelf that holds these files as they lie beside the model now: fetched once, whole or not.

    `names` are relative paths that were proven to stay beside the model. The folder is held until it is released.
    Raises `SpecError` (absent, too large), `StoreError`, `InfrastructureError` (disk full, limit).
    """
    versions = [_there(store, sidecar, name) for name in names]
    needed_bytes = sum(version.size_bytes for version in versions)
    if needed_bytes > FILES_LIMIT_BYTES:
        raise SpecError(f"{printable(sidecar.key)}: its input files have more than {FILES_LIMIT_BYTES:,} bytes.")
    identity = json.dumps([[version.store_uri, version.key, version.etag] for version in versions])
    placed_as = f"{INPUTS}/{hashlib.sha256(identity.encode('ascii', 'backslashreplace')).hexdigest()[:32]}"
    with disk(shelf.root):
        folder = shelf.use(placed_as)
        if folder is not None:
            return folder
        with shelf.staging() as content:
            shelf.reserve(needed_bytes, content)
            for name, version in zip(names, versions, strict=True):
                _fetch(store, version, content / name)
            return shelf.place(content, placed_as)


def _there(store: ObjectStore, sidecar: Sidecar, name: str) -> ObjectVersion:
    version = store.head(keys.beside(sidecar.key, name))
    if version is None:
        raise SpecError(f"{printable(sidecar.key)}: names the file '{printable(name)}', which is not beside the model.")
    return version


def _fetch(store: ObjectStore, version: ObjectVersion, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as file:

        def sink(chunk: bytes) -> None:
            file.write(chunk)

        store.fetch(version, sink)
