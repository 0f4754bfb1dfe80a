"""tests/gpu/run_all.sh where there is no GPU: it says so at each step, and joins what came along in pieces."""

import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from cuda.bindings import runtime

SCRIPT = Path(__file__).parents[1] / "gpu" / "run_all.sh"
WHEEL = "pieced-1.0-py3-none-any.whl"

pytestmark = pytest.mark.skipif(runtime.cudaGetDeviceCount()[0] == 0, reason="a GPU is here: run the script itself")


def table(folder: Path, *arguments: str, **settings: str) -> tuple[int, list[str]]:
    """Exit status and rows; nothing is asked of any folder but this one."""
    own: Mapping[str, str] = {"RUN_ALL_CAME": str(folder / "came"), "RUN_ALL_KEPT": str(folder / "kept"), **settings}
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    done = subprocess.run(
        ["bash", str(SCRIPT), *arguments],
        env={**environment, "PYTHON": sys.executable, **own},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert "Traceback" not in done.stdout + done.stderr
    return done.returncode, done.stdout.splitlines()


def pieces(folder: Path) -> list[bytes]:
    """A wheel of one module, cut in three; its checksum lies in the folder that comes along."""
    came = folder / "came"
    came.mkdir()
    path = folder / WHEEL
    record = "pieced-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("pieced.py", "WHOLE = True\n")
        wheel.writestr(f"{record}/METADATA", "Metadata-Version: 2.1\nName: pieced\nVersion: 1.0\n")
        wheel.writestr(f"{record}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{record}/RECORD", "")
    body = path.read_bytes()
    (came / f"{WHEEL}.sha256").write_text(f"{hashlib.sha256(body).hexdigest()}  {WHEEL}\n")
    third = len(body) // 3
    return [body[:third], body[third : 2 * third], body[2 * third :]]


def test_every_step_says_that_there_is_no_gpu(tmp_path: Path) -> None:
    status, rows = table(tmp_path)
    assert status == 0, rows
    assert len(rows) <= 40
    *told, summary = rows
    assert " 0 FAIL" in summary
    by_state = {row.split()[1]: row.split()[0] for row in told}
    assert {name for name, state in by_state.items() if state != "NONE"} == {"folders", "packages"}
    for step in ("devices", "identity", "telemetry", "timing-unet", "profile-resnet50", "tenant"):
        assert any(row.startswith("NONE") and step in row and "driver" in row for row in told)


def test_pieces_that_come_one_by_one_are_joined_checked_and_installed(tmp_path: Path) -> None:
    for at, piece in enumerate(pieces(tmp_path)):
        for old in (tmp_path / "came").glob("*.part.*"):
            old.unlink()
        (tmp_path / "came" / f"{WHEEL}.part.{at:02}").write_bytes(piece)
        status, rows = table(tmp_path, "keep")
        assert status == 0
        assert f"{at + 1} pieces" in rows[0]
    _, rows = table(tmp_path, RUN_ALL_SECONDS="20")
    assert rows[0].startswith("OK   install"), rows
    assert (tmp_path / "kept" / "site" / "pieced.py").is_file()


def test_a_damaged_piece_is_a_row_and_what_is_left_is_bounded_by_the_clock(tmp_path: Path) -> None:
    first, second, third = pieces(tmp_path)
    for at, piece in enumerate((first, second[::-1], third)):
        (tmp_path / "came" / f"{WHEEL}.part.{at:02}").write_bytes(piece)
    status, rows = table(tmp_path, RUN_ALL_SECONDS="1")
    assert status == 1
    assert rows[0].startswith("FAIL install")
    assert any("no time was left" in row for row in rows)
