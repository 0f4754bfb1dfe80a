"""What the driver of a real GPU tells while nothing of ours runs on it."""

import ctypes
from itertools import pairwise

import pytest

from onnxdyno.adapters import host
from onnxdyno.adapters.nvml import GpuProbe, GpuSampler
from onnxdyno.domain.telemetry import TelemetrySample


def missing_driver() -> str | None:
    """Why there is no GPU here, or None."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        return f"no NVIDIA driver: {error}"
    return None


pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(missing_driver() is not None, reason=missing_driver() or ""),
]


@pytest.fixture(scope="module")
def samples() -> tuple[TelemetrySample, ...]:
    """A few readings in a row of the first GPU."""
    gpu = GpuProbe("1.31.1", cores=(0,), threads=1, slug=host.slug).devices()[0]
    recording = GpuSampler(host.is_descendant).record(gpu)
    try:
        last_ns = -1
        for _ in range(8):
            sample = recording.wait_past(last_ns, 10)
            assert sample is not None
            last_ns = sample.t_ns
        return recording.samples()
    finally:
        recording.stop()


def test_every_reading_has_a_value_or_a_reason(samples: tuple[TelemetrySample, ...]) -> None:
    for sample in samples:
        unread = dict(sample.reasons)
        for name in ("sm_clock_mhz", "power_mw", "clock_events", "energy_mj", "tenants", "memory_used_bytes"):
            assert (getattr(sample, name) is None) == (name in unread), name
        assert not sample.is_lost


def test_readings_are_in_order_of_their_times(samples: tuple[TelemetrySample, ...]) -> None:
    assert all(before.t_ns < after.t_ns for before, after in pairwise(samples))


def test_energy_grows(samples: tuple[TelemetrySample, ...]) -> None:
    energies = [sample.energy_mj for sample in samples if sample.energy_mj is not None]
    assert energies == sorted(energies)
    if energies:
        assert energies[-1] > energies[0]
