"""Ceilings on this machine's disk, `<cache>/ceilings/<digest>.json`: whole or not at all; damaged is not there.

A few kilobytes for each device and set of versions: outside the limit of the cache, and nothing removes them.
"""

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from onnxdyno.domain.ceilings import Ceilings
from onnxdyno.storage.records import decode, encode
from onnxdyno.storage.shelf import disk


def read_ceilings(cache: Path, digest: str) -> Ceilings | None:
    """What was measured under this digest; None if nothing was, or nothing that can be read."""
    try:
        found = decode(_path(cache, digest).read_bytes(), Ceilings)
    except OSError:
        return None
    return found if found is not None and found.fingerprint_sha256 == digest else None


def keep_ceilings(cache: Path, ceilings: Ceilings, *, is_again: bool = False) -> Ceilings:
    """Keep them unless others stand there; returns those that stand. `is_again`, or damaged ones: they are replaced.

    Raises `InfrastructureError` if the disk refuses.
    """
    digest = ceilings.fingerprint_sha256
    path = _path(cache, digest)
    with disk(cache):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".making-", delete=False) as file:
            made = Path(file.name)
            file.write(encode(ceilings))
        try:
            if is_again:
                made.replace(path)
                return ceilings
            with suppress(FileExistsError):
                os.link(made, path)
            standing = read_ceilings(cache, digest)
            if standing is None:
                made.replace(path)
            return standing or ceilings
        finally:
            made.unlink(missing_ok=True)


def _path(cache: Path, digest: str) -> Path:
    return cache / "ceilings" / f"{digest}.json"
