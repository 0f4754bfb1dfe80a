"""How reading grows with a model: `python benchmarks/reading_speed.py`. Time per node must not grow with the nodes.

Each size is read in a process of its own (a chain of Add, Relu, Shape, Reshape: what exporters make), as `onnxdyno
inspect` reads it: load (parse, hash) and signature (parse, walk). Memory is the peak beyond the parsed protobuf.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from onnxdyno.graphs.reading import load, open_model
from onnxdyno.graphs.signature import read_signature

SIZES = (12_500, 25_000, 50_000, 100_000)
GROWTH_AIM = 1.5
"""Time per node of the largest over that of the smallest: 1 is linear."""
SECONDS_AIM, MEGABYTES_AIM = 5.0, 500.0


def write(path: Path, count: int) -> None:
    """A chain of `count` nodes."""
    nodes, at = [], "x"
    for i in range(count // 4):
        for op, inputs, output in (
            ("Add", [at, "w"], f"a{i}"),
            ("Relu", [f"a{i}"], f"r{i}"),
            ("Shape", [f"r{i}"], f"s{i}"),
            ("Reshape", [f"r{i}", f"s{i}"], f"y{i}"),
        ):
            nodes.append(helper.make_node(op, inputs, [output], name=f"/layer.{i}/{op}"))
        at = f"y{i}"
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 4]) for name in ("x", at))
    weight = numpy_helper.from_array(np.ones(4, dtype=np.float32), "w")
    model = helper.make_model(helper.make_graph(nodes, "chain", [x], [y], [weight]))
    path.write_bytes(model.SerializeToString())


def measure(path: Path) -> dict[str, float]:
    """Seconds to read, and peak megabytes beyond the protobuf, in this process."""
    model = open_model(path)
    with_protobuf = peak_kib()
    del model
    began = time.perf_counter()
    load(path)
    read_signature(path)
    took = time.perf_counter() - began
    return {"seconds": took, "megabytes": (peak_kib() - with_protobuf) * 1024 / 1e6}


def peak_kib() -> int:
    """Peak resident set of this process (getrusage would start from the parent's, which wrote the models)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0])


def main() -> int:
    """Read every size; 0 if the growth and the largest size meet their aims."""
    if len(sys.argv) == 2:
        print(json.dumps(measure(Path(sys.argv[1]))))
        return 0
    per_node_us, last = [], {"seconds": 0.0, "megabytes": 0.0}
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            path = Path(folder) / f"{size}.onnx"
            write(path, size)
            ended = subprocess.run([sys.executable, __file__, str(path)], capture_output=True, text=True, check=True)
            last = json.loads(ended.stdout)
            per_node_us.append(1e6 * last["seconds"] / size)
            print(f"{size:>8,} nodes  {last['seconds']:6.2f} s  {per_node_us[-1]:5.1f} us/node  "
                  f"{last['megabytes']:6.0f} MB beyond the protobuf", flush=True)  # fmt: skip
    growth = per_node_us[-1] / per_node_us[0]
    print(f"time per node grows by {growth:.2f} (aim: at most {GROWTH_AIM}; 1 is linear)")
    print(f"{SIZES[-1]:,} nodes: aim {SECONDS_AIM:g} s and {MEGABYTES_AIM:g} MB")
    return int(growth > GROWTH_AIM or last["seconds"] > SECONDS_AIM or last["megabytes"] > MEGABYTES_AIM)


if __name__ == "__main__":
    sys.exit(main())
