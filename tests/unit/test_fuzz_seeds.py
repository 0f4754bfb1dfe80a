"""Files that once crashed the reader, found by `benchmarks/fuzz_reading.py`: each is read or refused in one line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from factories import cpu_device
from onnxdyno.domain.errors import OnnxdynoError
from onnxdyno.domain.plan import BenchmarkSpec
from onnxdyno.graphs.cost import cost_at
from onnxdyno.graphs.reading import load
from onnxdyno.graphs.rebatch import rebatch
from onnxdyno.graphs.signature import read_signature
from onnxdyno.planning import expand

SEEDS = sorted((Path(__file__).parents[1] / "cases" / "fuzz").glob("*.onnx"))


def said_by(step: Callable[[], object]) -> str:
    """The refusal of a step; empty if it went well."""
    try:
        step()
    except OnnxdynoError as error:
        return str(error)
    return ""


def test_there_are_seeds() -> None:
    assert SEEDS


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: str(seed.stem))
def test_a_file_that_once_crashed_the_reader_does_not(seed: Path, tmp_path: Path) -> None:
    def read() -> None:
        signature = read_signature(seed)
        made = expand(BenchmarkSpec(), signature, load(seed), cpu_device())
        cost_at(seed, signature, made.base.sizes)

    for step in (read, lambda: rebatch(seed, tmp_path / "copy.onnx")):
        assert said_by(step).isprintable()
