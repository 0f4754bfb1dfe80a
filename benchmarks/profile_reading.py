"""A profile of a million events, read within 0.1 × the time of `json.load` and 150 MB?

`python benchmarks/profile_reading.py`. The file is a real profile of SqueezeNet, its runs repeated until the runtime's
own cap of 1,000,000 events. Each reading is a fresh process, in turns, median of three. Exit 1 if a bound is broken.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

EVENTS = 1_000_000
RUNS = 30
TURNS = 3
MOST_TIME_RATIO = 0.1
MOST_BYTES = 150_000_000


def write_profile(folder: Path, events: int) -> Path:
    """A file of so many events, in the runtime's own form: lines of a real profile, its runs over and over."""
    lines = [line.rstrip(b",") for line in _real_profile(folder).read_bytes().splitlines()[1:-1]]
    first = next(at for at, line in enumerate(lines) if b'"cat" : "Node"' in line)
    path = folder / "long.json"
    with path.open("wb") as file:
        file.write(b"[\n" + b",\n".join(lines[:first]))
        left = events - first
        while left > 0:
            part = lines[first : first + left]
            file.write(b",\n" + b",\n".join(part))
            left -= len(part)
        file.write(b"\n]\n")
    return path


def _real_profile(folder: Path) -> Path:
    import numpy as np
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "real")
    model = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_squeezenet.onnx"
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    feeds = {"data_0": np.ones((1, 3, 224, 224), dtype=np.float32)}
    for _ in range(RUNS):
        session.run(None, feeds)
    return Path(session.end_profiling())


def read_alone(how: str, path: Path) -> tuple[float, int]:
    """(seconds, bytes over the baseline) of one reading in this process."""
    if how == "ours":
        from onnxdyno.domain.plan import Point, Variant
        from onnxdyno.measuring.profiling import summarise

        point = Point(sizes=(), variant=Variant.E2E)
    before_bytes = _peak_bytes()
    began = time.perf_counter()
    if how == "ours":
        profile = summarise(path, point, keep_runs=EVENTS)
        is_read = profile.is_complete and bool(profile.nodes)
    else:
        with path.open() as file:
            is_read = len(json.load(file)) == EVENTS
    took_s = time.perf_counter() - began
    if not is_read:
        raise SystemExit(f"{how}: not all of the file was read")
    return took_s, _peak_bytes() - before_bytes


def _peak_bytes() -> int:
    """Peak resident set of this process; `getrusage` would start from that of the parent."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def _read_fresh(how: str, path: Path) -> tuple[float, int]:
    command = [sys.executable, str(Path(__file__).resolve()), how, str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ)
    seconds, peak_bytes = done.stdout.split()
    return float(seconds), int(peak_bytes)


def main() -> int:
    """Write the file, read it in turns, print a small table."""
    with tempfile.TemporaryDirectory() as name:
        path = write_profile(Path(name), EVENTS)
        print(f"{EVENTS:,} events, {path.stat().st_size / 1e6:.0f} MB")
        readings: dict[str, list[tuple[float, int]]] = {"json.load": [], "ours": []}
        for _ in range(TURNS):
            for how, taken in readings.items():
                taken.append(_read_fresh(how, path))
    seconds = {how: median(took for took, _ in taken) for how, taken in readings.items()}
    peaks = {how: max(peak for _, peak in taken) for how, taken in readings.items()}
    print(f"{'':12}{'seconds':>10}{'ratio':>8}{'peak MB':>10}")
    for how in readings:
        ratio = seconds[how] / seconds["json.load"]
        print(f"{how:12}{seconds[how]:10.2f}{ratio:8.3f}{peaks[how] / 1e6:10.0f}")
    is_fine = seconds["ours"] <= MOST_TIME_RATIO * seconds["json.load"] and peaks["ours"] <= MOST_BYTES
    print(f"bounds {MOST_TIME_RATIO} and {MOST_BYTES / 1e6:.0f} MB: {'held' if is_fine else 'BROKEN'}")
    return 0 if is_fine else 1


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(*read_alone(sys.argv[1], Path(sys.argv[2])))
    else:
        raise SystemExit(main())
