"""Working folders of measuring processes, and what is left of them when their owner was killed.

Whoever owns one holds a lock on the folder itself, and so does the measuring process, which inherits it: a folder that
can be locked has nobody left.
"""

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

_PREFIX = "onnxdyno-scratch-"
_NAME = re.compile(rf"{_PREFIX}[a-z0-9_]{{8}}")
_MOST_LOOKED_AT = 10_000
"""Entries of the temporary folder: a start must not take longer because it is full."""
_MOST_REMOVED = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """A folder that is there until `remove`, or until nobody has its descriptor open any more."""

    path: Path
    descriptor: int

    def remove(self) -> None:
        """The folder with all that is in it; what cannot be removed is left to the next start."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.descriptor)


def make_scratch() -> Scratch:
    """A new, locked folder. Raises `OSError`."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:  # another start swept it before it was locked
            continue
        with contextlib.suppress(OSError):  # on a file system without locks nothing is ever swept
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is_there(path, descriptor):
            return Scratch(path=path, descriptor=descriptor)
        os.close(descriptor)


def _is_there(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def remove_left_behind() -> None:
    """Remove this user's folders whose owners are gone, killed before they could; never one that anybody holds."""
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        names = (entry.path for entry in islice(entries, _MOST_LOOKED_AT) if _NAME.fullmatch(entry.name))
        for path in list(islice(names, _MOST_REMOVED)):
            _remove_if_left(Path(path))


def _remove_if_left(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            return
        with contextlib.suppress(OSError):  # held, or a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)
