"""Real messages of ONNX Runtime, from the case models, and what they are taken to mean."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from onnxdyno.domain.outcomes import ModelState, PointState
from onnxdyno.measuring.messages import LONGEST, judge_call, judge_load, tidy

CASES = Path(__file__).parents[1] / "cases"


def session(case: str) -> Any:
    """A quiet session of a case model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(CASES / case), options, providers=["CPUExecutionProvider"])


def load_message(case: str) -> str:
    """What the runtime says when it refuses the case."""
    with pytest.raises(Exception, match=r".") as refused:
        session(case)
    return str(refused.value)


def call_message(case: str, **feeds: Any) -> str:
    """What the runtime says when a call of the case fails."""
    loaded = session(case)
    with pytest.raises(Exception, match=r".") as failed:
        loaded.run(None, feeds)
    return str(failed.value)


def zeros(*shape: int) -> Any:
    """A float input."""
    return np.zeros(shape, np.float32)


def tokens(*, ids: int, mask: int, highest: int = 1, types: int = 0) -> dict[str, Any]:
    """Inputs of the text case: so many ids and so long a mask."""
    return {
        "input_ids": np.full((1, ids), highest, np.int64),
        "attention_mask": np.ones((1, mask), np.int64),
        "token_type_ids": np.full((1, ids), types, np.int64),
    }


def decoder(*, past: int, mask: int) -> dict[str, Any]:
    """Three tokens for the decoder case, after so many earlier ones."""
    cache = zeros(1, 2, past, 4)
    return {
        "input_ids": np.ones((1, 3), np.int64),
        "attention_mask": np.ones((1, mask), np.int64),
        "past_key_values.0.key": cache,
        "past_key_values.0.value": cache,
    }


def recurrent(*state: int) -> dict[str, Any]:
    """Four sequences for the LSTM case, with a state of this shape."""
    return {"x": zeros(4, 5, 4), "h0": zeros(*state), "c0": zeros(*state)}


@pytest.mark.parametrize(
    ("case", "state", "said", "todo"),
    [
        pytest.param(
            "custom_domain_op.onnx",
            ModelState.UNSUPPORTED,
            "com.acme.ops:MyInverse(-1) is not a registered function/op",
            "register its library",
            id="O19",
        ),
        pytest.param(
            "ir_version_too_new.onnx",
            ModelState.UNSUPPORTED,
            "Unsupported model IR version: 99, max supported IR version",
            "runtime is too old",
            id="O20",
        ),
        pytest.param(
            "opset_too_new.onnx",
            ModelState.UNSUPPORTED,
            "Opset 99 is under development",
            "runtime is too old",
            id="O21",
        ),
        pytest.param("git_lfs_pointer.onnx", ModelState.INVALID_FILE, "Protobuf parsing failed", "again", id="O22"),
        pytest.param("truncated_60pct.onnx", ModelState.INVALID_FILE, "Protobuf parsing failed", "again", id="O26"),
        pytest.param("zero_bytes.onnx", ModelState.INVALID_FILE, "No graph was found", "export it again", id="O23"),
        pytest.param(
            "duplicate_node_names_invalid.onnx",
            ModelState.INVALID_FILE,
            "two nodes with same node name (layer)",
            "export it again",
            id="O28",
        ),
        pytest.param(
            "bf16_add.onnx", ModelState.UNSUPPORTED, "Could not find an implementation for Add(14)", "type", id="O32"
        ),
        pytest.param(
            "external_missing/model.onnx",
            ModelState.MISSING_EXTERNAL_DATA,
            "External data path does not exist",
            "Upload the external-data file",
            id="O49",
        ),
        pytest.param(
            "external_traversal/model.onnx",
            ModelState.UNSAFE,
            "External data path escapes model directory",
            "relative path",
            id="O50",
        ),
        pytest.param(
            "external_short/model.onnx",
            ModelState.MISSING_EXTERNAL_DATA,
            "can not be read in full",
            "shorter than the model says",
            id="O51",
        ),
        pytest.param(
            "not_there.onnx", ModelState.ENVIRONMENT, "File doesn't exist", "run it again", id="a file that has gone"
        ),
    ],
)
def test_a_refused_model_has_a_state_the_runtimes_words_and_a_remedy(
    case: str, state: ModelState, said: str, todo: str
) -> None:
    problem = judge_load(load_message(case))
    assert problem.state is state
    assert said in problem.reason
    assert todo in problem.remedy
    assert len(problem.reason.splitlines()) == 1


def test_a_missing_locale_is_the_environments_fault_not_the_models() -> None:
    try:
        session("string_normalizer_locale.onnx")
    except Exception as error:  # noqa: BLE001  its exceptions have no common base class
        problem = judge_load(str(error))
        assert problem.state is ModelState.ENVIRONMENT
        assert "Failed to construct locale with name:en_US.UTF-8" in problem.reason
        assert "StringNormalizer::Locale" not in problem.reason, "the runtime's own signatures tell a person nothing"
        assert "Install the locale" in problem.remedy
    else:
        pytest.skip("this machine has the locale en_US.UTF-8")


def test_a_type_that_the_runtime_has_not_is_unsupported_not_a_damaged_file() -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "g",
        [value("x", TensorProto.COMPLEX64, [1])],
        [value("y", TensorProto.COMPLEX64, [1])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(Exception, match="MLDataType for: tensor") as refused:
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    problem = judge_load(str(refused.value))
    assert problem.state is ModelState.UNSUPPORTED
    assert "supported type" in problem.remedy


def test_a_model_that_only_names_something_locale_is_not_blamed_on_the_environment() -> None:
    problem = judge_load("[ONNXRuntimeError] : 1 : FAIL : Node (locale_lookup) has input size 1 not in range [2, 2].")
    assert problem.state is ModelState.INVALID_FILE


@pytest.mark.parametrize(
    ("case", "feeds", "said"),
    [
        pytest.param(
            "reshape_hardcoded_batch.onnx", {"x": zeros(2, 16, 4, 4)}, "Reshape node 'reshape1x256': ", id="O02"
        ),
        pytest.param("static_batch1.onnx", {"x": zeros(2, 3, 16, 16)}, "index: 0 Got: 2 Expected: 1", id="O04"),
        pytest.param("static_batch4.onnx", {"x": zeros(1, 3, 16, 16)}, "index: 0 Got: 1 Expected: 4", id="O05"),
        pytest.param(
            "unet_multiple_of_8.onnx", {"x": zeros(1, 3, 36, 36)}, "mismatched dimensions of 8 and 9", id="O09 36"
        ),
        pytest.param("unet_multiple_of_8.onnx", {"x": zeros(1, 3, 33, 40)}, "skip0", id="O09 33x40"),
        pytest.param("unet_multiple_of_8.onnx", {"x": zeros(1, 3, 4, 4)}, "skip2", id="O09 4"),
        pytest.param("min_resolution_33.onnx", {"x": zeros(1, 1, 32, 32)}, "Invalid input shape: {32,32}", id="O10"),
        pytest.param("same_size_different_names.onnx", {"a": zeros(2, 4), "b": zeros(4, 4)}, "2 by 4", id="O40"),
        pytest.param("text_vocab64.onnx", tokens(ids=16, mask=8), "8 by 16", id="O06 mask 8"),
        pytest.param("text_vocab64.onnx", tokens(ids=4, mask=4, highest=64), "idx=64", id="O06 id 64"),
        pytest.param("text_vocab64.onnx", tokens(ids=4, mask=4, types=2), "idx=2 must", id="O06 type 2"),
        pytest.param("lstm_state_batch_dim1.onnx", recurrent(4, 1, 8), "input: h0 for the", id="O07 [4,1,8]"),
        pytest.param("lstm_state_batch_dim1.onnx", recurrent(1, 1, 8), "LSTM node 'lstm': ", id="O07 [1,1,8]"),
        pytest.param("nhwc_dynamic.onnx", {"image": zeros(1, 3, 16, 16)}, "index: 3 Got: 16 Expected: 3", id="O08"),
        pytest.param("decoder_past_kv.onnx", decoder(past=7, mask=7), "7 by 10", id="O14 mask 7"),
    ],
)
def test_a_size_that_does_not_fit_is_a_shape_error_with_the_runtimes_words(
    case: str, feeds: dict[str, Any], said: str
) -> None:
    problem = judge_call(call_message(case, **feeds))
    assert problem.state is PointState.SHAPE_ERROR
    assert said in problem.reason
    assert "axes" in problem.remedy
    assert "/onnxruntime_src" not in problem.reason


def test_an_id_beyond_the_vocabulary_names_the_index_and_both_ways_out() -> None:
    ids, ones = np.full((1, 8), 64, np.int64), np.ones((1, 8), np.int64)
    message = call_message("text_vocab64.onnx", input_ids=ids, attention_mask=ones, token_type_ids=ones * 0)
    problem = judge_call(message)
    assert problem.state is PointState.SHAPE_ERROR
    assert "idx=64 must be within the inclusive range [-64,63]" in problem.reason
    assert "axes" in problem.remedy
    assert "inputs" in problem.remedy


def test_four_tebibytes_are_out_of_memory() -> None:
    problem = judge_call(call_message("huge_constantofshape.onnx", x=zeros(1, 4)))
    assert problem.state is PointState.OOM
    assert problem.reason == (
        "ConstantOfShape node 'bomb': Failed to allocate memory for requested buffer of size 4398046511104"
    )
    assert "smaller" in problem.remedy


@pytest.mark.parametrize(
    ("case", "feeds", "expected"),
    [
        pytest.param("fp16_conv.onnx", {"x": zeros(1, 3, 8, 8)}, "float16", id="O31"),
        pytest.param("qlinearmatmul_uint8_io.onnx", {"a": zeros(1, 16)}, "uint8", id="O34"),
        pytest.param("string_input.onnx", {"text": zeros(2)}, "string", id="O16"),
    ],
)
def test_a_wrong_type_is_the_specs_to_mend(case: str, feeds: dict[str, Any], expected: str) -> None:
    problem = judge_call(call_message(case, **feeds))
    assert problem.state is PointState.MODEL_ERROR
    assert f"expected: (tensor({expected}))" in problem.reason
    assert "inputs" in problem.remedy


def test_neither_a_nodes_name_nor_the_runtimes_own_source_decides_the_state() -> None:
    message = (
        "[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running Reshape node. "
        "Name:'out of memory by rank' Status Message: /onnxruntime_src/onnxruntime/core/framework/tensor_shape.h:91 "
        "onnxruntime::Thing(const onnxruntime::TensorShape&, bool) something else entirely\n"
    )
    assert judge_call(message).state is PointState.MODEL_ERROR


def test_of_nested_nodes_the_innermost_message_decides() -> None:
    inner = "Non-zero status code returned while running MatMul node. Name:'m' Status Message: bad shape"
    outer = f"Non-zero status code returned while running If node. Name:'i' Status Message: {inner}"
    problem = judge_call(f"[ONNXRuntimeError] : 1 : FAIL : {outer}")
    assert problem.state is PointState.SHAPE_ERROR
    assert problem.reason == "If node 'i': MatMul node 'm': bad shape"


def test_a_message_is_one_printable_line_of_bounded_length() -> None:
    text = tidy("[ONNXRuntimeError] : 1 : FAIL : \x1b[31mred\x07\n\u202eleft " + "long " * 500)
    assert text.startswith("\\x1b[31mred\\x07 \\u202eleft long")
    assert text.isprintable()
    assert len(text) == LONGEST
    assert text.endswith("…")
