"""A copy with a dynamic batch is made once for the bytes of a model, whatever the model is called."""

import shutil
from pathlib import Path

import pytest

from onnxdyno import app
from onnxdyno.graphs.reading import load

CASES = Path(__file__).parents[1] / "cases"


def test_the_same_bytes_under_two_names_share_one_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNXDYNO_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("ONNXDYNO_LOCK_DIR", str(tmp_path / "locks"))
    copies = []
    for name in ("first.onnx", "second.onnx"):
        path = tmp_path / name
        shutil.copyfile(CASES / "static_batch1.onnx", path)
        pulled = app.Pulled(local=load(path), sidecar=None, sidecar_key=None)
        copies.append(app.prepare(pulled, on=app.device(), parameters={"rebatch": True}).local)
    first, second = copies
    assert first.path == second.path
    assert first.ref.sha256 == second.ref.sha256 != load(CASES / "static_batch1.onnx").ref.sha256
    assert (first.ref.name, second.ref.name) == ("first.rebatched.onnx", "second.rebatched.onnx")
    assert len(list((tmp_path / "cache" / "copies").iterdir())) == 1


def test_a_copy_that_is_not_whole_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNXDYNO_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("ONNXDYNO_LOCK_DIR", str(tmp_path / "locks"))
    shutil.copyfile(CASES / "static_batch1.onnx", tmp_path / "model.onnx")
    pulled = app.Pulled(local=load(tmp_path / "model.onnx"), sidecar=None, sidecar_key=None)
    first = app.prepare(pulled, on=app.device(), parameters={"rebatch": True}).local
    first.path.unlink()
    again = app.prepare(pulled, on=app.device(), parameters={"rebatch": True}).local
    assert load(again.path).ref.sha256 == first.ref.sha256
