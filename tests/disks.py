"""A disk that is full, for tests: a tiny file system where one can be mounted, else a limit on the size of files."""

import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TINY_BYTES = 1 << 18


@contextmanager
def tiny_disk(folder: Path) -> Iterator[Path]:
    """A folder in which writing more than `TINY_BYTES` fails as on a full disk."""
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={TINY_BYTES}"]
    if subprocess.run(["mount", *options, "tmpfs", str(folder)], capture_output=True, check=False).returncode == 0:
        try:
            yield folder
        finally:
            subprocess.run(["umount", str(folder)], check=True)
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (TINY_BYTES, hard))
    try:
        yield folder
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
