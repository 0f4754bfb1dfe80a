"""The loop that people write by hand: `plain_loop.py MODEL THREADS DTYPE SIZE…`. 10 warm-ups, then 100 timed runs.

For a model with one input of this shape. Prints one JSON object: `p50_ms`.
"""

import json
import sys
import time
from statistics import median

import numpy as np
import onnxruntime

WARM_UPS, RUNS = 10, 100


def main() -> None:
    model, threads, dtype, shape = sys.argv[1], int(sys.argv[2]), sys.argv[3], tuple(map(int, sys.argv[4:]))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    rng = np.random.default_rng()
    value = rng.integers(0, 256, shape) if np.issubdtype(np.dtype(dtype), np.integer) else rng.standard_normal(shape)
    feeds = {given.name: value.astype(dtype)}
    for _ in range(WARM_UPS):
        session.run(None, feeds)
    taken_s = []
    for _ in range(RUNS):
        began_s = time.perf_counter()
        session.run(None, feeds)
        taken_s.append(time.perf_counter() - began_s)
    print(json.dumps({"p50_ms": median(taken_s) * 1e3}))


if __name__ == "__main__":
    main()
