"""Commands as tests run them."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CASES = Path(__file__).parent / "cases"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a command gave."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """Standard output as one JSON object."""
        found: dict[str, Any] = json.loads(self.out)
        return found


def run_onnxdyno(arguments: tuple[str, ...], folder: Path, environment: Mapping[str, str]) -> Ran:
    """`onnxdyno …` in a folder, to its end; no traceback may show."""
    done = subprocess.run(
        [sys.executable, "-m", "onnxdyno.cli", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
        timeout=240,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Ran(code=done.returncode, out=done.stdout, err=done.stderr)
