"""Where a call ran: the values' own word, and the CPU only where it must have been the CPU."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from onnxdyno.adapters.own_process import accelerator_drivers
from onnxdyno.face.places import devices_of, place_of


class OnDevice:
    """An array in DLPack's terms."""

    def __init__(self, kind: int, index: int = 0) -> None:
        self._where = (kind, index)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._where


class Named:
    """As ONNX Runtime's OrtValue of old."""

    def device_name(self) -> str:
        return "CUDA"


class Broken:
    """Foreign code raises whatever it likes."""

    def __dlpack_device__(self) -> tuple[int, int]:
        raise BufferError("not now")

    @property
    def device_name(self) -> str:
        raise RuntimeError("never")


def where(output: Any, drivers: tuple[str, ...] | None = ()) -> tuple[str, bool]:
    place = place_of(output, drivers=drivers, cpu_name="Test CPU")
    assert (place.name == "unknown") == (place.reason is not None)
    return place.name, place.is_cuda


def test_values_say_where_they_lie() -> None:
    on_host = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(2, np.float32))
    assert list(devices_of([np.zeros(1), on_host, OnDevice(2, 1), Named(), "text", None, Broken()])) == [
        "cpu",
        "cpu",
        "cuda:1",
        "cuda",
    ]


@pytest.mark.parametrize("output", [OnDevice(2), (OnDevice(2), np.zeros(1)), {"a": [OnDevice(2)]}])
def test_a_value_on_a_gpu_names_it(output: Any) -> None:
    assert where(output, drivers=("libcuda",)) == ("cuda:0", True)


def test_several_gpus_are_all_named() -> None:
    assert where([OnDevice(2, 1), OnDevice(2, 0)]) == ("cuda:0 + cuda:1", True)


def test_another_accelerator_is_no_cuda_device_and_no_cpu() -> None:
    assert where(OnDevice(10)) == ("DLPack device type 10:0", False)


@pytest.mark.parametrize("output", [None, 3.0, np.zeros(3)])
def test_the_cpu_is_named_where_no_accelerator_can_have_worked(output: Any) -> None:
    assert where(output) == ("Test CPU", False)


@pytest.mark.parametrize("output", [None, 3.0, np.zeros(3)])
@pytest.mark.parametrize("drivers", [("libcuda",), None])
def test_a_result_copied_to_the_host_is_not_called_the_cpus(output: Any, drivers: tuple[str, ...] | None) -> None:
    assert where(output, drivers) == ("unknown", False)


def test_a_deep_or_wide_or_circular_output_is_no_trap() -> None:
    circular: list[Any] = []
    circular.append(circular)
    assert list(devices_of(circular)) == []
    assert len(list(devices_of([np.zeros(1)] * 100_000))) < 100


def test_loaded_drivers_are_found_in_the_process_map(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    maps = tmp_path / "self/maps"
    maps.write_text("7f0 r-xp 0 0:0 1 /usr/lib/libc.so.6\n7f1 r-xp 0 0:0 1 /opt/libcudart.so.13\n")
    assert accelerator_drivers(tmp_path) == ()
    maps.write_text(maps.read_text() + "7f2 r-xp 0 0:0 1 /usr/lib/libcuda.so.1\n7f3 r--p 0 0:0 1 /x/libcuda.so.580.1\n")
    assert accelerator_drivers(tmp_path) == ("libcuda",)
    assert accelerator_drivers(tmp_path / "none") is None
