"""The command line on a machine whose driver library is the stand-in: two GPUs, the second cut into two instances."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from commands import CASES, Ran, run_onnxdyno
from standins import A100, H100, NO_PERMISSION, NOT_SUPPORTED, SLICES, UNINITIALIZED, Standin, build


@pytest.fixture
def standin(tmp_path: Path) -> Standin:
    folder = tmp_path / "driver"
    folder.mkdir()
    return build(folder)


def run(standin: Standin, environment: Mapping[str, str], tmp_path: Path, *arguments: str) -> Ran:
    return run_onnxdyno(arguments, tmp_path, standin.environment(environment))


def facts(device: dict[str, Any]) -> dict[str, Any]:
    return {fact["name"]: fact["value"] for fact in device["fingerprint"]}


def test_both_gpus_and_the_instances_are_listed_by_uuid(
    standin: Standin, environment: Mapping[str, str], tmp_path: Path
) -> None:
    shown = run(standin, environment, tmp_path, "devices")
    assert shown.code == 0
    for uuid in (A100, H100, *SLICES):
        assert uuid in shown.out, "cut off, an id is of no use"
    found = {
        device["id"]: device for device in run(standin, environment, tmp_path, "devices", "--json").document["devices"]
    }
    assert list(found) == ["cpu", A100, H100, *SLICES]
    first = found[A100]
    assert (first["name"], first["memory_bytes"], first["compute_capability"]) == ("Stand-in A100", 40 * 2**30, "8.0")
    told = facts(first)
    assert told["driver"] == "999.10"
    assert told["vbios"] == "92.00.00.00.01"
    assert (told["power_limit_mw"], told["power_limit_default_mw"]) == ("300000", "400000")
    assert (told["mig"], facts(found[H100])["mig"]) == ("0", "1")
    for device in found.values():
        for fact in device["fingerprint"]:
            assert (fact["value"] is None) == bool(fact["reason"]), fact


def test_an_instance_has_its_own_memory_and_class_and_says_what_it_is_cut_from(
    standin: Standin, environment: Mapping[str, str], tmp_path: Path
) -> None:
    document = run(standin, environment, tmp_path, "devices", "--json").document
    found = {device["id"]: device for device in document["devices"]}
    small, large = (found[each] for each in SLICES)
    assert (small["memory_bytes"], large["memory_bytes"]) == (10 * 2**30, 20 * 2**30)
    assert len({found[each]["device_class"] for each in (H100, *SLICES)}) == 3
    told = facts(large)
    assert (told["mig_parent"], told["mig_profile"], told["mig_multiprocessors"]) == (H100, "2g.20gb", "32")
    assert told["vbios"] == facts(found[H100])["vbios"]


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION, UNINITIALIZED, 15])
def test_a_driver_that_tells_nothing_leaves_nulls_with_reasons(
    standin: Standin, environment: Mapping[str, str], tmp_path: Path, code: int
) -> None:
    functions = (
        "nvmlSystemGetDriverVersion nvmlSystemGetCudaDriverVersion_v2 nvmlDeviceGetName nvmlDeviceGetVbiosVersion "
        "nvmlDeviceGetCudaComputeCapability nvmlDeviceGetMemoryInfo nvmlDeviceGetEccMode nvmlDeviceGetMigMode "
        "nvmlDeviceGetEnforcedPowerLimit nvmlDeviceGetPowerManagementDefaultLimit nvmlDeviceGetMaxClockInfo "
        "nvmlDeviceGetMaxPcieLinkGeneration nvmlDeviceGetMaxPcieLinkWidth nvmlDeviceGetPersistenceMode "
        "nvmlDeviceGetComputeMode nvmlDeviceGetPciInfo_v3"
    ).split()
    standin.says(*(f"0 {function} {code}" for function in functions))
    document = run(standin, environment, tmp_path, "devices", "--json").document
    found = {device["id"]: device for device in document["devices"]}
    assert list(found) == ["cpu", A100, H100], "MIG mode cannot be read"
    assert found[A100]["memory_bytes"] is None
    for fact in found[A100]["fingerprint"]:
        if fact["name"] in {"driver", "vbios", "ecc", "mig", "power_limit_mw", "pcie_lanes", "compute_capability"}:
            assert fact["value"] is None
            assert fact["reason"].startswith("NVML: "), fact


def test_a_gpu_that_is_lost_is_still_listed_by_its_uuid(
    standin: Standin, environment: Mapping[str, str], tmp_path: Path
) -> None:
    standin.says("0 lost 1")
    document = run(standin, environment, tmp_path, "devices", "--json").document
    lost = next(device for device in document["devices"] if device["id"] == A100)
    assert {fact["reason"] for fact in lost["fingerprint"] if fact["name"] in {"vbios", "ecc"}} == {"NVML: GPU is lost"}


def test_a_driver_that_cannot_start_is_a_machine_without_gpus(
    standin: Standin, environment: Mapping[str, str], tmp_path: Path
) -> None:
    standin.says("0 nvmlInitWithFlags 9")
    document = run(standin, environment, tmp_path, "devices", "--json").document
    assert [device["id"] for device in document["devices"]] == ["cpu"]
    refused = run(standin, environment, tmp_path, "bench", str(CASES / "static_batch1.onnx"), "--device", "cuda:0")
    assert refused.code == 5
    assert len(refused.err.splitlines()) == 1


def test_a_gpu_that_is_cut_into_instances_is_refused_as_a_whole(
    standin: Standin, environment: Mapping[str, str], tmp_path: Path
) -> None:
    refused = run(standin, environment, tmp_path, "bench", str(CASES / "static_batch1.onnx"), "--device", H100)
    assert refused.code == 5
    assert SLICES[0] in refused.err
    assert len(refused.err.splitlines()) == 1


def test_a_gpu_that_somebody_else_computes_on_gives_no_number(
    standin: Standin, environment: Mapping[str, str], tmp_path: Path
) -> None:
    standin.says("0 tenant 1")
    ran = run(standin, environment, tmp_path, "bench", str(CASES / "nhwc_dynamic.onnx"), "--device", "cuda:0", "--json")
    assert ran.code == 6
    points = ran.document["points"]
    assert len(points) > 1
    for point in points:
        assert point["state"] == "foreign_tenant"
        assert "process 1 " in point["reason"]
        assert "nvidia-smi" in point["remedy"]
        assert point["p50_ms"] is None
        assert point["energy_per_item_mj"] is None


def test_memory_in_use_on_a_gpu_is_somebody_elses_where_no_process_is_told(
    standin: Standin, environment: Mapping[str, str], tmp_path: Path
) -> None:
    standin.says(f"0 used {2**30}", f"0 nvmlDeviceGetComputeRunningProcesses_v3 {NO_PERMISSION}")
    ran = run(standin, environment, tmp_path, "bench", str(CASES / "nhwc_dynamic.onnx"), "--device", "cuda:0", "--json")
    assert ran.code == 6
    assert {point["state"] for point in ran.document["points"]} == {"foreign_tenant"}
    assert "1,024 MiB" in ran.document["points"][0]["reason"]
