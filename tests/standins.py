"""The stand-in for NVIDIA's driver library: compiled from tests/standin/nvml.c, loaded by the real pynvml."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parent / "standin" / "nvml.c"
A100 = "GPU-00000000-0000-4000-8000-00000000000a"
H100 = "GPU-00000000-0000-4000-8000-00000000000b"
SLICES = ("MIG-00000000-0000-4000-8000-00000000000c", "MIG-00000000-0000-4000-8000-00000000000d")
NOT_SUPPORTED, NO_PERMISSION, UNINITIALIZED = 3, 4, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Standin:
    """A folder with the library, and the script that says what it answers."""

    folder: Path
    script: Path

    def says(self, *lines: str) -> None:
        """The script from now on; see tests/standin/nvml.c. Replaced as a whole, so that no reader sees half of it."""
        fresh = self.script.with_suffix(".new")
        fresh.write_text("".join(f"{line}\n" for line in lines))
        fresh.replace(self.script)

    def environment(self, own: Mapping[str, str]) -> dict[str, str]:
        """For a process that is to find it."""
        return {**own, "LD_LIBRARY_PATH": str(self.folder), "STANDIN_SCRIPT": str(self.script)}

    def watch(self, device_id: str, own: Mapping[str, str], *script: str) -> Any:
        """What tests/standin/watched_run.py prints: a launch here; the script holds from its second point on."""
        return self.play("watched_run", own, device_id, *script)

    def play(self, program: str, own: Mapping[str, str], *arguments: str) -> Any:
        """What a program of tests/standin prints, in a process that finds the library."""
        tests = Path(__file__).parent
        path = os.pathsep.join(filter(None, (str(tests), *sys.path)))
        done = subprocess.run(
            [sys.executable, str(tests / "standin" / f"{program}.py"), *arguments],
            env=self.environment({**own, "PYTHONPATH": path}),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def build(folder: Path) -> Standin:
    """Compile it; the test is skipped where there is no compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here: the stand-in for NVML cannot be built")
    library = folder / "libnvidia-ml.so.1"
    command = [compiler, "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(library), str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True)
    script = folder / "script"
    script.write_text("")
    return Standin(folder=folder, script=script)
