"""Played by a test in a process that finds the stand-in: one reading of a GPU for each call that is refused alone.

Arguments: device, `functions=code` (functions joined by `+`). Prints for each the reading and what it could not read.
"""

import json
import os
import sys
from dataclasses import asdict
from typing import Any

from onnxdyno.adapters import host
from onnxdyno.adapters.nvml import GpuProbe, GpuSampler
from standin.watched_reading import says


def main() -> None:
    devices = GpuProbe("1.31.1", cores=(0,), threads=1, slug=host.slug).devices()
    device = next(each for each in devices if each.id == sys.argv[1])
    found: dict[str, Any] = {}
    for asked in sys.argv[2:]:
        functions, _, code = asked.partition("=")
        says("0 tenant OURS", *(f"0 {function} {code}" for function in functions.split("+")))
        recording = GpuSampler(host.is_descendant).record(device)
        sample = recording.wait_past(-1, 10.0)
        recording.stop()
        found[asked] = None if sample is None else asdict(sample)
    says()
    sys.stdout.write(json.dumps({"pid": os.getpid(), "readings": found}))


if __name__ == "__main__":
    main()
