"""What inspecting takes grows with the nodes and not faster; weights beside the model stay on the disk."""

import tracemalloc
from pathlib import Path

import pytest

from benchmarks.reading_speed import AIMED_AT, MEGABYTES_AIM, in_fresh_process, write, write_external
from commands import CASES
from onnxdyno.domain.errors import ModelError
from onnxdyno.domain.outcomes import ModelState
from onnxdyno.graphs.reading import PROTOBUF_LIMIT_BYTES, open_model


def test_four_times_the_nodes_take_about_four_times_the_processor_time_and_memory(tmp_path: Path) -> None:
    seconds, megabytes = [], []
    for count in (20_000, 80_000):
        write(tmp_path / f"{count}.onnx", count)
        took = in_fresh_process(tmp_path / f"{count}.onnx")
        seconds.append(took[0])
        megabytes.append(took[1])
    assert seconds[1] < 8 * seconds[0]
    assert megabytes[1] < 8 * max(megabytes[0], 10)
    assert megabytes[1] < 80_000 / AIMED_AT * MEGABYTES_AIM


def test_two_gigabytes_of_external_data_are_never_in_memory(tmp_path: Path) -> None:
    write_external(tmp_path / "model.onnx")
    _, megabytes = in_fresh_process(tmp_path / "model.onnx")
    assert megabytes < 100


def test_a_file_beyond_the_limit_of_protobuf_is_refused_in_one_line_without_being_read(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes((CASES / "qdq_conv.onnx").read_bytes())
    with path.open("r+b") as file:
        file.truncate(PROTOBUF_LIMIT_BYTES + 1)  # sparse
    tracemalloc.start()
    try:
        with pytest.raises(ModelError) as refused:
            open_model(path)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
    assert refused.value.state is ModelState.TOO_LARGE
    assert "2,147,483,648 bytes; a protobuf file holds at most 2,147,483,647" in refused.value.reason
    assert "external data" in refused.value.remedy
    assert str(refused.value).isprintable()
