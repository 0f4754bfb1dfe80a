"""What a reading of spatialhub's `benchmark_callable` costs: `spatialhub_call.py CALLS ROUNDS`, in `.bench-venv`.

On a no-op, against two bare clock calls in the same process, in turn; nanoseconds, a value a round, as one JSON object.
`inside`: its median minus that of the bare pair. `around`: from one call to the next minus the reading between, minus
the same of the bare loop; the callable notes when it was called, inside the reading, where it does not count. `whole`:
all of the function's time that is in no reading, for each call: its lists, its statistics.
"""

import json
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from statistics import median

from spatialhub.utils.profiling import benchmark_callable

WARM_UPS = 10


def main() -> None:
    calls, rounds = int(sys.argv[1]), int(sys.argv[2])
    found: dict[str, list[float]] = {"inside": [], "around": [], "whole": []}
    for _ in range(rounds):
        bare_reading, bare_wall = _bare(calls)
        reading, whole = _benchmark(_nothing, calls)
        found["inside"].append(reading - bare_reading)
        found["whole"].append(whole)
        marks: list[int] = []
        clock, note = time.perf_counter_ns, marks.append
        reading, _ = _benchmark(lambda note=note, clock=clock: note(clock()), calls)
        period = median(after - before for before, after in pairwise(marks[WARM_UPS:]))
        found["around"].append((period - reading) - (bare_wall - bare_reading))
    print(json.dumps(found))


def _benchmark(call: Callable[..., None], calls: int) -> tuple[float, float]:
    """(median reading, time in no reading for each call), in nanoseconds."""
    began_s = time.perf_counter()
    found = benchmark_callable(call, num_warmup=WARM_UPS, num_iters=calls, track_vram=False)
    wall_s = time.perf_counter() - began_s
    return float(found.median_ms) * 1e6, (wall_s * 1e9 - float(found.mean_ms) * 1e6 * calls) / calls


def _bare(calls: int) -> tuple[float, float]:
    """(median reading, time for each turn) of a pair of the clock that it uses."""
    clock = time.perf_counter
    readings = [0.0] * calls
    opened = clock()
    for slot in range(calls):
        began = clock()
        readings[slot] = clock() - began
    return median(readings) * 1e9, (clock() - opened) / calls * 1e9


def _nothing() -> None:
    return None


if __name__ == "__main__":
    main()
