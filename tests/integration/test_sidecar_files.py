"""Input files that a sidecar names come with the model, from every kind of store."""

import io
from pathlib import Path

import numpy as np
import pytest

from onnxdyno.domain.errors import InfrastructureError, SpecError
from onnxdyno.storage.shelf import Shelf
from onnxdyno.storage.sidecar import fetch_files, find_sidecar
from stores import Registry

SPEC = b"inputs: {x: {file: inputs/x.npz}}\n"


def archive(value: float) -> bytes:
    """An `.npz` of one input."""
    body = io.BytesIO()
    np.savez(body, x=np.full((3, 4), value, dtype=np.float32))
    return body.getvalue()


def test_named_files_are_fetched_once_and_again_when_they_change(registry: Registry, tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "cache", 1 << 30)
    registry.upload("deep/m.onnx.bench.yaml", SPEC)
    registry.upload("deep/inputs/x.npz", archive(1.0))
    sidecar = find_sidecar(registry.store, "deep/m.onnx")
    assert sidecar is not None
    first = fetch_files(registry.store, sidecar, ("inputs/x.npz",), shelf)
    assert (first / "inputs" / "x.npz").read_bytes() == archive(1.0)
    assert fetch_files(registry.store, sidecar, ("inputs/x.npz",), shelf) == first
    registry.upload("deep/inputs/x.npz", archive(2.0))
    second = fetch_files(registry.store, sidecar, ("inputs/x.npz",), shelf)
    assert second != first
    assert (second / "inputs" / "x.npz").read_bytes() == archive(2.0)
    assert sorted(each.name for each in (tmp_path / "cache" / "inputs").iterdir()) == sorted([first.name, second.name])


def test_a_file_that_is_not_there_is_named_and_leaves_nothing(registry: Registry, tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "cache", 1 << 30)
    registry.upload("m.bench.yaml", SPEC)
    sidecar = find_sidecar(registry.store, "m.onnx")
    assert sidecar is not None
    with pytest.raises(SpecError, match=r"m\.bench\.yaml: names the file 'inputs/x\.npz', which is not beside"):
        fetch_files(registry.store, sidecar, ("inputs/x.npz",), shelf)
    assert not (tmp_path / "cache").exists()


def test_input_files_beyond_the_limit_of_the_cache_are_refused_and_leave_nothing(
    registry: Registry, tmp_path: Path
) -> None:
    registry.upload("m.bench.yaml", SPEC)
    registry.upload("inputs/x.npz", archive(1.0))
    sidecar = find_sidecar(registry.store, "m.onnx")
    assert sidecar is not None
    with pytest.raises(InfrastructureError, match="Raise the cache limit"):
        fetch_files(registry.store, sidecar, ("inputs/x.npz",), Shelf(tmp_path / "cache", 10))
    assert list((tmp_path / "cache" / "unfinished").iterdir()) == []
