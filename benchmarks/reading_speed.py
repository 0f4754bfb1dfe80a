"""How inspecting grows with a model: `python benchmarks/reading_speed.py`. Time per node must not grow with the nodes.

Each model is inspected in a process of its own, as `onnxdyno inspect` does it: load (parse, hash), signature, plan,
cost at the first point. Graphs are chains of Add, Relu, Shape, Reshape (what exporters make); one more small graph has
2 GB of external data (a sparse file; it is read once, for its hash). Time is processor time, user and system, which a
busy machine hardly stretches; memory is the peak beyond that of the parsed protobuf.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from onnxdyno.app import inspection
from onnxdyno.graphs.reading import open_model

SIZES = (10_000, 100_000, 1_000_000)
AIMED_AT = 100_000
GROWTH_AIM = 1.5
"""Time per node of the largest over that of the smallest: 1 is linear."""
SECONDS_AIM, MEGABYTES_AIM = 5.0, 500.0
EXTERNAL_BYTES = 2 * 10**9


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


def write_external(path: Path) -> None:
    """One product with a weight of 2 GB in a sparse file beside it."""
    columns = EXTERNAL_BYTES // 4 // 1_000
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1_000, columns])
    weight.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "w.bin", "length": str(EXTERNAL_BYTES)}.items():
        weight.external_data.add(key=key, value=value)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", size]) for name, size in
            (("x", 1_000), ("y", columns)))  # fmt: skip
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "wide", [x], [y], [weight])
    path.write_bytes(helper.make_model(graph).SerializeToString())
    with path.with_name("w.bin").open("wb") as file:
        file.truncate(EXTERNAL_BYTES)


def measure(path: Path) -> dict[str, float]:
    """Processor seconds to inspect, and peak megabytes beyond the protobuf, in this process."""
    model = open_model(path)
    with_protobuf = peak_kib()
    del model
    began = time.process_time()
    inspection(path)
    took = time.process_time() - began
    return {"seconds": took, "megabytes": (peak_kib() - with_protobuf) * 1024 / 1e6}


def peak_kib() -> int:
    """Peak resident set of this process (getrusage would start from the parent's, which wrote the models)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0])


def in_fresh_process(path: Path) -> tuple[float, float]:
    """(processor seconds, megabytes) of one model."""
    ended = subprocess.run([sys.executable, __file__, str(path)], capture_output=True, text=True, check=True)
    said = json.loads(ended.stdout)
    return said["seconds"], said["megabytes"]


def main() -> int:
    """Inspect every model; 0 if the growth and the aims are met."""
    if len(sys.argv) == 2:
        print(json.dumps(measure(Path(sys.argv[1]))))
        return 0
    per_node_us, is_met = [], True
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            path = Path(folder) / f"{size}.onnx"
            write(path, size)
            seconds, megabytes = in_fresh_process(path)
            per_node_us.append(1e6 * seconds / size)
            print(f"{size:>9,} nodes         {seconds:6.2f} s  {per_node_us[-1]:5.1f} us/node  "
                  f"{megabytes:6.0f} MB beyond the protobuf", flush=True)  # fmt: skip
            if size == AIMED_AT:
                is_met = seconds <= SECONDS_AIM and megabytes <= MEGABYTES_AIM
        write_external(Path(folder) / "wide.onnx")
        seconds, megabytes = in_fresh_process(Path(folder) / "wide.onnx")
        print(f"{EXTERNAL_BYTES / 1e9:g} GB of external data {seconds:6.2f} s  {'':13}  "
              f"{megabytes:6.0f} MB beyond the protobuf", flush=True)  # fmt: skip
        is_met = is_met and seconds <= SECONDS_AIM and megabytes <= MEGABYTES_AIM
    growth = per_node_us[-1] / per_node_us[0]
    print(f"time per node grows by {growth:.2f} (aim: at most {GROWTH_AIM}; 1 is linear)")
    print(f"{AIMED_AT:,} nodes and external data: aim {SECONDS_AIM:g} s and {MEGABYTES_AIM:g} MB each")
    return int(growth > GROWTH_AIM or not is_met)


if __name__ == "__main__":
    sys.exit(main())
