"""What a device says of itself while it is measured: read by the parent, on the clock of the measuring process."""

from dataclasses import dataclass
from enum import IntFlag


class ClockEvent(IntFlag):
    """Why a GPU's clocks are not higher: the bits of nvml.h (nvmlClocksEventReasons, driver 535 and later)."""

    GPU_IDLE = 0x1
    APPLICATIONS_CLOCKS = 0x2
    SW_POWER_CAP = 0x4
    HW_SLOWDOWN = 0x8
    SYNC_BOOST = 0x10
    SW_THERMAL_SLOWDOWN = 0x20
    HW_THERMAL_SLOWDOWN = 0x40
    HW_POWER_BRAKE = 0x80
    DISPLAY_CLOCKS = 0x100
    BOARD_LIMIT = 0x200
    RELIABILITY = 0x400


INVALIDATING = (
    ClockEvent.HW_SLOWDOWN | ClockEvent.SW_THERMAL_SLOWDOWN | ClockEvent.HW_THERMAL_SLOWDOWN | ClockEvent.HW_POWER_BRAKE
)
"""Bits that make samples worthless (protocol, telemetry); SW_POWER_CAP is the normal state of a card under load."""


def event_names(bits: int) -> tuple[str, ...]:
    """Names of the bits, lowest first: `hw_slowdown`; a bit that nvml.h did not have yet as `bit 0x800`."""
    found = []
    for at in range(bits.bit_length()):
        bit = bits & (1 << at)
        if bit:
            known = bit in ClockEvent.__members__.values()
            found.append(str(ClockEvent(bit).name).lower() if known else f"bit {bit:#x}")
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A process that computes on a device. `is_ours`: the reader or a descendant of it, as seen at the reading."""

    pid: int
    used_bytes: int | None
    is_ours: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySample:
    """One reading of a device. `t_ns` is on CLOCK_MONOTONIC, when the reading began; what is None is in `reasons`."""

    t_ns: int
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    power_mw: int | None = None
    temperature_c: int | None = None
    utilisation: float | None = None
    """Share of the device's last sampling period in which a kernel ran, 0 to 1."""
    memory_used_bytes: int | None = None
    clock_events: int | None = None
    """Bits of `ClockEvent`, unknown ones included."""
    energy_mj: int | None = None
    """Of the whole device since its driver was loaded."""
    tenants: tuple[Tenant, ...] | None = None
    reasons: tuple[tuple[str, str], ...] = ()
    """(field, why it is None)."""
    is_lost: bool = False
    """The device has fallen off its bus, or answers to nothing any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Energy:
    """Energy of the steady calls of one launch of a point that count; idle power is not subtracted.

    `energy_mj` None has a reason. `source`: `nvml` (the GPU's own counter) or `rapl` (the CPU's packages, whoever uses
    them).
    """

    energy_mj: float | None
    runs: int
    source: str | None = None
    reason: str | None = None
