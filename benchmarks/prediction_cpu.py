"""CPU to CPU, checked on this machine: `python benchmarks/prediction_cpu.py [ROUNDS]`. About two minutes.

One core, all cores, and all cores while another process streams through memory are three devices here. The ceilings of
each are measured (a large MatMul, a large Add, by ONNX Runtime); every model is profiled on each, in turn, ROUNDS (3)
times; each predicts the other two. Light CNNs of the onnx package, an MLP and a chain of elementwise operators.
"""

import json
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

from onnxdyno.analysis.prediction import ProfileNode, predict
from onnxdyno.graphs.cost import cost_at
from onnxdyno.graphs.materialise import materialise
from onnxdyno.graphs.reading import open_model
from onnxdyno.graphs.signature import signature_of
from onnxdyno.hardware.catalogue import cpus
from onnxdyno.hardware.lookup import Catalogue
from onnxdyno.hardware.sustained import Sustained

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
CNNS = ("light_squeezenet.onnx", "light_resnet50.onnx", "light_densenet121.onnx", "light_shufflenet.onnx")
SIDE = 1024
STREAM = 1 << 24
RUNS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """How this machine is used as a device."""

    id: str
    threads: int
    is_pressed: bool = False


def places() -> tuple[Place, ...]:
    """The three devices."""
    cores = len(os.sched_getaffinity(0))
    return (
        Place(id="one core", threads=1),
        Place(id="all cores", threads=cores),
        Place(id="all cores, memory pressed", threads=cores, is_pressed=True),
    )


def _stream_for_ever() -> None:
    here, there = np.ones(STREAM), np.empty(STREAM)
    while True:
        np.copyto(there, here)


@contextmanager
def pressure(place: Place) -> Iterator[None]:
    """Another process that copies 128 MiB again and again, where the place asks for it."""
    if not place.is_pressed:
        yield
        return
    other = multiprocessing.get_context("spawn").Process(target=_stream_for_ever, daemon=True)
    other.start()
    try:
        yield
    finally:
        other.kill()
        other.join()


def chain(op_types: tuple[str, ...], shape: tuple[int, ...], weight: tuple[int, int] | None = None) -> onnx.ModelProto:
    """Operators one after another; a MatMul takes a square weight, an Add its input twice."""
    nodes, last = [], "x"
    for place, op_type in enumerate(op_types):
        inputs = [last, "w"] if op_type == "MatMul" else [last, last] if op_type == "Add" else [last]
        nodes.append(helper.make_node(op_type, inputs, [f"y{place}"], name=f"{op_type}_{place}"))
        last = f"y{place}"
    value = helper.make_tensor_value_info
    weights = [] if weight is None else [onnx.numpy_helper.from_array(np.full(weight, 1e-3, np.float32), "w")]
    graph = helper.make_graph(
        nodes, "chain", [value("x", TensorProto.FLOAT, shape)], [value(last, TensorProto.FLOAT, shape)], weights
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def models(folder: Path) -> dict[str, Path]:
    """The models by name, as files."""
    made = {
        "mlp": chain(("MatMul", "Relu") * 6, (256, SIDE), (SIDE, SIDE)),
        "elementwise": chain(("Relu", "Sigmoid", "Add", "Tanh", "Relu", "Add"), (4, SIDE, SIDE)),
        "tiny": chain(("Relu", "Add") * 200, (1, 64)),
    }
    for name, model in made.items():
        onnx.save(model, folder / f"{name}.onnx")
    return {name: folder / f"{name}.onnx" for name in made} | {
        name.removeprefix("light_").removesuffix(".onnx"): LIGHT / name for name in CNNS if (LIGHT / name).is_file()
    }


def profile(path: Path, threads: int) -> dict[str, tuple[ProfileNode, ...]]:
    """Nodes of the graph that ran, with the shortest self time of each over a few runs."""
    signature = signature_of(open_model(path))
    sizes = tuple((axis.name, axis.size or 1) for axis in signature.axes)
    with tempfile.TemporaryDirectory() as folder:
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(Path(folder) / "optimized.onnx")
        options.intra_op_num_threads = threads
        options.log_severity_level = 4
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "profile")
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        feeds: dict[str, Any] = {recipe.name: materialise(recipe, sizes, seed=1) for recipe in signature.recipes}
        for _ in range(RUNS):
            session.run(None, feeds)
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
        cost = cost_at(open_model(Path(options.optimized_model_filepath)), signature, sizes)
    took: dict[str, list[float]] = {}
    for event in events:
        if event["cat"] == "Node" and event["name"].endswith("_kernel_time"):
            took.setdefault(event["name"].removesuffix("_kernel_time"), []).append(1e3 * event["dur"])
    return {
        node.name: (
            ProfileNode(
                kind=node.op_type,
                flops=node.flops or 0,
                bytes=(node.read_bytes or 0) + (node.written_bytes or 0),
                latency_ns=min(took[node.name][1:]),
            ),
        )
        for node in cost.nodes
        if node.name in took
    }


def merged(rounds: list[dict[str, tuple[ProfileNode, ...]]]) -> tuple[ProfileNode, ...]:
    """Every node with its shortest time: what others do on this machine is no part of a device."""
    return tuple(
        replace(node, latency_ns=min(each[name][0].latency_ns or 0.0 for each in rounds))
        for name, (node,) in rounds[0].items()
    )


def ceilings_of(folder: Path, threads: int) -> tuple[float, float]:
    """FLOP/s of a large MatMul and bytes/s of a large Add: the best of a few calls."""
    onnx.save(chain(("MatMul",), (SIDE, SIDE), (SIDE, SIDE)), folder / "gemm.onnx")
    onnx.save(chain(("Add",), (STREAM,)), folder / "stream.onnx")
    (gemm,) = next(iter(profile(folder / "gemm.onnx", threads).values()))
    (stream,) = next(iter(profile(folder / "stream.onnx", threads).values()))
    moved = 2 * 4 * STREAM  # x is read once, although it is both inputs
    return gemm.flops / (gemm.latency_ns or 1.0) * 1e9, moved / (stream.latency_ns or 1.0) * 1e9


def catalogue(rates: dict[str, tuple[float, float]]) -> Catalogue:
    """Every place as a CPU of one microarchitecture, with its measured ceilings."""
    like = cpus()[0]
    found = [
        replace(like, id=place, name=place, fp32_flop_per_s=1.5 * flops, memory_bytes_per_s=1.2 * moved)
        for place, (flops, moved) in rates.items()
    ]
    measured = [
        Sustained(accelerator_id=place, fp32_flop_per_s=flops, memory_bytes_per_s=moved)
        for place, (flops, moved) in rates.items()
    ]
    return Catalogue(accelerators=(), cpus=tuple(found), sustained=tuple(measured))


def main(rounds: int) -> None:
    """Measure, predict, print."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        files = models(folder)
        rates: dict[str, list[tuple[float, float]]] = {place.id: [] for place in places()}
        seen: dict[tuple[str, str], list[dict[str, tuple[ProfileNode, ...]]]] = {}
        for _ in range(rounds):
            for place in places():
                with pressure(place):
                    rates[place.id].append(ceilings_of(folder, place.threads))
                    for name, path in files.items():
                        seen.setdefault((name, place.id), []).append(profile(path, place.threads))
    middle = {place: (max(f for f, _ in each), max(b for _, b in each)) for place, each in rates.items()}
    for where, (flops, moved) in middle.items():
        print(f"{where}: {flops / 1e9:.0f} GFLOP/s, {moved / 1e9:.1f} GB/s")
    known = catalogue(middle)
    print("\n| model | from | to | measured ms | predicted ms | 90 % interval | error | same as the source |")
    print("|---|---|---|---|---|---|---|---|")
    errors, naive, held = [], [], []
    for name in files:
        for here, there in permutations(middle, 2):
            nodes, other = merged(seen[name, here]), merged(seen[name, there])
            found = predict(nodes, here, [there], catalogue=known)[0]
            measured = sum(node.latency_ns or 0.0 for node in other)
            predicted, low, high = found.latency_ns or 0.0, found.low_ns or 0.0, found.high_ns or 0.0
            errors.append(abs(predicted / measured - 1))
            naive.append(abs(sum(node.latency_ns or 0.0 for node in nodes) / measured - 1))
            held.append(low <= measured <= high)
            cells = [name, here, there, f"{measured / 1e6:.2f}", f"{predicted / 1e6:.2f}"]
            cells += [f"{low / 1e6:.2f} – {high / 1e6:.2f}", f"{errors[-1]:.0%}", f"{naive[-1]:.0%}"]
            print("| " + " | ".join(cells) + " |")
    print(f"\nMAPE {fmean(errors):.0%}, median {median(errors):.0%}; taking the source's latency as it is: ", end="")
    print(f"{fmean(naive):.0%}. Intervals that held: {sum(held)}/{len(held)}.")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
