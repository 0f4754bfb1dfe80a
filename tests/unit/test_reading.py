"""Reading model files: what is refused, in which words, and what a model's identity is."""

import hashlib
import io
import zipfile
from pathlib import Path

import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from onnxdyno.domain.errors import ModelError, OnnxdynoError, UsageError
from onnxdyno.domain.outcomes import ModelState
from onnxdyno.domain.text import printable
from onnxdyno.graphs.identity import combined_sha256
from onnxdyno.graphs.reading import check_external, external_files, identify, load, open_model
from onnxdyno.graphs.signature import read_signature

CASES = Path(__file__).parent.parent / "cases"


def refusal(path: Path) -> ModelError:
    with pytest.raises(ModelError) as caught:
        load(path)
    assert "\n" not in str(caught.value)
    assert caught.value.remedy
    return caught.value


def written(folder: Path, content: bytes) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(content)
    return path


def with_external(folder: Path, location: str, **entries: str) -> Path:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2, 2], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=value)
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 2]) for n in "xy")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [tensor])
    return written(folder, helper.make_model(graph).SerializeToString())


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("git_lfs_pointer.onnx", "Git LFS pointer"),
        ("zero_bytes.onnx", "empty object"),
        ("html_error_page.onnx", "HTML"),
        ("zip_of_model.onnx", "zip"),
        ("truncated_60pct.onnx", "cut short"),
    ],
)
def test_a_file_that_is_no_model_is_named_for_what_it_is(file: str, words: str) -> None:
    error = refusal(CASES / file)
    assert error.state is ModelState.INVALID_FILE
    assert words in error.reason


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'<?xml version="1.0"?>\n<Error><Code>NoSuchKey</Code></Error>', "XML error answer"),
        (b"\x1f\x8b\x08\x00abc", "gzip"),
        ((30).to_bytes(8, "little") + b'{"w":{"dtype":"F32"}}' + b" " * 40, "safetensors"),
        (b"\x1c\x00\x00\x00TFL3" + b"\0" * 20, "TFLite"),
        (b"\x80\x02}q\x00.", "pickle"),
        (b'{"message": "Not Found"}', "JSON"),
        (b"GGUF\x03\0\0\0", "GGUF"),
        (b"\x08\x08\x12\x04test", "no ONNX graph"),
        (b"plain words that are no model", "no readable ONNX protobuf"),
    ],
)
def test_other_formats_are_told_apart(tmp_path: Path, content: bytes, words: str) -> None:
    error = refusal(written(tmp_path, content))
    assert error.state is ModelState.INVALID_FILE
    assert words in error.reason


def test_a_torchscript_archive_is_told_from_a_zip(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02")
    assert "TorchScript" in refusal(written(tmp_path, buffer.getvalue())).reason


def test_what_only_the_runtime_can_judge_is_read(tmp_path: Path) -> None:
    for file in ("ir_version_too_new", "opset_too_new", "custom_domain_op", "duplicate_node_names_invalid"):
        assert load(CASES / f"{file}.onnx").ref.size_bytes > 0
    assert dict(read_signature(CASES / "custom_domain_op.onnx").op_types) == {"com.acme.ops:MyInverse": 1}


def test_a_missing_file_is_the_persons_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No file"):
        open_model(tmp_path / "nothing.onnx")
    with pytest.raises(UsageError, match="not a regular file"):
        open_model(tmp_path)


def test_the_identity_of_a_plain_model_is_the_sha256_of_its_file() -> None:
    path = CASES / "static_batch1.onnx"
    assert identify(path).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert identify(path).external_bytes == 0


def test_external_data_counts_in_identity_and_size() -> None:
    path = CASES / "external_ok" / "model.onnx"
    ref = identify(path)
    (file,) = external_files(path)
    digests = [hashlib.sha256(p.read_bytes()).hexdigest() for p in (path, path.parent / file)]
    assert ref.external_bytes == 8192
    assert ref.size_bytes == 8192 + path.stat().st_size
    assert ref.sha256 == combined_sha256(digests[0], [(file, digests[1])])
    assert read_signature(path).parameters == 2048
    assert read_signature(path).weight_bytes == 8192


def test_absent_external_data_is_named() -> None:
    error = refusal(CASES / "external_missing" / "model.onnx")
    assert error.state is ModelState.MISSING_EXTERNAL_DATA
    assert error.missing == ("model.onnx_data",)


def test_short_external_data_is_a_partial_upload() -> None:
    error = refusal(CASES / "external_short" / "model.onnx")
    assert error.state is ModelState.MISSING_EXTERNAL_DATA
    assert "partial upload" in error.reason
    assert error.missing == ("weights.bin",)


@pytest.mark.parametrize(
    "location",
    [
        "../w.bin",
        "a/../../w.bin",
        "/etc/passwd",
        "C:\\w.bin",
        "c:w.bin",
        "a\\..\\w.bin",
        "w\0.bin",
        "w\n.bin",
        "\x1b[31mw.bin",
        "",
        ".",
        "*/_ORT_MEM_ADDR_/*",
        "a" * 300,
    ],
)
def test_a_path_that_could_leave_the_folder_is_refused_before_anything_is_looked_up(
    tmp_path: Path, location: str
) -> None:
    path = with_external(tmp_path, location)
    with pytest.raises(ModelError) as caught:
        external_files(path)
    assert caught.value.state is ModelState.UNSAFE
    assert str(caught.value).isprintable()


def test_the_traversing_case_is_unsafe() -> None:
    assert refusal(CASES / "external_traversal" / "model.onnx").state is ModelState.UNSAFE


def test_paths_are_normal_and_each_named_once(tmp_path: Path) -> None:
    assert external_files(with_external(tmp_path, "./sub//w.bin")) == ("sub/w.bin",)


def test_a_link_out_of_the_folder_is_unsafe_and_one_inside_is_not(tmp_path: Path) -> None:
    outside = tmp_path / "outside.bin"
    outside.write_bytes(b"\0" * 16)
    folder = tmp_path / "folder"
    folder.mkdir()
    path = with_external(folder, "w.bin")
    (folder / "w.bin").symlink_to(outside)
    assert refusal(path).state is ModelState.UNSAFE
    (folder / "w.bin").unlink()
    (folder / "real.bin").write_bytes(b"\0" * 16)
    (folder / "w.bin").symlink_to("real.bin")
    assert check_external(path) == ("w.bin",)


def test_a_tensor_without_a_length_needs_its_declared_bytes(tmp_path: Path) -> None:
    path = with_external(tmp_path, "w.bin")
    (tmp_path / "w.bin").write_bytes(b"\0" * 15)
    assert "15 of 16 bytes" in refusal(path).reason


@pytest.mark.parametrize("entries", [{"offset": "-4"}, {"length": "many"}])
def test_offsets_that_are_no_sizes_are_refused(tmp_path: Path, entries: dict[str, str]) -> None:
    assert refusal(with_external(tmp_path, "w.bin", **entries)).state is ModelState.INVALID_FILE


def test_external_data_in_a_constant_of_a_branch_is_found(tmp_path: Path) -> None:
    tensor = TensorProto(name="c", data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="../c.bin")
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    branch = helper.make_graph([helper.make_node("Constant", [], ["y"], value=tensor)], "b", [], [y])
    flag = helper.make_tensor_value_info("flag", TensorProto.BOOL, [])
    node = helper.make_node("If", ["flag"], ["y"], then_branch=branch, else_branch=branch)
    model = helper.make_model(helper.make_graph([node], "g", [flag], [y]))
    assert refusal(written(tmp_path, model.SerializeToString())).state is ModelState.UNSAFE


def test_names_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    content = (CASES / "static_batch1.onnx").read_bytes()
    assert b"GlobalAveragePool" in content
    error = refusal(written(tmp_path, content.replace(b"GlobalAveragePool", b"GlobalAverage\xff\xfe\xfd\xfc")))
    assert "UTF-8" in error.reason


def test_a_node_without_its_inputs_is_read(tmp_path: Path) -> None:
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    for op in ("Gather", "OneHot", "Equal", "MatMul", "Conv", "LSTM", "Split", "Concat", "Reshape", "Loop", "Constant"):
        model = helper.make_model(helper.make_graph([helper.make_node(op, [], ["y"])], "g", [], [y]))
        assert read_signature(written(tmp_path, model.SerializeToString())).node_count == 1


def test_deep_nesting_is_refused_and_never_a_crash(tmp_path: Path) -> None:
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    content = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [], [y]).SerializeToString()

    def field(number: int, body: bytes) -> bytes:
        size, head = len(body), bytearray([number << 3 | 2])
        while size > 127:
            head.append(size & 127 | 128)
            size >>= 7
        return bytes(head) + bytes([size]) + body

    for _ in range(200):  # graph > node (1) > attribute (5) > graph (6)
        content = field(1, field(5, field(6, content)))
    assert refusal(written(tmp_path, field(7, content))).state is ModelState.INVALID_FILE


def test_foreign_text_is_printable_on_one_line() -> None:
    assert printable("a\nb\x1b[31m\u202e\ud800") == "a\\nb\\x1b[31m\\u202e\\ud800"
    assert len(printable("x" * 500, 120)) == 120


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_mutated_models_are_read_or_refused_with_a_typed_error(tmp_path: Path, data: st.DataObject) -> None:
    names = [
        "text_vocab64",
        "lstm_state_batch_dim1",
        "audio_scalar_sr_if",
        "qdq_conv",
        "decoder_past_kv",
        "sequence_input",
    ]
    content = bytearray((CASES / f"{data.draw(st.sampled_from(names))}.onnx").read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = written(tmp_path, bytes(content[: data.draw(st.integers(1, len(content)))]))
    line = ""
    try:
        load(path)
        read_signature(path)
    except OnnxdynoError as error:
        line = str(error)
    assert "\n" not in line


def test_reading_leaves_the_file_alone(tmp_path: Path) -> None:
    path = written(tmp_path, (CASES / "qdq_conv.onnx").read_bytes())
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    read_signature(path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert onnx.load(path).graph.node
