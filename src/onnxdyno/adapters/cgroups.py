"""The door to memory cgroups: one of our own around a measuring process where the kernel lets us, always removed."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from onnxdyno.ports import Launcher

_PREFIX = "onnxdyno-"
_TRIES = 40
_PAUSE_S = 0.05
"""Between tries to remove a cgroup whose last process is being reaped."""


class CgroupBounds:
    """`ports.MemoryBounds` by a child of the cgroup that this process is in.

    A child never escapes the limits above it: with version 1 that is so only where the hierarchy is counted, so
    elsewhere nothing is tried.
    """

    def __init__(self, own: Path | None, join: Callable[[Path], Launcher]) -> None:
        """`own`: folder of this process's memory cgroup. `join`: a launcher whose processes enter a cgroup first."""
        self._own = own
        self._join = join

    def problem(self) -> str | None:
        """Why no process can be bounded here, found by making and removing an empty cgroup."""
        if self._own is None:
            return "no memory cgroup of this process can be seen"
        hierarchy = self._own / "memory.use_hierarchy"
        if hierarchy.exists() and hierarchy.read_text(encoding="ascii").strip() != "1":
            return "memory cgroups here do not count what is below them, so a new one would escape its limits"
        _remove_stale(self._own)
        try:
            with _cell(self._own) as cell:
                if _limit_file(cell) is None:
                    return "the memory controller is not delegated to new cgroups here"
        except OSError as error:
            return f"no memory cgroup can be made here: {error.strerror}"
        return None

    @contextmanager
    def bounded(self, limit_bytes: int) -> Iterator[Launcher]:
        """A launcher whose processes together get no more than this, without swap. Raises `OSError`."""
        assert self._own is not None  # noqa: S101  `problem` was asked before
        with _cell(self._own) as cell:
            limit = _limit_file(cell)
            assert limit is not None  # noqa: S101  `problem` was asked before
            limit.write_text(str(limit_bytes), encoding="ascii")
            _forbid_swap(cell, limit_bytes)
            yield self._join(cell / "cgroup.procs")


@contextmanager
def _cell(own: Path) -> Iterator[Path]:
    cell = own / f"{_PREFIX}{os.getpid()}"
    cell.mkdir()
    try:
        yield cell
    finally:
        _remove(cell)


def _remove_stale(own: Path) -> None:
    """What a run that was killed outright has left: a cgroup without processes, named after one that is gone."""
    for cell in own.glob(f"{_PREFIX}*"):
        if not Path("/proc", cell.name.removeprefix(_PREFIX)).exists():
            with contextlib.suppress(OSError):
                cell.rmdir()


def _remove(cell: Path) -> None:
    for _ in range(_TRIES):
        try:
            cell.rmdir()
        except OSError:
            time.sleep(_PAUSE_S)
        else:
            return


def _limit_file(cell: Path) -> Path | None:
    names = ("memory.max", "memory.limit_in_bytes")
    return next((cell / name for name in names if (cell / name).exists()), None)


def _forbid_swap(cell: Path, limit_bytes: int) -> None:
    """Where swap is counted: version 2 apart, version 1 together with memory."""
    for name, value in (("memory.swap.max", 0), ("memory.memsw.limit_in_bytes", limit_bytes)):
        if (cell / name).exists():
            with contextlib.suppress(OSError):
                (cell / name).write_text(str(value), encoding="ascii")
