"""What a reading costs, beside spatialhub's `benchmark_callable`: `python -m benchmarks.overhead [--quick]`.

On a no-op, in nanoseconds over a bare pair of clock calls in the same process: inside the reading (part of every
published latency; aim at most 40) and around it, from one reading to the next (part of none, but throughput sees it; at
most 300). Ours: the loop that times models, and `benchmark`, the face for people's own code, which uses it. `whole` is
the time of a call of the face or of `benchmark_callable` that is in no reading, by the number of readings: memory,
warm-up, statistics. Theirs runs in `.bench-venv`, in turn with ours; medians. About two minutes.
"""

import argparse
import sys
import time
from collections import defaultdict
from statistics import median

from benchmarks.coverage import said
from benchmarks.loop_cost import LOOPS, bare_loop, timed_loop
from benchmarks.others import spatialhub_call
from onnxdyno import benchmark

INSIDE_AIM, AROUND_AIM = 40.0, 300.0
TURNS, ROUNDS = 9, 5
FACE_S = 1.0
LIMIT_S = 300.0


def nothing() -> None:
    return None


def ours(found: dict[str, list[float]]) -> None:
    """One round of the loop and of the face, each after a bare loop."""
    bare_reading, bare_wall = bare_loop(LOOPS)
    reading, wall = timed_loop(nothing, LOOPS)
    found["loop inside"].append(reading - bare_reading)
    found["loop around"].append((wall - reading) - (bare_wall - bare_reading))


def face(found: dict[str, list[float]]) -> None:
    """One benchmark of a no-op through the face. Around: by its own throughput, which is of back-to-back wall time."""
    bare_reading, bare_wall = bare_loop(LOOPS)
    began_ns = time.perf_counter_ns()
    result = benchmark.using(budget_s=FACE_S)(nothing)
    wall_ns = time.perf_counter_ns() - began_ns
    p50_ns, per_s = result.p50_ns.value, result.throughput_items_per_s.value
    if p50_ns is None or per_s is None:
        sys.exit(f"the face measured nothing: {result.reason}")
    found["face inside"].append(p50_ns - bare_reading)
    found["face around"].append((1e9 / per_s - p50_ns) - (bare_wall - bare_reading))
    found["face whole"].append((wall_ns - sum(result.samples_ns)) / len(result.samples_ns))


def main() -> None:
    """Ours and theirs in turn, then the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.overhead", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one turn")
    turns = 1 if parser.parse_args().quick else TURNS
    found: dict[str, list[float]] = defaultdict(list)
    for _ in range(turns):
        for _ in range(ROUNDS):
            ours(found)
        face(found)
        for name, values in spatialhub_call(LOOPS, ROUNDS, limit_s=LIMIT_S).document.items():
            found[f"spatialhub {name}"] += values
    print(f"{'ns over a bare pair of clock calls':36s}{'inside':>9s}{'around':>9s}{'whole':>9s}")
    names = {"loop": "onnxdyno, the timed loop", "face": "onnxdyno.benchmark", "spatialhub": "benchmark_callable"}
    for name, shown in names.items():
        cells = [found[f"{name} {what}"] for what in ("inside", "around", "whole")]
        print(f"{shown:36s}" + "".join(f"{median(each):9.1f}" if each else f"{'—':>9s}" for each in cells))
    print()
    for name in ("loop", "face"):
        inside, around = median(found[f"{name} inside"]), median(found[f"{name} around"])
        print(f"{names[name]}: {inside:.0f} ns inside, aim ≤ {INSIDE_AIM:g}: {said(is_met=inside <= INSIDE_AIM)}")
        print(f"{names[name]}: {around:.0f} ns around, aim ≤ {AROUND_AIM:g}: {said(is_met=around <= AROUND_AIM)}")


if __name__ == "__main__":
    main()
