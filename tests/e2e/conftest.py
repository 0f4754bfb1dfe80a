"""The command line as a person runs it: a real process, on the cases, with a lock folder of its own."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from commands import Ran, run_onnxdyno


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    """This process's environment, with locks, caches and temporary files of the test's own."""
    (tmp_path / "tmp").mkdir()
    own = {"ONNXDYNO_LOCK_DIR": "locks", "ONNXDYNO_CACHE_DIR": "cache", "XDG_CACHE_HOME": "xdg", "TMPDIR": "tmp"}
    return {**os.environ, **{name: str(tmp_path / folder) for name, folder in own.items()}}


@pytest.fixture
def onnxdyno(tmp_path: Path, environment: Mapping[str, str]) -> Callable[..., Ran]:
    """Run `onnxdyno …` to its end."""

    def run(*arguments: str | Path) -> Ran:
        return run_onnxdyno(tuple(map(str, arguments)), tmp_path, environment)

    return run
