"""Played by a test in a process that finds the stand-in: what the measuring process asks the driver, twice.

Arguments: device, then the script that holds from the second time on. Prints clock and own memory, each with its
reason.
"""

import json
import os
import sys
from typing import Any

from onnxdyno.adapters import host
from onnxdyno.adapters.nvml import GpuProbe, SmClock, process_bytes
from onnxdyno.domain.devices import Device
from standin.watched_reading import says


def asked(device: Device, clock: SmClock) -> dict[str, Any]:
    read_hz = clock.read_hz()
    return {"clock": (read_hz, clock.reason), "process": process_bytes(device.id, os.getpid())}


def main() -> None:
    devices = GpuProbe("1.31.1", cores=(0,), threads=1, slug=host.slug).devices()
    device = next(each for each in devices if each.id == sys.argv[1])
    clock = SmClock(device)
    found = [asked(device, clock)]
    says(*sys.argv[2:])
    found.append(asked(device, clock))
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
