"""The door to what this process has loaded while it runs other people's code: drivers of accelerators."""

import re
from pathlib import Path

_PROC = Path("/proc")
_DRIVERS = re.compile(r"/(lib(?:cuda|amdhip64|hsa-runtime64|ze_loader|tpu|nrt))\.so")


def accelerator_drivers(proc: Path = _PROC) -> tuple[str, ...] | None:
    """Drivers of accelerators that this process has loaded; without one its work is the CPU's. None = not readable."""
    try:
        maps = (proc / "self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return tuple(sorted(set(_DRIVERS.findall(maps))))
