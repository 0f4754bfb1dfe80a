"""What a device sustains at one dtype: measured where it was, else estimated from peaks and power, and said so."""

import re
from dataclasses import dataclass
from math import hypot, log

from onnxdyno.domain.errors import SpecError
from onnxdyno.hardware.lookup import AnyDevice, Catalogue
from onnxdyno.hardware.records import Accelerator, CpuModel
from onnxdyno.hardware.sustained import Sustained

DTYPES = ("fp32", "tf32", "fp16", "bf16", "int8")

_FREE_SHARE, _FREE_SPREAD = 0.85, log(1.2)
"""Where power does not hold them back, long fp32 GEMMs reach 0.76 to 0.98 of the peak (sustained.csv)."""
_CAPPED_SPREAD = log(2.2)
"""At most, where power holds a board back by estimate: P4 and L4 reach 2.2 times what older boards let expect."""
_TENSOR_SHARE, _TENSOR_SPREAD = 0.65, log(1.6)
"""Of a dense matrix-unit peak; a prior without a measurement of ours behind it, hence the spread."""
_STREAM_SHARE, _STREAM_SPREAD = 0.81, log(1.15)
"""Long streams reach 0.74 to 0.91 of the bandwidth (sustained.csv)."""
_CPU_SHARE, _CPU_SPREAD = 0.7, log(1.6)
_CACHE_GAIN = 10.0
"""The last-level cache over memory, at most: traffic this fast was not miscounted. A CPU's caches are not modelled."""
_LANE_BYTES_PER_S = {"2": 0.5e9, "3": 0.985e9, "4": 1.969e9, "5": 3.938e9}
"""PCI Express, one lane, one direction (PCI-SIG base specifications 2.0 to 5.0)."""
_LINK_SHARE = 0.8
_GENERATIONS = ("Kepler", "Maxwell", "Pascal", "Volta", "Turing", "Ampere", "Ada Lovelace", "Hopper", "Blackwell")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """Rates per second of one device; `peak_` is the datasheet's. `units` are SMs or cores: what a wave fills.

    `compute_spread` and `memory_spread`: 90 % half-widths, in natural logarithms, of what is estimated; 0 if measured.
    """

    device_id: str
    is_gpu: bool
    flop_per_s: float
    vector_flop_per_s: float
    peak_flop_per_s: float
    bytes_per_s: float
    peak_bytes_per_s: float
    host_bytes_per_s: float
    l2_cache_bytes: float
    units: int
    compute_spread: float
    memory_spread: float

    @property
    def is_measured(self) -> bool:
        """Whether both ceilings were measured."""
        return self.compute_spread == 0 and self.memory_spread == 0

    def spread(self, compute_share: float, memory_share: float) -> float:
        """How uncertain the ceilings make a time with these shares, as a 90 % half-width of its logarithm."""
        return hypot(self.compute_spread * compute_share, self.memory_spread * memory_share)


def ceilings(device: AnyDevice, dtype: str, catalogue: Catalogue) -> Ceilings | None:
    """The ceilings of one device; None where its peak for this dtype is unknown. Raises `SpecError`: no such dtype."""
    if dtype not in DTYPES:
        raise SpecError(f"dtype {dtype!r} is not known. Give one of {', '.join(DTYPES)}.")
    if isinstance(device, CpuModel):
        return _of_cpu(device, catalogue.sustained_of(device.id)) if dtype == "fp32" else None
    return _of_gpu(device, dtype, catalogue)


def peak(accelerator: Accelerator, dtype: str) -> float | None:
    """The dense datasheet peak of a dtype, in FLOP/s."""
    return {
        "fp32": accelerator.fp32_flop_per_s,
        "tf32": accelerator.tf32_flop_per_s,
        "fp16": accelerator.fp16_flop_per_s or accelerator.fp16_nontensor_flop_per_s,
        "bf16": accelerator.bf16_flop_per_s,
        "int8": accelerator.int8_op_per_s,
    }[dtype]


def _of_gpu(accelerator: Accelerator, dtype: str, catalogue: Catalogue) -> Ceilings | None:
    highest = peak(accelerator, dtype)
    if highest is None:
        return None
    measured = catalogue.sustained_of(accelerator.id)
    vector, vector_spread = _vector_rate(accelerator, measured, catalogue)
    is_matrix = dtype != "fp32" and highest > accelerator.fp32_flop_per_s
    stream = _STREAM_SHARE * accelerator.memory_bytes_per_s if measured is None else measured.memory_bytes_per_s
    return Ceilings(
        device_id=accelerator.id,
        is_gpu=True,
        flop_per_s=_TENSOR_SHARE * highest if is_matrix else vector,
        vector_flop_per_s=vector,
        peak_flop_per_s=highest,
        bytes_per_s=stream,
        peak_bytes_per_s=accelerator.memory_bytes_per_s,
        host_bytes_per_s=_link_bytes_per_s(accelerator.pcie),
        l2_cache_bytes=float(accelerator.l2_cache_bytes or 0),
        units=accelerator.sm_count or 1,
        compute_spread=_TENSOR_SPREAD if is_matrix else vector_spread,
        memory_spread=_STREAM_SPREAD if measured is None else 0.0,
    )


def _vector_rate(accelerator: Accelerator, measured: Sustained | None, catalogue: Catalogue) -> tuple[float, float]:
    """Sustained fp32 and its spread. An unmeasured board is held to what its power allows in its generation."""
    if measured is not None:
        return measured.fp32_flop_per_s, 0.0
    free = _FREE_SHARE * accelerator.fp32_flop_per_s
    per_watt = _flop_per_joule(_generation(accelerator), catalogue)
    if accelerator.tdp_w is None or per_watt is None or per_watt * accelerator.tdp_w >= free:
        return free, _FREE_SPREAD
    capped = per_watt * accelerator.tdp_w
    return capped, min(_FREE_SPREAD + log(free / capped), _CAPPED_SPREAD)


def _flop_per_joule(generation: int, catalogue: Catalogue) -> float | None:
    """The best sustained fp32 per watt of board power measured up to this generation: a later one is not worse."""
    reached = [
        measured.fp32_flop_per_s / each.tdp_w
        for measured in catalogue.sustained
        for each in catalogue.accelerators
        if each.id == measured.accelerator_id and each.tdp_w is not None and _generation(each) <= generation
    ]
    return max(reached, default=None)


def _generation(accelerator: Accelerator) -> int:
    name = accelerator.architecture
    return _GENERATIONS.index(name) if name in _GENERATIONS else len(_GENERATIONS)


def _of_cpu(cpu: CpuModel, measured: Sustained | None) -> Ceilings | None:
    if cpu.fp32_flop_per_s is None:
        return None
    rate = _CPU_SHARE * cpu.fp32_flop_per_s if measured is None else measured.fp32_flop_per_s
    stream = _CPU_SHARE * cpu.memory_bytes_per_s if measured is None else measured.memory_bytes_per_s
    spread = _CPU_SPREAD if measured is None else 0.0
    return Ceilings(
        device_id=cpu.id,
        is_gpu=False,
        flop_per_s=rate,
        vector_flop_per_s=rate,
        peak_flop_per_s=cpu.fp32_flop_per_s,
        bytes_per_s=stream,
        peak_bytes_per_s=_CACHE_GAIN * cpu.memory_bytes_per_s,
        host_bytes_per_s=stream,
        l2_cache_bytes=0.0,
        units=cpu.cores,
        compute_spread=spread,
        memory_spread=spread,
    )


def _link_bytes_per_s(pcie: str) -> float:
    found = re.fullmatch(r"PCIe ([2-5])\.0(?: x(\d+))?", pcie)
    lanes = int(found[2] or 16) if found is not None else 16
    return _LINK_SHARE * lanes * _LANE_BYTES_PER_S[found[1] if found is not None else "5"]
