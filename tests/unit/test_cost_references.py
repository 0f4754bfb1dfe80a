"""Costs of real networks against what others published, and against ONNX Runtime's own profile."""

from pathlib import Path

import pytest

from benchmarks.cost_check import PUBLISHED, Published, counted, first_sizes, path_of, runtime_reading
from benchmarks.cost_differences import DIFFERENCES, rows, table
from onnxdyno.domain.axes import axis_sizes
from onnxdyno.domain.cost import NodeCost
from onnxdyno.graphs.cost import cost_at
from onnxdyno.graphs.reading import open_model
from onnxdyno.graphs.signature import read_signature

CASES = Path(__file__).parent.parent / "cases"


def shufflenet_macs() -> int:
    """Products of the file's variant, by hand: units of two grouped 1 × 1 and one depthwise 3 × 3 convolution."""

    def unit(channels_in: int, channels: int, size_in: int, size: int) -> int:
        first = channels * channels_in // 4 * size_in**2
        return first + channels * 9 * size**2 + channels * channels // 4 * size**2

    head = 24 * 3 * 9 * 112**2 + unit(24, 112, 56, 28) + 3 * unit(136, 136, 28, 28)
    middle = unit(136, 136, 28, 14) + 7 * unit(272, 272, 14, 14)
    return head + middle + unit(272, 272, 14, 7) + 3 * unit(544, 544, 7, 7) + 544 * 1000


CORRECTED = {
    # the first convolution has 118 M MACs, not the 34 M that table 1 of the paper gives
    "light_inception_v1.onnx": 1.502e9 - 34e6 + 64 * 3 * 49 * 112**2,
}
PRODUCTS = {"light_shufflenet.onnx": shufflenet_macs(), "nudenet-320n.onnx": 1.0e9}
"""Where the ops between the products alone make more than 2 %: what the products must come to."""


def here(file: str) -> Path:
    path = path_of(file)
    if path is None:
        pytest.skip(f"{file} is not on this machine: `make demo` fetches it")
    return path


@pytest.mark.parametrize("published", PUBLISHED, ids=lambda each: each.file)
def test_macs_agree_with_what_was_published_within_two_percent_or_as_explained(published: Published) -> None:
    cost = counted(published, here(published.file))
    assert cost.flops.value is not None, cost.flops.reason
    if published.file in PRODUCTS:
        products = sum(each.flops or 0 for each in cost.nodes if each.op_type in ("Conv", "Gemm", "MatMul"))
        assert products / 2 == pytest.approx(PRODUCTS[published.file], rel=0.02)
        assert published.explained
    else:
        expected = CORRECTED.get(published.file, published.macs)
        assert cost.flops.value / 2 == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("file", DIFFERENCES)
def test_a_difference_is_taken_apart_in_groups_that_add_up_to_it(file: str) -> None:
    published = next(each for each in PUBLISHED if each.file == file)
    cost = counted(published, here(file))
    found = rows(DIFFERENCES[file], cost)
    assert sum(row.ours for row in found) == pytest.approx((cost.flops.value or 0) / 2e6)
    assert sum(row.published for row in found) == pytest.approx(published.macs / 1e6)
    assert all(row.ours for row in found[: len(DIFFERENCES[file].groups)])
    assert table(found).count("\n") == len(found) + 2


@pytest.mark.parametrize("published", [each for each in PUBLISHED if each.parameters], ids=lambda each: each.file)
def test_parameters_equal_what_was_published_but_for_stored_statistics(published: Published) -> None:
    assert counted(published, here(published.file)).parameters - published.beside == published.parameters


def test_what_resnet_stores_beside_its_parameters_are_running_statistics_and_one_scalar() -> None:
    model = open_model(here("light_resnet50.onnx"))
    cost = counted(PUBLISHED[0], here("light_resnet50.onnx"))
    channels = [
        each.output_shapes[0][1]
        for each in cost.nodes
        if each.op_type == "BatchNormalization" and each.output_shapes[0]
    ]
    assert len(channels) == 53
    assert 2 * sum(size or 0 for size in channels) + 1 == PUBLISHED[0].beside
    read = {name for node in model.graph.node for name in node.input}
    assert sum(1 for tensor in model.graph.initializer if tensor.name not in read) >= 1


@pytest.mark.parametrize(
    "file",
    ["light_squeezenet.onnx", "light_densenet121.onnx", "light_inception_v2.onnx", "light_shufflenet.onnx",
     "light_resnet50.onnx", "nudenet-320n.onnx", "minilm-int8.onnx", "silero-vad.onnx"],
)  # fmt: skip
def test_output_bytes_and_liveness_equal_what_the_runtime_says(file: str) -> None:
    """At ORT_ENABLE_BASIC, on the very graph that ran, memory pattern and the planner's reuse of dead buffers off."""
    path = here(file)
    signature = read_signature(path)
    sizes = first_sizes(signature)
    reading = runtime_reading(path, signature, sizes, reuses=False)
    cost = cost_at(reading.optimized, signature, sizes)
    by_name = {each.name: each.output_bytes for each in cost.nodes}
    assert len(reading.output_bytes) > 40
    assert {name: by_name.get(name) for name in reading.output_bytes} == reading.output_bytes
    assert cost.activation_peak_bytes.value == reading.peak_bytes
    assert cost.activation_peak_bytes.value == pytest.approx(reading.spread_bytes, rel=0.05)


@pytest.mark.parametrize(
    ("file", "sizes"),
    [
        ("unet_multiple_of_8.onnx", {"N": 2, "H": 32, "W": 40}),
        ("fp16_conv.onnx", {"N": 2, "H": 16, "W": 24}),
        ("lstm_state_batch_dim1.onnx", {"N": 3, "T": 9}),
        ("decoder_past_kv.onnx", {"batch_size": 2, "past_sequence_length": 5, "sequence_length": 3}),
        ("audio_scalar_sr_if.onnx", {"batch": 4, "samples": 512}),
        ("text_vocab64.onnx", {"batch": 2, "sequence": 16}),
        ("qdq_conv.onnx", {"N": 2}),
        ("nhwc_dynamic.onnx", {"batch": 2, "height": 20, "width": 24}),
        ("zero_dim_and_rank0.onnx", {"N": 2}),
        ("same_names_in_branches.onnx", {"N": 5}),
    ],
)
def test_output_bytes_of_the_cases_equal_what_the_runtime_says(file: str, sizes: dict[str, int]) -> None:
    path = CASES / file
    signature = read_signature(path)
    known = {axis.name for axis in signature.axes if axis.size is None}
    reading = runtime_reading(path, signature, axis_sizes(sizes), reuses=False)
    assert known <= sizes.keys()
    cost = cost_at(reading.optimized, signature, axis_sizes(sizes))
    ran: dict[str, list[NodeCost]] = {}
    for each in cost.nodes:
        if each.runs:
            ran.setdefault(each.name, []).append(each)
    matched = [name for name in reading.output_bytes if len(ran.get(name, [])) == 1]
    assert matched
    assert {name: ran[name][0].output_bytes for name in matched} == {n: reading.output_bytes[n] for n in matched}


def test_the_planner_of_the_runtime_reuses_dead_buffers_and_that_explains_the_gap_of_densenet() -> None:
    path = here("light_densenet121.onnx")
    signature = read_signature(path)
    plain = runtime_reading(path, signature, (), reuses=False)
    reusing = runtime_reading(path, signature, (), reuses=True)
    assert reusing.spread_bytes > 1.15 * plain.spread_bytes
