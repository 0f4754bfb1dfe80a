"""The walls of the house: the contracts hold what they promise, and the measuring process stays light."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The source tree in a folder of its own."""
    for package in ("src/onnxdyno", "flows", "tasks"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint_imports(tree: Path) -> subprocess.CompletedProcess[str]:
    """The contracts on `tree`, and on nothing that is installed."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tree / "src"), str(tree)]), "NO_COLOR": "1"}
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"]
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_the_contracts_are_kept(copied: Path) -> None:
    ended = lint_imports(copied)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("module", "wrong", "contract"),
    [
        ("src/onnxdyno/analysis/latency.py", "import onnxdyno.storage.keys", "One direction inside onnxdyno"),
        ("src/onnxdyno/registry.py", "import prefect", "The library never imports prefect"),
        ("src/onnxdyno/registry.py", "import boto3", "One door to S3"),
        ("src/onnxdyno/app/places.py", "import onnxruntime", "One door to ONNX Runtime"),
        ("src/onnxdyno/worker.py", "import pyarrow", "The measuring process reaches neither store nor tables"),
        ("src/onnxdyno/adapters/host.py", "import onnxdyno.adapters.nvml", "Adapters do not know one another"),
        ("flows/watch_registry.py", "import onnxdyno.adapters.s3", "flows and tasks enter only through app and domain"),
        ("src/onnxdyno/face/records.py", "import onnxdyno.storage.keys", "The Python face reaches neither store"),
        ("tasks/results.py", "import flows.watch_registry", "flows > tasks > onnxdyno"),
    ],
)
def test_a_wrong_import_is_caught_by_the_contract_that_forbids_it(
    copied: Path, module: str, wrong: str, contract: str
) -> None:
    assert (copied / module).is_file()
    with (copied / module).open("a") as source:
        source.write(f"\n{wrong}\n")
    ended = lint_imports(copied)
    assert ended.returncode != 0
    broken = [line for line in ended.stdout.splitlines() if " BROKEN" in line]
    assert any(line.startswith(contract) for line in broken), ended.stdout


def loaded_by(statement: str) -> set[str]:
    """The top-level modules that a fresh interpreter has after `statement`."""
    code = f"{statement}\nimport sys\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout
    return set(said.split())


def test_the_measuring_process_loads_neither_orchestrator_nor_store_nor_tables() -> None:
    loaded = loaded_by("import onnxdyno.worker")
    assert "onnxdyno" in loaded
    assert not loaded & {"prefect", "boto3", "botocore", "pyarrow", "duckdb", "pynvml", "pydantic"}


def test_the_front_door_loads_no_orchestrator() -> None:
    loaded = loaded_by("import onnxdyno.app, onnxdyno.cli")
    assert not loaded & {"prefect", "flows", "tasks"}


def test_the_embedded_entry_point_leaves_prefect_alone_until_it_has_a_server() -> None:
    loaded = loaded_by("import flows.embedded")
    assert "flows" in loaded
    assert "prefect" not in loaded


def test_the_architecture_page_names_every_part_of_the_library_and_no_other() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    table = page.partition("| part | holds | pure |")[2].partition("\n\n")[0]
    firsts = "".join(row.split("|")[1] for row in table.splitlines()[2:])
    parts = {each.name + ("/" if each.is_dir() else "") for each in (ROOT / "src" / "onnxdyno").iterdir()}
    assert set(re.findall(r"`([^`]+)`", firsts)) == parts - {"__init__.py", "__pycache__/", "py.typed"}


def test_the_architecture_page_names_files_that_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    roots = (ROOT, ROOT / "src" / "onnxdyno", ROOT / "src" / "onnxdyno" / "storage")
    named = set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.(?:py|c|md|toml)|(?:[a-z_]+/)+)`", page))
    assert named
    assert [each for each in sorted(named) if not any((root / each).exists() for root in roots)] == []
