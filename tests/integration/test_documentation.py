"""Every command in the README and the docs is run, or named with the test that runs its like or what it needs."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md")))
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SHELLS = ("", "console", "bash", "sh")
_WORDS = ("onnxdyno ", "python ", "make ", "docker", "prefect ", "cp ", "export ", "PYTHONPATH=")

ELSEWHERE = {
    "make demo": "a fresh clone runs it before every release of the README; tests/integration/test_prefect_embedded.py",
    "make test": "is this",
    "onnxdyno roofline": "measures ceilings first; tests/integration/test_roofline.py",
    "onnxdyno calibrate": "takes half a minute; tests/integration/test_ceilings.py",
    "onnxdyno run": "tests/e2e/test_run_on_s3.py and tests/integration/test_prefect_embedded.py",
    "python -m flows.watch_registry": "tests/integration/test_prefect_embedded.py",
    "export ": "a setting for the commands below it",
    "docker/deploy.sh": "tests/integration/test_prefect_deployments.py",
    "prefect worker start": "tests/integration/test_prefect_deployments.py",
    "prefect deployment run": "tests/integration/test_prefect_deployments.py",
    "cp docker/.env.example": "needs a Docker engine",
    "onnxdyno requirements --run": "tests/unit/test_requirements_command.py",
    "onnxdyno predict --run": "tests/unit/test_requirements_command.py",
    "python -m benchmarks.": "minutes on a quiet machine; their arithmetic: tests/unit/test_benchmarks.py",
    "PYTHONPATH=tests python": "as the others of docs/benchmarks.md",
    "docker compose": "needs a Docker engine; make check reads the file with a compose client",
}


def commands() -> list[tuple[str, str]]:
    """(page, command line) of every fenced block that holds commands; comments are cut off."""
    found = []
    for page in PAGES:
        for language, block in _BLOCK.findall((ROOT / page).read_text(encoding="utf-8")):
            for line in block.splitlines() if language in _SHELLS else ():
                command = re.split(r"\s+#\s", line)[0].strip()
                if command.startswith(_WORDS):
                    found.append((page, command))
    return found


def test_the_readme_has_its_commands() -> None:
    lines = [command for page, command in commands() if page == "README.md"]
    assert {"make demo", "make test"} <= set(lines)
    assert sum(line.startswith("onnxdyno ") for line in lines) >= 8


@pytest.mark.parametrize(
    ("page", "command"),
    [each for each in commands() if not each[1].startswith(tuple(ELSEWHERE))],
    ids=lambda value: value[:60],
)
def test_a_documented_command_works(page: str, command: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests" / "cases" / "nhwc_dynamic.onnx", tmp_path / "model.onnx")
    (tmp_path / "model.bench.yaml").write_text(
        "budget_s: 4\nlaunches: 1\n"
    )  # the spec of a sidecar, so that it is quick
    (tmp_path / "nodes.csv").write_text("kind,flops,bytes,latency_ms\nGemm,1e11,1e8,25\nRelu,1e7,5e8,2.2\n")
    program, *arguments = shlex.split(command)
    assert program == "onnxdyno", f"{page}: who runs `{command}`? Name it in ELSEWHERE."
    done = subprocess.run(
        [sys.executable, "-m", "onnxdyno.cli", *arguments],
        cwd=tmp_path,
        env={**os.environ, "ONNXDYNO_LOCK_DIR": str(tmp_path / "locks")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_every_excuse_names_a_command_that_is_there() -> None:
    lines = [command for _, command in commands()]
    assert [start for start in ELSEWHERE if not any(line.startswith(start) for line in lines)] == []
