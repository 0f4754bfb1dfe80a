"""Where output goes: terminals that lack a letter, disks that are full, descriptors that are closed."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from commands import CASES, Ran, run_onnxdyno

MODEL = str(CASES / "static_batch1.onnx")
QUICK = ("--budget", "1", "--launches", "1")


def shell(line: str, folder: Path, environment: Mapping[str, str]) -> Ran:
    """A shell line in which `onnxdyno` and `$MODEL` are known."""
    known = f'onnxdyno() {{ "{sys.executable}" -m onnxdyno.cli "$@"; }}; MODEL={MODEL}; {line}'
    done = subprocess.run(
        ["bash", "-c", known], capture_output=True, text=True, env=environment, cwd=folder, timeout=120, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Ran(code=done.returncode, out=done.stdout, err=done.stderr)


def test_a_terminal_without_the_letter_gets_an_escape(tmp_path: Path, environment: Mapping[str, str]) -> None:
    ascii_only = {**environment, "PYTHONIOENCODING": "ascii"}
    ran = run_onnxdyno(("bench", MODEL, *QUICK), tmp_path, ascii_only)
    assert ran.code == 0
    assert "Points" in ran.out
    assert ran.out.isascii()


def test_a_terminal_of_no_columns_still_gets_its_table(tmp_path: Path, environment: Mapping[str, str]) -> None:
    ran = run_onnxdyno(("inspect", MODEL), tmp_path, {**environment, "COLUMNS": "0"})
    assert "Inputs" in ran.out


@pytest.mark.parametrize("form", ["", "--json"])
def test_a_full_disk_at_standard_output_is_one_line(tmp_path: Path, environment: Mapping[str, str], form: str) -> None:
    ran = shell(f"onnxdyno inspect $MODEL {form} > /dev/full", tmp_path, environment)
    assert (ran.code, ran.err.count("\n")) == (4, 1)
    assert "standard output: No space left" in ran.err


def test_closed_standard_streams_are_no_reason_to_fail(tmp_path: Path, environment: Mapping[str, str]) -> None:
    ran = shell(f"onnxdyno bench $MODEL {' '.join(QUICK)} --json 2>&- <&-", tmp_path, environment)
    assert ran.code == 0
    assert ran.document["points"][0]["n"] > 0
    assert shell("onnxdyno inspect $MODEL >&-", tmp_path, environment).code == 0


def test_a_reader_that_left_ends_it_quietly(tmp_path: Path, environment: Mapping[str, str]) -> None:
    assert shell("onnxdyno inspect $MODEL --json | true", tmp_path, environment).err == ""


def test_a_page_that_cannot_be_written_is_refused_before_anything_is_measured(
    onnxdyno: Callable[..., Ran], tmp_path: Path
) -> None:
    for page in (tmp_path, tmp_path / "absent" / "page.html"):
        ran = onnxdyno("bench", MODEL, "--html", page, "--json")
        assert (ran.code, ran.err.count("\n")) == (2, 1)
        assert "--html" in ran.document["error"]["reason"]


def test_a_page_that_finds_no_room_does_not_cost_the_numbers(onnxdyno: Callable[..., Ran]) -> None:
    ran = onnxdyno("bench", MODEL, *QUICK, "--html", "/dev/full", "--json")
    assert ran.code == 4
    assert ran.document["points"][0]["n"] > 0
    assert "/dev/full: No space left" in ran.err.splitlines()[-1]


@pytest.mark.parametrize("variable", ["ONNXDYNO_LOCK_WAIT_S", "ONNXDYNO_CACHE_GB"])
@pytest.mark.parametrize("text", ["abc", "inf", "nan", "-1"])
def test_a_variable_that_is_no_number_is_one_line(
    tmp_path: Path, environment: Mapping[str, str], variable: str, text: str
) -> None:
    ran = run_onnxdyno(("bench", MODEL, *QUICK), tmp_path, {**environment, variable: text})
    assert (ran.code, ran.err.count("\n"), ran.out) == (2, 1, "")
    assert f"{variable} is '{text}'" in ran.err


def test_a_name_of_255_bytes_is_a_name(onnxdyno: Callable[..., Ran], tmp_path: Path) -> None:
    model = tmp_path / ("a" * 250 + ".onnx")
    model.write_bytes(Path(MODEL).read_bytes())
    assert onnxdyno("inspect", model).code == 0


def test_a_path_that_is_not_utf8_is_one_printable_line(onnxdyno: Callable[..., Ran], tmp_path: Path) -> None:
    model = tmp_path / "bad\udcff\x1b[31m.onnx"
    model.write_bytes(Path(MODEL).read_bytes())
    ran = onnxdyno("bench", model)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "bad\\udcff\\x1b[31m.onnx: the path is not valid UTF-8" in ran.err


def test_every_type_of_sql_has_a_form_in_json(onnxdyno: Callable[..., Ran]) -> None:
    sql = (
        "SELECT '\\xFF'::BLOB AS b, DATE '2026-01-02' AS d, TIMESTAMP '2026-01-02 03:04:05' AS t, 1.50::DECIMAL(5,2)"
        " AS n, 'nan'::DOUBLE AS x, [1, 2] AS l, {'a': 1} AS s, INTERVAL 1 DAY AS i"
    )
    (row,) = onnxdyno("query", sql, "--results", "file:results", "--json").document["rows"]
    assert (row["b"], row["d"], row["t"], row["n"]) == ("ff", "2026-01-02", "2026-01-02T03:04:05", "1.50")
    assert (row["x"], row["l"], row["s"]) == (None, [1, 2], {"a": 1})


def test_columns_of_one_name_are_all_shown_or_refused(onnxdyno: Callable[..., Ran]) -> None:
    query = ("query", "SELECT 1 AS a, 2 AS a", "--results", "file:results")
    assert onnxdyno(*query, "--csv").out == "a,a\n1,2\n"
    assert onnxdyno(*query).out.split() == ["a", "a", "1", "2"]
    refused = onnxdyno(*query, "--json")
    assert refused.code == 2
    assert "two columns are named 'a'" in json.loads(refused.out)["error"]["reason"]
