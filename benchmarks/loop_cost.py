"""What measuring costs: `python benchmarks/loop_cost.py`. Each number against a reference in the same process, in turn.

1. The timed loop on a no-op against a bare loop of two clock calls: nanoseconds inside a reading (part of every
   published latency) and around it (part of none, but throughput sees them). Aims: at most 40 inside, 300 around.
2. p50 of SqueezeNet by the timed loop against a loop as one writes it by hand, on one session. Aim: 0.98–1.02.
"""

import time
from array import array
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx
import onnxruntime

from onnxdyno import app
from onnxdyno.adapters.ort import OrtCall
from onnxdyno.measuring.windows import sample_window

LOOPS = 20_000
ROUNDS = 31
RUNS = 40


def bare_loop(count: int) -> tuple[float, float]:
    """(median reading, wall time per turn) of two clock calls with nothing between them, in nanoseconds."""
    clock = time.perf_counter_ns
    readings = array("q", bytes(8 * count))
    opened = clock()
    for slot in range(count):
        began = clock()
        readings[slot] = clock() - began
    return median(readings), (clock() - opened) / count


def timed_loop(call: Callable[[], Any], count: int) -> tuple[float, float]:
    """The same two numbers of the timed loop of onnxdyno."""
    readings = array("q", bytes(8 * count))
    _, wall = sample_window(cycle([call]), clock=time.perf_counter_ns, samples_ns=readings, start=0, size=count)
    return median(readings), wall / count


def plain_loop(call: Callable[[], Any], count: int) -> float:
    """Median of a loop as one writes it by hand, in nanoseconds."""
    taken = []
    for _ in range(count):
        began = time.perf_counter_ns()
        call()
        taken.append(time.perf_counter_ns() - began)
    return median(taken)


def loop_cost() -> None:
    def nothing() -> None:
        return None

    inside, around = [], []
    for _ in range(ROUNDS):
        bare_reading, bare_wall = bare_loop(LOOPS)
        reading, wall = timed_loop(nothing, LOOPS)
        inside.append(reading - bare_reading)
        around.append((wall - reading) - (bare_wall - bare_reading))
    print(f"timed loop on a no-op   inside a reading  {median(inside):6.1f} ns   aim <= 40")
    print(f"                        around a reading  {median(around):6.1f} ns   aim <= 300")


def squeezenet_ratio() -> None:
    path = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_squeezenet.onnx"
    session = onnxruntime.InferenceSession(
        str(path), _options(app.device().threads), providers=["CPUExecutionProvider"]
    )
    (given,) = session.get_inputs()
    feeds = {given.name: np.random.default_rng(0).standard_normal(given.shape, dtype=np.float32)}
    ours = OrtCall.host(session, feeds).raw
    names = [each.name for each in session.get_outputs()]

    def theirs() -> Any:
        return session.run(names, feeds)

    for _ in range(RUNS):
        ours(), theirs()
    ratios = []
    for turn in range(ROUNDS):
        if turn % 2:
            mine, plain = timed_loop(ours, RUNS)[0], plain_loop(theirs, RUNS)
        else:
            plain, mine = plain_loop(theirs, RUNS), timed_loop(ours, RUNS)[0]
        ratios.append(mine / plain)
    ordered = sorted(ratios)
    print(
        f"SqueezeNet p50, timed loop / plain loop   {median(ratios):.3f}   "
        f"(middle half of {ROUNDS} turns: {ordered[ROUNDS // 4]:.3f}–{ordered[-ROUNDS // 4]:.3f})   aim 0.98–1.02"
    )


def _options(threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return options


if __name__ == "__main__":
    loop_cost()
    squeezenet_ratio()
