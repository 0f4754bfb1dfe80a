"""One record of the catalogue. None = unknown in our sources, never 0. GB = 10^9 bytes, GiB = 2^30 bytes."""

from dataclasses import dataclass

Capability = tuple[int, int]
"""CUDA compute capability, (major, minor)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One GPU of the catalogue; peaks are dense (no sparsity) and theoretical, memory is nominal.

    `nvml_name` is what NVML reports; None where NVML does not run. Several cards may share it.
    """

    id: str
    name: str
    market: str
    architecture: str
    compute_capability: Capability
    release_year: int
    memory_bytes: int
    memory_type: str
    memory_bytes_per_s: float
    l2_cache_bytes: int | None
    fp32_flop_per_s: float
    tf32_flop_per_s: float | None
    fp16_flop_per_s: float | None
    bf16_flop_per_s: float | None
    int8_op_per_s: float | None
    fp8_flop_per_s: float | None
    fp16_nontensor_flop_per_s: float | None
    tdp_w: float | None
    pcie: str
    sm_count: int | None
    boost_clock_hz: float
    nvml_name: str | None
    launch_price_usd: float | None
    launch_price_confidence: str | None
    source: str
    confidence: str
    notes: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuModel:
    """One CPU of the catalogue, per socket. `cores` are physical; a vCPU is usually half of one."""

    id: str
    name: str
    market: str
    microarchitecture: str
    cores: int
    base_clock_hz: float
    boost_clock_hz: float
    all_core_clock_hz: float | None
    has_avx2: bool
    has_avx512: bool
    has_amx: bool
    simd: str
    fp32_flop_per_cycle_per_core: float | None
    fp32_flop_per_s: float | None
    memory: str
    memory_bytes_per_s: float
    tdp_w: float | None
    source: str
    confidence: str
    notes: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One cloud instance type. `accelerator_counts` has several entries where the count is chosen, < 1 for a share.

    A price is never given without `price_region_and_date`.
    """

    cloud: str
    name: str
    accelerator_id: str
    accelerator_counts: tuple[float, ...]
    vcpus: int | None
    memory_bytes: int | None
    on_demand_usd_per_hour: float | None
    price_region_and_date: str | None
    source: str
    confidence: str
    notes: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a device costs, by a person's own file; never without its currency (ISO 4217) and date (ISO 8601)."""

    device_id: str
    amount: float
    currency: str
    date: str
