"""A model with a fixed batch, if its spec asks for it: measured as a proven copy whose batch is dynamic."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

from onnxdyno import launching, planning
from onnxdyno.app import places
from onnxdyno.app.steps import Pulled, inspect, spec_of
from onnxdyno.domain.devices import Device
from onnxdyno.domain.plan import BenchmarkPlan
from onnxdyno.graphs.reading import load
from onnxdyno.storage.shelf import COPIES, Shelf, disk

_MODEL, _SHOWN = "model.onnx", "shown.txt"


def prepare(pulled: Pulled, *, on: Device, parameters: Mapping[str, Any] | None = None) -> Pulled:
    """The model to measure: itself, or with `rebatch` in its spec a proven copy whose batch is dynamic.

    The copy is another model: it has a sha256 of its own, and its `ModelRef` says what it is a copy of and what was
    shown. It is made once, in a measuring process, and stays in the cache as long as that has room.
    Raises `RebatchRefused`, `SpecError`, `ModelError`, `InfrastructureError` (disk full, limit).
    """
    spec = spec_of(pulled, parameters)
    if not spec.rebatch:
        return pulled
    planned = planning.expand(spec, inspect(pulled.local.path), pulled.local, on)
    shelf = places.shelf()
    with disk(shelf.root):
        name = f"{COPIES}/{pulled.local.ref.sha256}"
        folder = _whole(shelf, name) or _made(shelf, name, planned)
        how = (folder / _SHOWN).read_text(encoding="utf-8")
    copy = load(folder / _MODEL)
    ref = replace(
        copy.ref,
        name=f"{PurePath(pulled.local.ref.name).stem}.rebatched.onnx",
        copy_of_sha256=pulled.local.ref.sha256,
        copy_how=how,
    )
    return replace(pulled, local=replace(copy, ref=ref))


def _whole(shelf: Shelf, name: str) -> Path | None:
    folder = shelf.use(name)
    if folder is None or all((folder / file).exists() for file in (_MODEL, _SHOWN)):
        return folder
    shelf.discard(name)  # what is left of another version of this program is no copy
    return None


def _made(shelf: Shelf, name: str, planned: BenchmarkPlan) -> Path:
    with shelf.staging() as content:
        shelf.reserve(planned.model.ref.size_bytes, content)
        with places.launcher(planned, lambda _: None) as launcher:
            how = launching.copy_with_batch(
                planned, content / _MODEL, launcher=launcher, memory_limit_bytes=places.memory_limit_bytes()
            )
        (content / _SHOWN).write_text(how, encoding="utf-8")
        return shelf.place(content, name)
