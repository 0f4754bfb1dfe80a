"""The stand-in for NVIDIA's library: what the measuring process asks it, each call refused alone, and strangers."""

import os
from pathlib import Path
from typing import Any

import pytest

from standins import A100, H100, NO_PERMISSION, NOT_SUPPORTED, SLICES, Standin, build

LOST = 15
MEMORY_CALLS = "nvmlDeviceGetMemoryInfo_v2+nvmlDeviceGetMemoryInfo"
FIELDS = {
    "nvmlDeviceGetTotalEnergyConsumption": {"energy_mj"},
    "nvmlDeviceGetCurrentClocksEventReasons": {"clock_events"},
    "nvmlDeviceGetClockInfo": {"sm_clock_mhz", "memory_clock_mhz"},
    "nvmlDeviceGetPowerUsage": {"power_mw"},
    "nvmlDeviceGetTemperature": {"temperature_c"},
    "nvmlDeviceGetUtilizationRates": {"utilisation"},
    "nvmlDeviceGetComputeRunningProcesses_v3": {"tenants"},
    MEMORY_CALLS: {"memory_used_bytes"},
    "nvmlDeviceGetMemoryInfo_v2": set(),
    "nvmlDeviceGetMemoryInfo": set(),
}
"""What a call that fails alone takes away; one version of the memory call stands in for the other."""


@pytest.fixture
def standin(tmp_path: Path) -> Standin:
    return build(tmp_path)


def test_each_call_that_fails_alone_takes_its_own_fields_and_no_other(standin: Standin) -> None:
    asked = {f"{call}={code}": call for call in FIELDS for code in (NOT_SUPPORTED, NO_PERMISSION, LOST)}
    found = standin.play("each_refused", os.environ, A100, *asked)
    assert set(found["readings"]) == set(asked)
    for name, call in asked.items():
        reading = found["readings"][name]
        unread = dict(reading["reasons"])
        assert set(unread) == FIELDS[call], name
        assert all(why.startswith("NVML: ") for why in unread.values())
        told = {field for field, value in reading.items() if value is not None}
        assert told >= {field for fields in FIELDS.values() for field in fields} - set(unread), name
        assert not told & set(unread), name
        assert reading["is_lost"] == (name.endswith(f"={LOST}") and bool(unread)), name


@pytest.mark.parametrize("device", [A100, SLICES[0]])
def test_the_measuring_process_reads_the_sm_clock_of_its_gpu(standin: Standin, device: str) -> None:
    first, second = standin.play("asked", os.environ, device, "0 sm 705")
    assert first["clock"] == [1.41e9, None]
    assert second["clock"] == [7.05e8, None]


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION, LOST])
def test_a_clock_that_is_refused_is_null_with_the_reason(standin: Standin, code: int) -> None:
    first, second = standin.play("asked", os.environ, A100, f"0 nvmlDeviceGetClockInfo {code}")
    assert first["clock"][0] == 1.41e9
    assert second["clock"][0] is None
    assert second["clock"][1].startswith("NVML: ")


def test_the_driver_counts_memory_of_the_process_itself_where_its_id_is_listed(standin: Standin) -> None:
    first, second = standin.play("asked", os.environ, A100, "0 tenant 1", "0 tenant OURS")
    assert first["process"] == [None, "NVML lists no process on the device"]
    assert second["process"] == [512 * 2**20, None]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("0 tenant 1", "not of this process table"),
        (f"0 nvmlDeviceGetComputeRunningProcesses_v3 {NO_PERMISSION}", "NVML: "),
        ("0 nvmlDeviceGetHandleByUUID 6", "NVML: "),
    ],
)
def test_memory_of_the_process_that_the_driver_does_not_tell_is_null_with_the_reason(
    standin: Standin, script: str, reason: str
) -> None:
    _, second = standin.play("asked", os.environ, A100, script)
    value, why = second["process"]
    assert value is None
    assert reason in why


def reading(standin: Standin, kind: str, *script: str, end: str = "leaves", device: str = A100) -> Any:
    return standin.play("watched_reading", os.environ, device, kind, end, *script)


@pytest.mark.parametrize("script", [(), ("0 tenant OURS",), ("0 tenant 1",)])
def test_memory_that_is_read_alone_stays_also_where_the_only_id_is_the_hosts(
    standin: Standin, script: tuple[str, ...]
) -> None:
    assert reading(standin, "memory", *script)["peak_bytes"] == 50_000_000


@pytest.mark.parametrize("script", [("0 tenant OURS", "0 tenant 1"), ("0 tenant 1", "0 tenant 2")])
def test_a_second_process_takes_memory_and_profile_and_is_named(standin: Standin, script: tuple[str, ...]) -> None:
    memory = reading(standin, "memory", *script)
    assert memory["peak_bytes"] is None
    assert memory["reason"].startswith("foreign_tenant: ")
    profile = reading(standin, "profile", *script)
    assert (profile["is_complete"], profile["nodes"]) == (False, [])
    assert profile["reason"].startswith("foreign_tenant: ")


def test_memory_that_stays_in_use_after_the_process_takes_the_reading_where_no_process_is_told(
    standin: Standin,
) -> None:
    script = (f"0 used {2**30}", f"0 nvmlDeviceGetComputeRunningProcesses_v3 {NO_PERMISSION}")
    memory = reading(standin, "memory", *script, end="stays")
    assert memory["peak_bytes"] is None
    assert "1,024 MiB" in memory["reason"]


def test_a_profile_on_a_throttled_gpu_says_so(standin: Standin) -> None:
    profile = reading(standin, "profile", "0 events 0x40")
    assert profile["nodes"]
    assert "hw_thermal_slowdown" in profile["reason"]


def test_what_happens_on_the_other_gpu_is_nobodys_concern(standin: Standin) -> None:
    assert reading(standin, "memory", "0 tenant 1", "0 tenant 2", end="stays", device=H100)["peak_bytes"] == 50_000_000
