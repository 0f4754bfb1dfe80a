"""Environment variables: what they default to, what is refused, and that the page names every one."""

import re
from pathlib import Path

import pytest

from onnxdyno.adapters import environment
from onnxdyno.domain.errors import UsageError

ROOT = Path(__file__).parents[2]
_NAME = re.compile(r"ONNXDYNO_[A-Z_]+")


def test_without_variables_everything_has_a_default() -> None:
    found = environment.read({})
    assert found.cache_folder == Path.home() / ".cache/onnxdyno/models"
    assert found.cache_limit_bytes == 20 * 10**9
    assert found.lock_wait_s == 3600
    assert found.image_digest is None


def test_the_lock_folder_does_not_depend_on_who_runs_or_where() -> None:
    assert environment.read({"TMPDIR": "/elsewhere", "HOME": "/root"}).lock_folder == environment.read({}).lock_folder


def test_a_cache_folder_is_where_it_was_named_also_for_a_process_that_works_elsewhere() -> None:
    assert environment.read({"ONNXDYNO_CACHE_DIR": "cache"}).cache_folder == Path.cwd() / "cache"


def test_an_empty_variable_is_not_set() -> None:
    names = ("XDG_CACHE_HOME", "ONNXDYNO_CACHE_DIR", "ONNXDYNO_CACHE_GB", "ONNXDYNO_LOCK_DIR", "ONNXDYNO_LOCK_WAIT_S")
    assert environment.read(dict.fromkeys(names, "")) == environment.read({})


@pytest.mark.parametrize("name", ["ONNXDYNO_CACHE_GB", "ONNXDYNO_LOCK_WAIT_S"])
@pytest.mark.parametrize("value", ["much", "nan", "inf", "-1", "1e999", "\x1b[31m"])
def test_a_number_that_is_none_is_refused_in_one_printable_line(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"^{name} is .*: expected a number of ") as refused:
        environment.read({name: value})
    assert str(refused.value).isprintable()


def test_the_service_page_names_every_variable_and_no_other() -> None:
    files = [ROOT / "prefect.yaml"]
    for folder in ("src", "flows", "tasks", "docker"):
        files += [path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    used = {name for path in files for name in _NAME.findall(path.read_text(encoding="utf-8", errors="replace"))}
    listed = set(re.findall(r"^\| `(ONNXDYNO_[A-Z_]+)`", (ROOT / "docs/service.md").read_text(), re.MULTILINE))
    assert listed == used - {"ONNXDYNO_"}
