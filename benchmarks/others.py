"""An environment for the tools that stand beside ours: `python -m benchmarks.others` makes `.bench-venv`.

haoline and spatialhub, pinned by hash (requirements/bench.txt), with the plain onnxruntime of the version that we run:
it must never come into the project's environment. The benchmarks make it when they need it.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".bench-venv"
PINNED = ROOT / "requirements" / "bench.txt"
BESIDE = ROOT / "benchmarks" / "beside"
INSTALL_S = 1_800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What a process printed, and how long it took from its start to its end."""

    text: str
    wall_s: float

    @property
    def document(self) -> Any:
        """The last line, as JSON."""
        return json.loads(self.text.strip().splitlines()[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(Exception):
    """A process that ended badly; `said` is the end of what it wrote on standard error."""

    command: str
    status: int
    said: str

    def __str__(self) -> str:
        return f"{self.command}: exit {self.status}: {self.said}"


def python() -> Path:
    """The interpreter of the environment, which is made first where it is missing or its pins have changed."""
    digest = hashlib.sha256(PINNED.read_bytes()).hexdigest()
    stamp, interpreter = FOLDER / "pinned.sha256", FOLDER / "bin" / "python"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == digest:
        return interpreter
    print(f"Making {FOLDER.name} with haoline and spatialhub …", file=sys.stderr, flush=True)
    run([sys.executable, "-m", "venv", "--clear", str(FOLDER)], limit_s=INSTALL_S)
    install = [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    run([*install, "--requirement", str(PINNED)], limit_s=INSTALL_S)
    stamp.write_text(digest, encoding="utf-8")
    return interpreter


def run(
    command: Sequence[str], *, limit_s: float, variables: Mapping[str, str] | None = None, folder: Path | None = None
) -> Ended:
    """Run a command to its end, in a session of its own that is ended as a whole. Raises `Failed`."""
    began_s = time.perf_counter()
    child = subprocess.Popen(
        list(command),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, **(variables or {})},
        start_new_session=True,
    )
    try:
        text, said = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired as error:
        raise Failed(command=" ".join(command), status=-1, said=f"no end within {limit_s:.0f} s") from error
    finally:
        wall_s = time.perf_counter() - began_s
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
    if child.returncode:
        raise Failed(command=" ".join(command), status=child.returncode, said=said.strip()[-400:])
    return Ended(text=text, wall_s=wall_s)


def haoline_sweep(model: Path, batches: Sequence[int] | None, *, threads: int, limit_s: float) -> Ended:
    """haoline's `run_batch_sweep_benchmark` in a fresh process; its document: benchmarks/beside/haoline_sweep.py."""
    asked = [] if batches is None else [",".join(map(str, batches))]
    command = [str(python()), str(BESIDE / "haoline_sweep.py"), str(model), str(threads), *asked]
    return run(command, limit_s=limit_s, variables={"PYTHONPATH": "", "MPLCONFIGDIR": str(FOLDER / "matplotlib")})


def spatialhub_call(calls: int, rounds: int, *, limit_s: float) -> Ended:
    """`benchmark_callable` of spatialhub on a no-op; its document: see benchmarks/beside/spatialhub_call.py."""
    command = [str(python()), str(BESIDE / "spatialhub_call.py"), str(calls), str(rounds)]
    return run(command, limit_s=limit_s, variables={"PYTHONPATH": ""})


def plain_loop(model: Path, shape: Sequence[int], dtype: str, *, threads: int, limit_s: float) -> Ended:
    """The loop that people write by hand, in a fresh process of the project's environment."""
    command = [sys.executable, str(BESIDE / "plain_loop.py"), str(model), str(threads), dtype, *map(str, shape)]
    return run(command, limit_s=limit_s)


if __name__ == "__main__":
    print(python())
