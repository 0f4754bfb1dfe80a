"""The real sampler on the stand-in for NVIDIA's library, over a launch whose calls take real time."""

import os
from pathlib import Path
from typing import Any

import pytest

from standins import A100, NO_PERMISSION, NOT_SUPPORTED, SLICES, UNINITIALIZED, Standin, build


@pytest.fixture
def standin(tmp_path: Path) -> Standin:
    return build(tmp_path)


def points(standin: Standin, device_id: str, *script: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The point before the script holds, and the one after."""
    found = standin.watch(device_id, os.environ, *script)
    assert found["lost"] is None
    first, second = found["points"]
    assert first["state"] == "ok"
    return first, second


def test_a_quiet_device_is_read_all_the_time_and_its_energy_is_power_times_time(standin: Standin) -> None:
    for point in points(standin, A100):
        assert (point["state"], point["excluded"], point["flags"]) == ("ok", [], [])
        assert point["readings"] >= 4
        energy_mj, runs, reason = point["energy"]
        assert reason is None
        assert runs == 600
        assert energy_mj == pytest.approx(200 * point["steady_ns"] / 1e6, rel=0.02), "200 W by the stand-in"
        assert point["last"]["sm_clock_mhz"] == 1410
        assert point["last"]["reasons"] == []


@pytest.mark.parametrize(
    ("bits", "name"), [(0x8, "hw_slowdown"), (0x20, "sw_thermal"), (0x40, "hw_thermal"), (0x80, "brake")]
)
def test_a_device_that_throttles_takes_the_numbers_of_that_point_only(standin: Standin, bits: int, name: str) -> None:
    _, second = points(standin, A100, f"0 events {bits:#x}")
    assert second["state"] == "throttled"
    assert name in second["reason"]


def test_a_power_cap_is_a_flag(standin: Standin) -> None:
    first, second = points(standin, A100, "0 events 0x4")
    assert (second["state"], second["flags"]) == ("ok", ["power_capped"])
    assert first["flags"] == []


def test_a_process_that_comes_in_is_seen_where_ours_is(standin: Standin) -> None:
    _, second = points(standin, A100, "0 tenant OURS", "0 tenant 1")
    assert second["state"] == "foreign_tenant"
    assert "process 1 " in second["reason"]


def test_process_ids_of_another_table_are_nobodys(standin: Standin) -> None:
    _, second = points(standin, A100, "0 tenant 1")
    assert second["state"] == "ok"


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION, UNINITIALIZED])
def test_what_a_driver_refuses_is_null_with_its_reason_and_the_times_stay(standin: Standin, code: int) -> None:
    refused = (
        "nvmlDeviceGetTotalEnergyConsumption nvmlDeviceGetCurrentClocksEventReasons nvmlDeviceGetClockInfo "
        "nvmlDeviceGetPowerUsage nvmlDeviceGetTemperature nvmlDeviceGetUtilizationRates nvmlDeviceGetMemoryInfo_v2 "
        "nvmlDeviceGetMemoryInfo nvmlDeviceGetComputeRunningProcesses_v3"
    ).split()
    _, second = points(standin, A100, *(f"0 {function} {code}" for function in refused))
    assert second["state"] == "ok"
    energy_mj, _, reason = second["energy"]
    assert energy_mj is None
    assert reason
    last = second["last"]
    unread = dict(last["reasons"])
    assert len(unread) == 9
    assert all(last[name] is None and why.startswith("NVML: ") for name, why in unread.items())


def test_a_gpu_that_falls_off_its_bus_ends_the_launch_in_one_line(standin: Standin) -> None:
    found = standin.watch(A100, os.environ, "0 lost 1")
    assert [point["state"] for point in found["points"]] == ["ok"]
    assert "GPU is lost" in found["lost"]
    assert "\n" not in found["lost"]


def test_a_driver_that_hangs_holds_up_neither_the_launch_nor_its_end(standin: Standin) -> None:
    _, second = points(standin, A100, "0 hang 1")
    assert second["state"] == "ok"
    assert second["energy"][0] is None
    assert second["energy"][2]


def test_an_instance_has_no_energy_of_its_own_and_says_so(standin: Standin) -> None:
    _, second = points(standin, SLICES[0])
    assert second["state"] == "ok"
    assert second["energy"][0] is None
    assert "instance" in second["energy"][2]
    assert second["last"]["sm_clock_mhz"] == 1410
    assert second["last"]["memory_used_bytes"] == 4 * 2**20
    assert {name for name, _ in second["last"]["reasons"]} == {"energy_mj", "utilisation"}
