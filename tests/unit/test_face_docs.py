"""docs/python.md: every example runs as it stands, and `onnxdyno` stays light until a name is asked for."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/python.md").read_text(encoding="utf-8"), re.M | re.S)


def run(code: str, folder: Path) -> str:
    """What a program prints, run from a file in an empty folder."""
    program = folder / "example.py"
    program.write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(program)], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_are_examples_of_all_three_names() -> None:
    text = "".join(EXAMPLES)
    assert all(name in text for name in ("benchmark(", "bench_table(", "timer("))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.splitlines()[-1])
def test_an_example_runs_as_it_stands(example: str, tmp_path: Path) -> None:
    assert run(example, tmp_path).strip()


def test_the_package_loads_nothing_until_a_name_is_asked_for(tmp_path: Path) -> None:
    said = run(
        "import sys, onnxdyno, onnxdyno.worker\n"
        "print(sorted(name for name in sys.modules if name.startswith('onnxdyno.face')))\n"
        "from onnxdyno import timer\n"
        "print('onnxdyno.face.scopes' in sys.modules, 'onnxdyno.face.benchmarking' in sys.modules)\n",
        tmp_path,
    )
    assert said == "[]\nTrue False\n"


def test_names_that_are_not_there_are_errors_as_in_any_module(tmp_path: Path) -> None:
    said = run(
        "import onnxdyno\nprint({'benchmark', 'bench_table', 'timer'} <= set(dir(onnxdyno)))\n"
        "try:\n    onnxdyno.nothing\nexcept AttributeError as error:\n    print(error)\n",
        tmp_path,
    )
    assert said == "True\nmodule 'onnxdyno' has no attribute 'nothing'\n"
