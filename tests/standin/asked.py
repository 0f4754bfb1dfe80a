"""Played by a test in a process that finds the stand-in: what the measuring process asks the driver, twice.

Arguments: device, then the script that holds from the second time on. Prints clock and own memory, each with its
reason.
"""

import json
import sys
from typing import Any

from onnxdyno.adapters import host
from onnxdyno.adapters.nvml import GpuProbe
from onnxdyno.domain.assignments import Assignment, Pass
from onnxdyno.domain.plan import Protocol
from onnxdyno.ports import DeviceClock
from onnxdyno.worker import device_clock, own_device_bytes
from standin.watched_reading import says


def asked(assignment: Assignment, clock: DeviceClock) -> dict[str, Any]:
    read_hz = clock.read_hz()
    own = own_device_bytes(assignment)
    return {"clock": (read_hz, clock.reason), "process": (own.value, own.reason)}


def main() -> None:
    devices = GpuProbe("1.31.1", cores=(0,), threads=1, slug=host.slug).devices()
    device = next(each for each in devices if each.id == sys.argv[1])
    assignment = Assignment(
        kind=Pass.TIMING,
        launch=1,
        launches=1,
        model_path="model.onnx",
        device=device,
        threads=1,
        recipes=(),
        turns=(),
        seed=0,
        protocol=Protocol(),
    )
    clock = device_clock(assignment)
    assert clock is not None
    found = [asked(assignment, clock)]
    says(*sys.argv[2:])
    found.append(asked(assignment, clock))
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
