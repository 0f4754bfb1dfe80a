"""The catalogue, read once, and exact look-up: a wrong match would put one device's peaks under another's name."""

import re
from functools import cache
from importlib.resources import files

from onnxdyno.domain.errors import CatalogueError
from onnxdyno.hardware.records import Accelerator, Capability, CpuModel, Instance
from onnxdyno.hardware.rows import GB, GIB, Row, rows

MARKETS = ("datacenter", "workstation", "desktop", "laptop", "edge")
_CONFIDENCES = ("high", "medium", "low")
_TERA, _GIGA, _MEGA = 1e12, 1e9, 1e6

_CUBINS: frozenset[Capability] = frozenset({(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (12, 0)})
LEAST_VISIBLE_SHARE, _MOST_VISIBLE_SHARE = 0.9, 1.02
"""NVML's total memory over the nominal: what a driver leaves of it (see `find_accelerator`)."""
_CPU_NOISE = re.compile(
    r"\((?:r|tm|c)\)|@.*$|\(.*?\)$|\b\d{1,2}th gen\b|\b\d+-core\b|\b(?:cpu|processor)\b|[®™]", re.IGNORECASE
)


def is_supported(accelerator: Accelerator) -> bool:
    """Whether the runtime that we ship (onnxruntime-gpu 1.31.1, CUDA 13.0) has machine code for this device.

    Read out of the fat binary of its `libonnxruntime_providers_cuda.so`: code for 7.5, 8.0, 8.6, 8.9, 9.0 and 12.0, no
    PTX to compile at load. Code for X.Y runs on X.Z with Z >= Y (CUDA C++ Programming Guide, binary compatibility). So
    Maxwell, Pascal and Volta are out, as CUDA 13.0 dropped them (its release notes, deprecated architectures), and
    so are 10.x and 11.0, although microsoft/onnxruntime#26516 lists 10.0 for an earlier build.
    """
    major, minor = accelerator.compute_capability
    return any(major == built and minor >= least for built, least in _CUBINS)


@cache
def accelerators() -> tuple[Accelerator, ...]:
    """Every GPU of the catalogue, in the order of the file. Raises `CatalogueError`."""
    return read_accelerators("accelerators.csv", _text("accelerators.csv"))


@cache
def cpus() -> tuple[CpuModel, ...]:
    """Every CPU of the catalogue. Raises `CatalogueError`."""
    return tuple(_cpu(row) for row in rows("cpus.csv", _text("cpus.csv")))


@cache
def instances() -> tuple[Instance, ...]:
    """Every cloud instance type. Raises `CatalogueError`, also where it names an accelerator that is not there."""
    known = {each.id for each in accelerators()}
    found = []
    for row in rows("instances.csv", _text("instances.csv")):
        instance = _instance(row)
        if instance.accelerator_id not in known:
            raise row.wrong("accelerator_id", "the id of an accelerator")
        found.append(instance)
    return tuple(found)


def find_accelerator(nvml_name: str, memory_bytes: int | None) -> Accelerator | None:
    """The one GPU with exactly this NVML name and this total memory; None when unknown or not decidable.

    NVML's total is what the driver leaves of the nominal memory: 0.92 of it on a T4 with ECC, 0.94 on an L4, up to 1.
    So 90–102 % of nominal is a match; the next smaller card of a shared name has 83 % (RTX 3080, 10 of 12 GB).
    """
    if memory_bytes is None:
        return None
    matching = [
        each
        for each in accelerators()
        if each.nvml_name == nvml_name
        and LEAST_VISIBLE_SHARE <= memory_bytes / each.memory_bytes <= _MOST_VISIBLE_SHARE
    ]
    return matching[0] if len(matching) == 1 else None


def find_cpu(name: str) -> CpuModel | None:
    """The CPU whose name is the same but for trademark signs, clock, generation and core count in the text."""
    wanted = plain_cpu_name(name)
    matching = [each for each in cpus() if plain_cpu_name(each.name) == wanted]
    return matching[0] if len(matching) == 1 else None


def read_accelerators(file: str, text: str) -> tuple[Accelerator, ...]:
    """The records of one CSV text; `file` is for messages. Raises `CatalogueError`, also for an id given twice."""
    found: dict[str, Accelerator] = {}
    for row in rows(file, text):
        accelerator = accelerator_of(row)
        if accelerator.id in found:
            raise row.wrong("id", "an id that is not used yet")
        found[accelerator.id] = accelerator
    return tuple(found.values())


def _text(file: str) -> str:
    try:
        return (files("onnxdyno.hardware") / "data" / file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CatalogueError(f"{file}: expected a readable data file, found {error}. Reinstall onnxdyno.") from error


def plain_cpu_name(name: str) -> str:
    """A CPU's name without trademark signs, clock, generation, core count and what stands in brackets at its end."""
    return " ".join(_CPU_NOISE.sub(" ", name.strip()).casefold().split())


def accelerator_of(row: Row) -> Accelerator:
    """One GPU of a row with the columns of accelerators.csv. Raises `CatalogueError`."""
    l2_cache = row.maybe_number("l2_cache_mib", 4096, 2**20)
    return Accelerator(
        id=row.text("id"),
        name=row.text("name"),
        market=row.one_of("market", *MARKETS),
        architecture=row.text("architecture"),
        compute_capability=row.capability("compute_capability"),
        release_year=row.whole("release_year", 2100),
        memory_bytes=round(row.number("memory_gib", 4096, GIB)),
        memory_type=row.text("memory_type"),
        memory_bytes_per_s=row.number("memory_bandwidth_gb_s", 100_000, GB),
        l2_cache_bytes=None if l2_cache is None else round(l2_cache),
        fp32_flop_per_s=row.number("fp32_tflops", 10_000, _TERA),
        tf32_flop_per_s=row.maybe_number("tf32_tensor_tflops_dense", 100_000, _TERA),
        fp16_flop_per_s=row.maybe_number("fp16_tensor_tflops_dense", 100_000, _TERA),
        bf16_flop_per_s=row.maybe_number("bf16_tensor_tflops_dense", 100_000, _TERA),
        int8_op_per_s=row.maybe_number("int8_tops_dense", 100_000, _TERA),
        fp8_flop_per_s=row.maybe_number("fp8_tflops_dense", 100_000, _TERA),
        fp16_nontensor_flop_per_s=row.maybe_number("fp16_nontensor_tflops", 10_000, _TERA),
        tdp_w=row.maybe_number("tdp_w", 10_000),
        pcie=row.text("pcie_gen_lanes"),
        sm_count=row.maybe_whole("sm_count", 1024),
        boost_clock_hz=row.number("boost_clock_mhz", 10_000, _MEGA),
        nvml_name=row.maybe_text("nvml_device_name"),
        launch_price_usd=row.maybe_number("launch_price_usd", 1_000_000),
        launch_price_confidence=row.maybe_text("launch_price_confidence"),
        source=row.text("source"),
        confidence=row.one_of("confidence", *_CONFIDENCES),
        notes=row.maybe_text("notes"),
    )


def _cpu(row: Row) -> CpuModel:
    return CpuModel(
        id=row.text("id"),
        name=row.text("name"),
        market=row.one_of("market", "cloud", *MARKETS),
        microarchitecture=row.text("microarchitecture"),
        cores=row.whole("cores", 1024),
        base_clock_hz=row.number("base_ghz", 10, _GIGA),
        boost_clock_hz=row.number("boost_ghz", 10, _GIGA),
        all_core_clock_hz=row.maybe_number("all_core_ghz", 10, _GIGA),
        has_avx2=row.is_yes("avx2"),
        has_avx512=row.is_yes("avx512"),
        has_amx=row.is_yes("amx"),
        simd=row.text("simd"),
        fp32_flop_per_cycle_per_core=row.maybe_number("fp32_flop_per_cycle_per_core", 1024),
        fp32_flop_per_s=row.maybe_number("peak_fp32_gflops", 1_000_000, _GIGA),
        memory=row.text("memory"),
        memory_bytes_per_s=row.number("memory_bandwidth_gb_s", 100_000, GB),
        tdp_w=row.maybe_number("tdp_w", 10_000),
        source=row.text("source"),
        confidence=row.one_of("confidence", *_CONFIDENCES),
        notes=row.maybe_text("notes"),
    )


def _instance(row: Row) -> Instance:
    price_usd = row.maybe_number("on_demand_usd_per_hour", 10_000)
    dated = row.maybe_text("price_region_and_date")
    if price_usd is not None and dated is None:
        raise row.wrong("price_region_and_date", "the region and date of the price")
    return Instance(
        cloud=row.one_of("cloud", "aws", "azure", "gcp"),
        name=row.text("instance"),
        accelerator_id=row.text("accelerator_id"),
        accelerator_counts=row.counts("accelerator_count"),
        vcpus=row.maybe_whole("vcpus", 4096),
        memory_bytes=row.maybe_size_bytes("memory"),
        on_demand_usd_per_hour=price_usd,
        price_region_and_date=dated,
        source=row.text("source"),
        confidence=row.one_of("confidence", *_CONFIDENCES),
        notes=row.maybe_text("notes"),
    )
