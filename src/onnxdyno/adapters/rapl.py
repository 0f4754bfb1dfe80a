"""The door to the energy counters of this machine's CPU packages (RAPL): by powercap files, else by perf events."""

import ctypes
import os
import platform
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from onnxdyno.ports import EnergyMeter

_POWERCAP = Path("/sys/class/powercap")
_PERF = Path("/sys/bus/event_source/devices/power")
_SYSCALL = {"x86_64": 298}
"""perf_event_open; RAPL is a matter of x86."""
_UJ_PER_J = 1e6

OpenEvent = Callable[[int, int, int], int]
"""(PMU type, config, cpu) -> file descriptor. Raises `OSError`."""


def package_energy(powercap: Path = _POWERCAP, perf: Path = _PERF) -> EnergyMeter:
    """All packages of the machine together, in microjoules since the meter was made; or why they cannot be read.

    Everything that runs on the packages is in it, not only this process.
    """
    files, why = _powercap(powercap)
    if files is not None:
        return EnergyMeter(read_uj=files)
    events, why_not_perf = _perf(perf, open_event)
    return EnergyMeter(read_uj=events, reason=None if events is not None else f"{why}; {why_not_perf}")


@dataclass(slots=True, kw_only=True)
class Zone:
    """One package: a counter that starts again from 0 after `range_uj`."""

    path: Path
    range_uj: int
    last_uj: int
    total_uj: int = 0

    def read_uj(self) -> int:
        """Energy since the first reading; at most one turn of the counter (a quarter of an hour or more) may pass."""
        now_uj = int(self.path.read_text())
        used_uj = now_uj - self.last_uj
        self.total_uj += used_uj if used_uj >= 0 else used_uj + self.range_uj
        self.last_uj = now_uj
        return self.total_uj


def _powercap(root: Path) -> tuple[Callable[[], int | None] | None, str]:
    """Zones of packages only: what lies within them is in their count, and a platform's (psys) may hold them."""
    zones = [folder for folder in sorted(root.glob("intel-rapl:*")) if _text(folder / "name").startswith("package")]
    if not zones:
        return None, f"no package counter under {root}"
    try:
        counters = tuple(
            Zone(
                path=folder / "energy_uj",
                range_uj=int((folder / "max_energy_range_uj").read_text()),
                last_uj=int((folder / "energy_uj").read_text()),
            )
            for folder in zones
        )
    except (OSError, ValueError) as error:
        return None, f"{zones[0]}/energy_uj cannot be read: {getattr(error, 'strerror', None) or error}"
    return _sum_of([counter.read_uj for counter in counters]), ""


def _perf(root: Path, opened: OpenEvent) -> tuple[Callable[[], int | None] | None, str]:
    event = re.fullmatch(r"event=(0x[0-9a-f]+)", _text(root / "events/energy-pkg"))
    if event is None:
        return None, f"no event energy-pkg under {root}"
    try:
        joules = float(_text(root / "events/energy-pkg.scale"))
        kind = int(_text(root / "type"))
        cpus = [int(part.partition("-")[0]) for part in _text(root / "cpumask").split(",")]
        descriptors = [opened(kind, int(event[1], 16), cpu) for cpu in cpus]
    except (OSError, ValueError) as error:
        return None, f"the perf event energy-pkg cannot be opened: {getattr(error, 'strerror', None) or error}"

    def reader(descriptor: int) -> Callable[[], int]:
        return lambda: round(struct.unpack("Q", os.read(descriptor, 8))[0] * joules * _UJ_PER_J)

    return _sum_of([reader(descriptor) for descriptor in descriptors]), ""


def open_event(kind: int, config: int, cpu: int) -> int:
    """A counter of everything on one package, for as long as this process lives. Raises `OSError`."""
    number = _SYSCALL.get(platform.machine())
    if number is None:
        raise OSError(f"not on {platform.machine()}")
    attributes = struct.pack("IIQQQQQ16x", kind, 64, config, 0, 0, 0, 0)  # the first version of perf_event_attr
    descriptor = int(ctypes.CDLL(None, use_errno=True).syscall(number, attributes, -1, cpu, -1, 0))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return descriptor


def _sum_of(reads: Sequence[Callable[[], int]]) -> Callable[[], int | None]:
    def read() -> int | None:
        try:
            return sum(each() for each in reads)
        except (OSError, ValueError, struct.error):
            return None

    return read


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
