"""Tensor types that ONNX has and numpy has not: the runtime loads them, and takes no value of them."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from factories import cpu_device
from onnxdyno.adapters.ort import OrtRuntime
from onnxdyno.domain.errors import PointError
from onnxdyno.domain.outcomes import PointState
from onnxdyno.domain.plan import Variant


@pytest.mark.parametrize("variant", list(Variant))
def test_an_input_of_bfloat16_is_unsupported_and_says_what_to_export(tmp_path: Path, variant: Variant) -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "g",
        [value("x", TensorProto.BFLOAT16, [1, 4])],
        [value("y", TensorProto.BFLOAT16, [1, 4])],
    )
    model = tmp_path / "model.onnx"
    model.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )
    loaded = OrtRuntime().load(model, cpu_device(), 1)
    with pytest.raises(PointError, match="input 'x' is bfloat16") as refused:
        loaded.bind({"x": np.ones((1, 4), dtype=ml_dtypes.bfloat16)}, variant)
    assert refused.value.state is PointState.UNSUPPORTED
    assert "float32" in refused.value.remedy
