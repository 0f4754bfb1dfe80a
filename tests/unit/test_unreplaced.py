"""A model that is written to while it is measured."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from commands import CASES
from onnxdyno.domain.errors import InfrastructureError, ModelError, UsageError
from onnxdyno.domain.outcomes import ModelState
from onnxdyno.graphs.reading import load
from onnxdyno.graphs.unreplaced import sayable, unreplaced

OURS, OTHER = CASES / "static_batch1.onnx", CASES / "static_batch4.onnx"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(shutil.copy(OURS, tmp_path / "model.onnx"))


def during(model: Path, happens: Callable[[], None], forget: Callable[[], None] = lambda: None) -> None:
    with unreplaced(model, load(model).ref, forget):
        happens()


def test_a_model_that_stays_as_it_is_forgets_nothing(model: Path) -> None:
    forgotten: list[bool] = []
    with unreplaced(model, load(model).ref, lambda: forgotten.append(True)):
        pass
    assert forgotten == []


@pytest.mark.parametrize("how", ["other bytes", "emptied", "gone"])
def test_a_model_that_was_replaced_publishes_nothing_and_keeps_nothing(model: Path, how: str) -> None:
    forgotten: list[bool] = []

    def replace() -> None:
        if how == "gone":
            model.unlink()
        else:
            model.write_bytes(OTHER.read_bytes() if how == "other bytes" else b"")

    with pytest.raises(InfrastructureError, match="was replaced while it was measured"):
        during(model, replace, lambda: forgotten.append(True))
    assert forgotten == [True]


def test_a_refusal_of_replaced_bytes_is_not_the_models(model: Path) -> None:
    def refuse() -> None:
        raise ModelError(ModelState.INVALID_FILE, "No graph was found.", "Export it again.")

    def empty_and_refuse() -> None:
        model.write_bytes(b"")
        refuse()

    with pytest.raises(ModelError):
        during(model, refuse)
    with pytest.raises(InfrastructureError):
        during(model, empty_and_refuse)


def test_a_path_that_is_not_utf8_is_refused_in_one_printable_line() -> None:
    with pytest.raises(UsageError, match=r"bad\\udcff.onnx: the path is not valid UTF-8"):
        sayable(Path("bad\udcff.onnx"))
    assert sayable(Path("gut\u00e4.onnx")) == Path("gut\u00e4.onnx")
