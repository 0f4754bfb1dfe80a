"""A model with a fixed batch, if its spec asks for it: measured as a proven copy whose batch is dynamic."""

import errno
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

from onnxdyno import launching, planning
from onnxdyno.app import places
from onnxdyno.app.steps import Pulled, inspect, spec_of
from onnxdyno.domain.devices import Device
from onnxdyno.domain.errors import InfrastructureError
from onnxdyno.graphs.reading import load


def prepare(pulled: Pulled, *, on: Device, parameters: Mapping[str, Any] | None = None) -> Pulled:
    """The model to measure: itself, or with `rebatch` in its spec a proven copy whose batch is dynamic.

    The copy is another model: it has a sha256 of its own, and its `ModelRef` says what it is a copy of and what was
    shown. It is made once, in a measuring process. Raises `RebatchRefused`, `SpecError`, `ModelError`.
    """
    spec = spec_of(pulled, parameters)
    if not spec.rebatch:
        return pulled
    signature = inspect(pulled.local.path)
    planned = planning.expand(spec, signature, pulled.local, on)
    folder = places.surroundings().cache_folder / "copies" / pulled.local.ref.sha256
    target, said = folder / "model.onnx", folder / "shown.txt"
    if not (said.exists() and target.exists()):
        shutil.rmtree(folder, ignore_errors=True)  # what is left of another version of this program is no copy
        with _making(folder) as fresh, places.launcher(planned, lambda _: None) as launcher:
            how = launching.copy_with_batch(
                planned, fresh / target.name, launcher=launcher, memory_limit_bytes=places.memory_limit_bytes()
            )
            (fresh / said.name).write_text(how, encoding="utf-8")
    copy = load(target)
    ref = replace(
        copy.ref,
        name=f"{PurePath(pulled.local.ref.name).stem}.rebatched.onnx",
        copy_of_sha256=pulled.local.ref.sha256,
        copy_how=said.read_text(encoding="utf-8"),
    )
    return replace(pulled, local=replace(copy, ref=ref))


@contextmanager
def _making(folder: Path) -> Iterator[Path]:
    """A folder to fill, which takes the place of `folder` only when nothing went wrong."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".making-") as made:
            fresh = Path(made) / "fresh"
            fresh.mkdir()
            yield fresh
            try:
                fresh.rename(folder)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # another run made it first
                    raise
    except OSError as error:
        raise InfrastructureError(
            f"{folder.parent}: {error.strerror}. Set ONNXDYNO_CACHE_DIR to a writable folder."
        ) from error
