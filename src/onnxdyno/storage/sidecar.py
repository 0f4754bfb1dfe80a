"""The spec that may lie beside a model, `<model>.bench.yaml`, and the input files that it names."""

import hashlib
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onnxdyno.domain.errors import InfrastructureError, SpecError
from onnxdyno.domain.models import ObjectVersion
from onnxdyno.domain.text import printable
from onnxdyno.ports import ObjectStore
from onnxdyno.storage import keys

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


def fetch_files(store: ObjectStore, sidecar: Sidecar, names: Sequence[str], root: Path) -> Path:
    """The folder below `root` that holds these files as they lie beside the model now: fetched once, whole or not.

    `names` are relative paths that were proven to stay beside the model. Raises `SpecError` (absent, too large),
    `StoreError`, `InfrastructureError`.
    """
    versions = [_there(store, sidecar, name) for name in names]
    if sum(version.size_bytes for version in versions) > FILES_LIMIT_BYTES:
        raise SpecError(f"{printable(sidecar.key)}: its input files have more than {FILES_LIMIT_BYTES:,} bytes.")
    identity = json.dumps([[version.store_uri, version.key, version.etag] for version in versions])
    folder = root / hashlib.sha256(identity.encode("ascii", "backslashreplace")).hexdigest()[:32]
    if folder.is_dir():
        return folder
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=root, prefix=".fetching-") as made:
            fresh = Path(made) / "fresh"
            for name, version in zip(names, versions, strict=True):
                _fetch(store, version, fresh / name)
            if not folder.is_dir():
                fresh.rename(folder)
    except OSError as error:
        raise InfrastructureError(f"{root}: {error.strerror}. Set ONNXDYNO_CACHE_DIR to a folder with room.") from error
    return folder


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
