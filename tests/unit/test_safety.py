"""Hostile files: what they declare cannot hang the reader, fill memory or a disk, or reach a terminal unescaped."""

import gzip
import io
import os
import resource
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from onnxdyno.domain.axes import axis_sizes
from onnxdyno.domain.devices import Device, DeviceKind
from onnxdyno.domain.errors import ModelError, OnnxdynoError
from onnxdyno.domain.models import Signature
from onnxdyno.domain.outcomes import ModelState
from onnxdyno.domain.plan import BenchmarkSpec
from onnxdyno.graphs.materialise import materialise
from onnxdyno.graphs.reading import PROTOBUF_LIMIT_BYTES, load, open_model
from onnxdyno.graphs.signature import read_signature, signature_of
from onnxdyno.planning import expand

CASES = Path(__file__).parent.parent / "cases"
DEVICE = Device(id="cpu", kind=DeviceKind.CPU, name="cpu", device_class="cpu", memory_bytes=None, cores=(0,), threads=1)
HOSTILE = (
    "\x1b[2J\x1b[31mred",
    "a\nb\r\tc",
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "\u202egnp.exe",
    "%s%n{0}",
)


def node(op: str, inputs: Sequence[str], *outputs: str, **attributes: Any) -> NodeProto:
    return helper.make_node(op, list(inputs), list(outputs), **attributes)


def graph(nodes: Sequence[NodeProto], name: str = "x", dims: Sequence[Any] = ("N", 4)) -> GraphProto:
    x = helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
    return helper.make_graph(
        list(nodes), "g", [x], [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)]
    )


def model(nodes: Sequence[NodeProto], stored: Sequence[TensorProto] = ()) -> ModelProto:
    made = helper.make_model(graph(nodes), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    made.graph.initializer.extend(stored)
    return made


def written(folder: Path, content: bytes) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(content)
    return path


def refused(path: Path) -> ModelError:
    with pytest.raises(ModelError) as caught:
        load(path)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 700
    assert caught.value.remedy
    return caught.value


def zipped(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, b"content")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ((16).to_bytes(8, "little") + b'{"__metadata__":{}}' + bytes(16), "safetensors"),
        (zipped("archive/data.pkl", "archive/version"), "TorchScript"),
        (zipped("a.txt"), "zip archive"),
        (b"\x1c\0\0\0TFL3" + bytes(64), "TFLite"),
        (gzip.compress(b"model", mtime=0), "gzip"),
        (b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>AccessDenied</Code></Error>', "XML error answer"),
        (b'<?xml version="1.0"?><net name="openvino"/>', "XML file"),
        (b"<!DOCTYPE html><html>login</html>", "HTML page"),
        (b"\x80\x04\x95" + bytes(20), "pickle"),
        (b"\x89HDF\r\n\x1a\n" + bytes(20), "HDF5"),
        (b"ptrt" + bytes(20), "TensorRT"),
        (bytes(300), "no readable ONNX protobuf"),
        (bytes(range(255, 100, -1)), "no readable ONNX protobuf"),
    ],
)
def test_each_foreign_format_is_told_in_one_line(tmp_path: Path, content: bytes, what: str) -> None:
    error = refused(written(tmp_path, content))
    assert error.state is ModelState.INVALID_FILE
    assert what in error.reason


def test_a_file_beyond_the_protobuf_limit_is_refused_without_being_read(tmp_path: Path) -> None:
    path = written(tmp_path, b"\x08\x08")
    os.truncate(path, PROTOBUF_LIMIT_BYTES + 1)  # sparse: takes no disk
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    error = refused(path)
    assert error.state is ModelState.TOO_LARGE
    assert "external data" in error.remedy
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB


def test_two_gigabytes_of_external_data_are_not_read_for_the_signature(tmp_path: Path) -> None:
    tensor = TensorProto(
        name="w", data_type=TensorProto.FLOAT, dims=[1 << 14, 1 << 15], data_location=TensorProto.EXTERNAL
    )
    tensor.external_data.add(key="location", value="w.bin")
    made = model([node("MatMul", ["x", "w"], "y")], [tensor])
    found = read_signature(written(tmp_path, made.SerializeToString()))  # the data file is not even there
    assert (found.parameters, found.weight_bytes) == (1 << 29, 1 << 31)
    assert found.external_files == ("w.bin",)


def test_a_hundred_thousand_nodes_are_read(tmp_path: Path) -> None:
    nodes = []
    for i in range(25_000):
        at = f"t{i - 1}" if i else "x"
        nodes += [node("Add", [at, "w"], f"a{i}"), node("Relu", [f"a{i}"], f"r{i}")]
        nodes += [node("Shape", [f"r{i}"], f"s{i}"), node("Reshape", [f"r{i}", f"s{i}"], f"t{i}")]
    made = model(nodes, [numpy_helper.from_array(np.ones(4, dtype=np.float32), "w")])
    found = read_signature(written(tmp_path, made.SerializeToString()))
    assert found.node_count == 100_000
    assert [(axis.name, axis.size) for axis in found.axes] == [("N", None)]


def test_a_cyclic_graph_is_read_and_the_runtime_refuses_it(tmp_path: Path) -> None:
    made = model([node("Add", ["x", "b"], "a"), node("Relu", ["a"], "b")])
    path = written(tmp_path, made.SerializeToString())
    assert read_signature(path).node_count == 2
    with pytest.raises(Exception, match=r"(?i)sorted|order|cycl|input"):
        ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def test_a_tower_of_dimensions_is_not_climbed(tmp_path: Path) -> None:
    axes = numpy_helper.from_array(np.arange(200, dtype=np.int64), "axes")
    nodes = [node("Unsqueeze", [f"t{i - 1}" if i else "x", "axes"], f"t{i}") for i in range(5_000)]
    found = read_signature(written(tmp_path, model(nodes, [axes]).SerializeToString()))
    assert found.node_count == 5_000


def test_a_tensor_of_thousands_of_dimensions_is_refused(tmp_path: Path) -> None:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2**62] * 50_000)
    error = refused(written(tmp_path, model([node("Add", ["x", "w"], "y")], [tensor]).SerializeToString()))
    assert "50,000 dimensions" in error.reason


@pytest.mark.parametrize("dims", [[2**62, 2**62], [10**6, 10**6]])
def test_elements_that_are_declared_but_not_stored_are_refused(tmp_path: Path, dims: list[int]) -> None:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims)
    error = refused(written(tmp_path, model([node("Add", ["x", "w"], "y")], [tensor]).SerializeToString()))
    assert "elements but is" in error.reason


def test_two_functions_of_one_name_are_refused(tmp_path: Path) -> None:
    made = model([node("Own", ["x"], "y", domain="own")])
    body = [node("Relu", ["a"], "b")]
    for _ in range(2):
        made.functions.append(helper.make_function("own", "Own", ["a"], ["b"], body, [helper.make_opsetid("", 17)]))
    error = refused(written(tmp_path, made.SerializeToString()))
    assert "two local functions" in error.reason


def test_a_bomb_of_a_constant_costs_nothing_to_read_and_fails_in_its_node() -> None:
    path = CASES / "huge_constantofshape.onnx"
    found = read_signature(path)
    assert (found.parameters, found.weight_bytes) == (0, 0)
    assert dict(found.op_types) == {"ConstantOfShape": 1, "ReduceSum": 1, "Add": 1}
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    with pytest.raises(Exception, match="bomb"):
        session.run(None, {r.name: materialise(r, axis_sizes({"N": 1}), 0) for r in found.recipes})


def test_subgraphs_within_subgraphs_are_walked_once_each(tmp_path: Path) -> None:
    def nest(depth: int) -> GraphProto:
        made = graph([node("Relu", ["x"], "y")], name=f"unused{depth}")
        for i in range(depth):
            made = graph(
                [node("If", ["flag"], "y", then_branch=made, else_branch=graph([node("Relu", ["x"], "y")]))],
                name=f"in{i}",
            )
        return made

    made = helper.make_model(nest(20), opset_imports=[helper.make_opsetid("", 17)])
    assert read_signature(written(tmp_path, made.SerializeToString())).node_count == 41


def everything_said(found: Signature) -> list[str]:
    said = [axis.name for axis in found.axes] + [s for axis in found.axes for s in axis.symbols]
    said += [*found.notes, found.producer, found.precision, *(op for op, _ in found.op_types)]
    said += [domain for domain, _ in found.domains]
    said += [dim.symbol for value in (*found.inputs, *found.outputs) for dim in value.dims or () if dim.symbol]
    said += [recipe.why for recipe in found.recipes]
    return said


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_printable_wherever_they_are_spoken_of(tmp_path: Path, name: str) -> None:
    made = model([node("MatMul", [name, "w"], "m"), node(name, ["m"], name + "out", domain=name)])
    made.graph.initializer.append(numpy_helper.from_array(np.ones((3, 2), dtype=np.float32), "w"))
    made.graph.input[0].name = name
    made.producer_name = made.producer_version = name
    made.opset_import.append(helper.make_opsetid(name, 1))
    dims = made.graph.input[0].type.tensor_type.shape.dim
    dims[0].dim_param = f"{name} + {name}"
    dims[1].ClearField("dim_value")  # unnamed: the axis or the note is named after the input
    state = made.graph.input.add()
    state.CopyFrom(helper.make_tensor_value_info(f"state{name}", TensorProto.FLOAT, [2, None, None, name, 7, None]))
    path = written(tmp_path, made.SerializeToString())
    found = read_signature(path)
    assert all(text.isprintable() for text in everything_said(found))
    plan = expand(BenchmarkSpec(), found, load(path), DEVICE)
    assert all(point.key.isprintable() for point in (*plan.points, *plan.base_candidates))
    assert all(each.reason.isprintable() for each in plan.excluded)
    assert found.inputs[0].name == name  # the runtime must be fed under the very name


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_of_files_and_tensors_are_printable_in_refusals(tmp_path: Path, name: str) -> None:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=f"../{name}")
    path = tmp_path / (name.replace("/", "_") + ".onnx")
    path.write_bytes(model([node("Add", ["x", name], "y")], [tensor]).SerializeToString())
    assert refused(path).state is ModelState.UNSAFE
    path.write_bytes(b"not a model at all, just words")
    assert refused(path).state is ModelState.INVALID_FILE


def test_reading_writes_nothing_and_leaves_its_folder_alone(tmp_path: Path) -> None:
    path = written(tmp_path, (CASES / "audio_scalar_sr_if.onnx").read_bytes())
    load(path)
    read_signature(path)
    assert [each.name for each in tmp_path.iterdir()] == ["model.onnx"]


def test_a_link_that_goes_in_circles_is_refused_not_followed(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").symlink_to("model.onnx")
    with pytest.raises(OnnxdynoError, match="No file"):
        open_model(tmp_path / "model.onnx")


def test_a_loop_body_belongs_to_its_loop() -> None:
    found = read_signature(CASES / "loop20_profile_double_count.onnx")
    assert found.node_count == 3
    assert dict(found.op_types) == {"Loop": 1, "Identity": 1, "MatMul": 1}


def test_nodes_of_the_same_name_in_branches_are_all_counted() -> None:
    found = read_signature(CASES / "same_names_in_branches.onnx")
    assert dict(found.op_types) == {"MatMul": 2, "Relu": 2, "Tanh": 1, "If": 1}
    assert next(r for r in found.recipes if r.name == "flag").dtype == "bool"


def test_what_needs_a_locale_is_read_as_any_other_model() -> None:
    found = read_signature(CASES / "string_normalizer_locale.onnx")
    assert [(r.rule, r.dtype) for r in found.recipes] == [("strings", "string")]
    assert found.outputs[0].dtype == "string"


def test_outputs_that_are_not_finite_come_from_finite_inputs() -> None:
    path = CASES / "nan_inf_outputs.onnx"
    found = read_signature(path)
    feeds = {r.name: materialise(r, axis_sizes({"N": 2}), 0) for r in found.recipes}
    assert all(np.isfinite(value).all() for value in feeds.values())
    inf, nan = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, feeds)
    assert np.isinf(inf).all()
    assert np.isnan(nan).all()
    assert [dim.axes for dim in found.outputs[0].dims or ()] == [("N",), ()]


def test_an_item_of_64_mib_is_small_to_feed() -> None:
    found = read_signature(CASES / "batch_oom_64MiB_per_item.onnx")
    values = {r.name: materialise(r, axis_sizes({"N": 256}), 0) for r in found.recipes}
    assert sum(value.nbytes for value in values.values()) == 256 * 4096 * 4
    assert found.parameters == 0


def test_a_model_of_twenty_thousand_inputs_ends() -> None:
    inputs = [helper.make_tensor_value_info(f"len{i}", TensorProto.INT64, [f"n{i}"]) for i in range(20_000)]
    y = helper.make_tensor_value_info("y", TensorProto.INT64, None)
    made = helper.make_model(helper.make_graph([node("Identity", ["len0"], "y")], "g", inputs, [y]))
    assert len(signature_of(made).recipes) == 20_000
