"""A CPU quota on real processes, by a cgroup of either version that is made for it and always removed."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import SIGKILL

_V1 = Path("/sys/fs/cgroup/cpu")
_V2 = Path("/sys/fs/cgroup")
PERIOD_US = 100_000


class NoQuota(Exception):
    """No cgroup with a CPU quota can be made here."""


@contextmanager
def quota_group() -> Iterator[Path]:
    """A cgroup, without a quota yet (see `limit`), that takes the processes which are written to its `cgroup.procs`.

    Raises `NoQuota`. Processes that are still in it at the end are killed.
    """
    folder = _parent() / f"onnxdyno-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        raise NoQuota(str(error)) from error
    try:
        limit(folder, cores=os.cpu_count() or 1)  # known now, not in mid-measurement, if it may not be set
        yield folder
    finally:
        _remove(folder)


def _parent() -> Path:
    if (_V1 / "cpu.cfs_quota_us").exists() or (_V1 / "cpu.shares").exists():
        return _V1
    if "cpu" in _text(_V2 / "cgroup.subtree_control").split():
        return _V2
    raise NoQuota("no cpu controller that can be divided is mounted")


def limit(folder: Path, cores: float) -> None:
    """Let its processes use so much CPU time together. Raises `NoQuota`."""
    quota_us = round(cores * PERIOD_US)
    try:
        if (folder / "cpu.max").exists():
            (folder / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        else:
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (folder / "cpu.cfs_quota_us").write_text(str(quota_us))
    except OSError as error:
        raise NoQuota(str(error)) from error


def _remove(folder: Path) -> None:
    deadline_s = time.monotonic() + 10
    while True:
        for pid in _text(folder / "cgroup.procs").split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), SIGKILL)
        try:
            folder.rmdir()
        except OSError:
            if time.monotonic() > deadline_s:
                raise
            os.sched_yield()
        else:
            return


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
