"""Device memory elsewhere: parts add up, the upper bound holds on what was reported."""

import pytest

from onnxdyno.analysis.prediction import MemoryPrediction, predict_memory
from onnxdyno.domain.errors import SpecError

MB, MIB, GIB = 10**6, 2**20, 2**30


def test_the_parts_add_up_to_the_total_inside_the_interval() -> None:
    for measured in (None, 3 * GIB):
        found = predict_memory("t4", weights_bytes=GIB, activation_bytes=300 * MIB, measured_bytes=measured)
        parts = found.weights_bytes + found.activation_bytes + found.workspace_bytes
        assert parts + found.context_bytes + found.arena_slack_bytes == found.total_bytes
        assert found.low_bytes <= found.total_bytes <= found.high_bytes
        assert found.low_bytes >= GIB + 300 * MIB


def test_what_is_measured_narrows_the_interval() -> None:
    def width(found: MemoryPrediction) -> int:
        return found.high_bytes - found.low_bytes

    guessed = predict_memory("t4", weights_bytes=GIB, activation_bytes=GIB)
    measured = predict_memory("t4", weights_bytes=GIB, activation_bytes=GIB, measured_bytes=3 * GIB)
    exact = predict_memory(
        "t4", weights_bytes=GIB, activation_bytes=GIB, measured_bytes=3 * GIB, context_bytes=400 * MIB
    )
    assert width(guessed) > width(measured) > width(exact)


@pytest.mark.parametrize(
    ("here", "there"),
    [(4576, 7142), (6643, 7128), (6636, 7126), (7142, 4576), (7128, 6643)],
)
def test_a_reported_peak_on_another_gpu_is_not_underpredicted(here: int, there: int) -> None:
    """Stable diffusion on ONNX Runtime's CUDA EP, an RTX 3060 and a V100, batch 1, 4 and 8 (second run)."""
    found = predict_memory("v100-pcie-32gb", weights_bytes=2130 * MB, activation_bytes=0, measured_bytes=here * MB)
    assert found.high_bytes >= 0.95 * there * MB


@pytest.mark.parametrize(
    ("weights", "reported"), [(4137 * MB, 18081 * MB), (102 * MB, 1811 * MB), (2130 * MB, 7142 * MB)]
)
def test_a_reported_process_is_not_underpredicted_without_a_measurement(weights: int, reported: int) -> None:
    """onnxruntime #14526, #12070 (YOLOX-m on a T4), and stable diffusion on a V100."""
    found = predict_memory("t4", weights_bytes=weights, activation_bytes=0)
    assert found.high_bytes >= 0.95 * reported


def test_whether_it_fits_is_asked_of_the_upper_bound() -> None:
    assert predict_memory("t4", weights_bytes=GIB, activation_bytes=GIB).fits is True
    assert predict_memory("t4", weights_bytes=5 * GIB, activation_bytes=0).fits is False


def test_what_fits_only_into_memory_that_the_driver_keeps_does_not_fit() -> None:
    def fits(size: int) -> bool | None:
        return predict_memory(
            "t4",
            weights_bytes=size,
            activation_bytes=0,
            measured_bytes=size,
            context_bytes=0,
            arena_grows_as_requested=True,
        ).fits

    assert fits(14 * GIB) is True
    assert fits(15 * GIB) is False


@pytest.mark.parametrize(("device", "size"), [("xeon-8375c", 1), ("t5", 1), ("t4", -1)])
def test_what_has_no_device_memory_is_refused(device: str, size: int) -> None:
    with pytest.raises(SpecError):
        predict_memory(device, weights_bytes=size, activation_bytes=0)
