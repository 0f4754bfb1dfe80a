"""The spec that may lie beside a model: `<model>.bench.yaml`."""

from dataclasses import dataclass

from onnxdyno.domain.errors import SpecError
from onnxdyno.domain.text import printable
from onnxdyno.ports import ObjectStore

LIMIT_BYTES = 1 << 20


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
