"""haoline's batch sweep as a process: `haoline_sweep.py MODEL THREADS [BATCH,BATCH…]`, in `.bench-venv`.

haoline gives its session no options, so that it would take every core. Here it gets the number of threads that ours
has: the session class that it finds adds this option and the CPU provider, all else is haoline's own. Prints
one JSON object: `seconds` of the function alone, `batches`, `latencies_ms`, `throughputs`, `best_batch`.
"""

import json
import sys
import time
from functools import partial

import onnxruntime
from haoline.operational_profiling import OperationalProfiler


def main() -> None:
    model, threads = sys.argv[1], int(sys.argv[2])
    batches = [int(each) for each in sys.argv[3].split(",")] if len(sys.argv) > 3 else None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    made = partial(_session, onnxruntime.InferenceSession, options)
    onnxruntime.InferenceSession = made
    profiler = OperationalProfiler()
    began_s = time.perf_counter()
    found = profiler.run_batch_sweep_benchmark(model, batches)
    seconds = time.perf_counter() - began_s
    if found is None:
        sys.exit("haoline could not load the model")
    print(
        json.dumps(
            {
                "seconds": seconds,
                "batches": found.batch_sizes,
                "latencies_ms": found.latencies,
                "throughputs": found.throughputs,
                "best_batch": found.optimal_batch_size,
            }
        )
    )


def _session(
    kind: type[onnxruntime.InferenceSession],
    options: onnxruntime.SessionOptions,
    path: str,
    *,
    providers: list[str],  # noqa: ARG001  it asks for CUDA too
) -> onnxruntime.InferenceSession:
    return kind(path, options, providers=["CPUExecutionProvider"])


if __name__ == "__main__":
    main()
