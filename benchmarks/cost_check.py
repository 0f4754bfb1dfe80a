"""Costs against published totals and against ONNX Runtime itself: `python benchmarks/cost_check.py [--runtime]`.

Models: the light CNNs of the onnx package, and what `make demo` fetched into demo/registry. docs/cost.md explains each
difference of more than 2 %.
"""

import argparse
import importlib.util
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from onnx import ModelProto

from onnxdyno.domain.axes import AxisSizes, Role, axis_sizes
from onnxdyno.domain.cost import Cost
from onnxdyno.domain.models import Signature
from onnxdyno.graphs.cost import cost_at
from onnxdyno.graphs.materialise import materialise
from onnxdyno.graphs.reading import open_model
from onnxdyno.graphs.signature import signature_of

REGISTRY = Path(__file__).parent.parent / "demo" / "registry"

SIZES = {Role.BATCH: 1, Role.HEIGHT: 320, Role.WIDTH: 320, Role.SEQUENCE: 128, Role.TIME: 512}


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A model and what others say of it; `alter` makes the file the network that they counted.

    `beside` are elements that the file stores as weights and that nobody publishes as parameters.
    """

    name: str
    file: str
    macs: float
    parameters: int | None
    source: str
    beside: int = 0
    alter: Callable[[ModelProto], None] | None = None
    explained: str = ""


def _at_227(model: ModelProto) -> None:
    """AlexNet was published for 227 × 227; the file says 224."""
    for dim in model.graph.input[0].type.tensor_type.shape.dim[2:]:
        dim.dim_value = 227


def _rounding_up(model: ModelProto) -> None:
    """Caffe's pooling rounds sizes up: 56, 28, 14, 7 instead of the file's 55, 27, 13, 6."""
    for node in model.graph.node:
        strides = [list(a.ints) for a in node.attribute if a.name == "strides"]
        if node.op_type == "MaxPool" and strides == [[2, 2]]:
            pads = next(a for a in node.attribute if a.name == "pads")
            pads.ints[:] = [0, 0, 1, 1]


PUBLISHED = (
    Published(
        name="ResNet-50",
        file="light_resnet50.onnx",
        macs=4.09e9,
        parameters=25_557_032,
        source="torchvision.models.resnet50",
        beside=53_121,
        explained="means and variances of 53 batch normalisations (2 × 26,560), one scalar that nothing reads",
    ),
    Published(
        name="SqueezeNet 1.1",
        file="light_squeezenet.onnx",
        macs=0.349e9,
        parameters=1_235_496,
        source="torchvision.models.squeezenet1_1",
    ),
    Published(
        name="DenseNet-121",
        file="light_densenet121.onnx",
        macs=2.87e9,
        parameters=7_978_856,
        source="osmr/imgclsmob, torchvision.models.densenet121",
        beside=167_296,
        explained="4 × 41,824 of 121 batch normalisations; as in Caffe, scales and shifts are Mul and Add beside them",
    ),
    Published(
        name="VGG-19",
        file="light_vgg19.onnx",
        macs=19.6e9,
        parameters=143_667_240,
        source="torchvision.models.vgg19",
    ),
    Published(
        name="AlexNet, at 227",
        file="light_bvlc_alexnet.onnx",
        macs=0.727e9,
        parameters=60_965_224,
        source="albanie/convnet-burden, bvlc_alexnet",
        alter=_at_227,
    ),
    Published(
        name="Inception v1, pooling rounds up",
        file="light_inception_v1.onnx",
        macs=1.502e9,
        parameters=6_998_552,
        source="Szegedy et al. 2014, table 1, column ops",
        alter=_rounding_up,
        explained="table 1 gives 34 M for the first convolution; 64 × 3 × 49 × 112² are 118 M",
    ),
    Published(
        name="Inception v2 (BN-Inception)",
        file="light_inception_v2.onnx",
        macs=2.048e9,
        parameters=None,
        source="osmr/imgclsmob, BN-Inception",
    ),
    Published(
        name="ShuffleNet, 4 groups",
        file="light_shufflenet.onnx",
        macs=0.133e9,
        parameters=None,
        source="Zhang et al. 2017, table 1, 1 ×, g = 4",
        explained="half the paper's channels (136, 272, 544), but units without its bottleneck of a quarter",
    ),
    Published(
        name="YOLOv8n (320n), at 320",
        file="nudenet-320n.onnx",
        macs=1.0e9,
        parameters=None,
        source="issue 3: about 2.0 GFLOPs",
        explained="2.025 GFLOPs are convolutions, 0.019 activations and softmax",
    ),
)


def path_of(file: str) -> Path | None:
    """Where a model lies on this machine, or None."""
    found = importlib.util.find_spec("onnx")
    folder = Path(found.origin).parent / "backend/test/data/light" if found and found.origin else Path()
    return next((path for path in (folder / file, REGISTRY / file) if path.is_file()), None)


def first_sizes(signature: Signature) -> AxisSizes:
    """The point that the table is about: batch 1 and what SIZES says of the other roles."""
    return axis_sizes({axis.name: SIZES.get(axis.role, 8) for axis in signature.axes if axis.size is None})


def counted(published: Published, path: Path) -> Cost:
    """The cost of the published network."""
    model = open_model(path)
    if published.alter is not None:
        published.alter(model)
    signature = signature_of(model)
    return cost_at(model, signature, first_sizes(signature))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What ONNX Runtime says of one run at ORT_ENABLE_BASIC, memory pattern off.

    `output_bytes` by node name. From `mem_bytes_requested_in_use` at the end of every kernel: `spread_bytes` is the
    maximum less the minimum (it lacks what is live even at the least moment), `peak_bytes` the maximum less what was
    in use before the first kernel made its outputs. `optimized` is the very graph that ran.
    """

    optimized: ModelProto
    output_bytes: dict[str, int]
    spread_bytes: int
    peak_bytes: int


def runtime_reading(path: Path, signature: Signature, sizes: AxisSizes, *, reuses: bool) -> Reading:
    """Run once with the profiler. `reuses`: the planner may keep dead buffers for later tensors of the same size."""
    import onnxruntime as ort

    with tempfile.TemporaryDirectory() as folder:
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(Path(folder) / "optimized.onnx")
        options.enable_mem_pattern = False
        options.enable_mem_reuse = reuses
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "profile")
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        feeds = {recipe.name: materialise(recipe, sizes, seed=1) for recipe in signature.recipes}
        for _ in range(2):  # the first run also fills caches that stay
            session.run(None, feeds)
        events = json.loads(Path(session.end_profiling()).read_text())
        optimized = open_model(Path(options.optimized_model_filepath))
    kernels = [event for event in events if event["cat"] == "Node" and event["name"].endswith("_kernel_time")]
    last = kernels[len(kernels) // 2 :]
    in_use = [int(event["args"]["mem_bytes_requested_in_use"]) for event in last]
    return Reading(
        optimized=optimized,
        output_bytes={e["name"].removesuffix("_kernel_time"): int(e["args"]["output_size"]) for e in last},
        spread_bytes=max(in_use) - min(in_use),
        peak_bytes=max(in_use) - (in_use[0] - int(last[0]["args"]["output_size"])),
    )


def print_published() -> None:
    """One row a model."""
    print(f"{'model':32} {'GMACs':>8} {'published':>9} {'differs':>8}  {'parameters':>12} {'published':>12}  source")
    for row in PUBLISHED:
        path = path_of(row.file)
        if path is None:
            print(f"{row.name:32} {row.file} is not here; `make demo` fetches it")
            continue
        cost = counted(row, path)
        macs = cost.least_flops / 2
        trained = cost.parameters - row.beside
        shown = f"{row.parameters:12,}" if row.parameters else f"{'':>12}"
        print(
            f"{row.name:32} {macs / 1e9:8.3f} {row.macs / 1e9:9.3f} {macs / row.macs - 1:8.1%}  {trained:12,} {shown}"
            f"  {row.source}"
        )
        if row.explained:
            print(f"{'':34}{row.explained}")
    print("GMACs are FLOPs / 2, all ops included; parameters without what is stored beside them (see the remarks).")


def print_runtime() -> None:
    """Output bytes and peaks against ONNX Runtime."""
    print(
        f"\n{'file':28} {'outputs equal':>13} {'liveness':>12} {'runtime':>12} {'max - min':>12} {'differs':>8}", end=""
    )
    print(f" {'with reuse':>12} {'differs':>8}")
    paths = [path for row in PUBLISHED if (path := path_of(row.file)) is not None]
    for path in (*paths, *sorted(set(REGISTRY.glob("*.onnx")) - set(paths))):
        signature = signature_of(open_model(path))
        sizes = first_sizes(signature)
        plain = runtime_reading(path, signature, sizes, reuses=False)
        reusing = runtime_reading(path, signature, sizes, reuses=True)
        cost = cost_at(plain.optimized, signature, sizes)
        sizes_by_name = {node.name: node.output_bytes for node in cost.nodes}
        matched = {name: size for name, size in plain.output_bytes.items() if name in sizes_by_name}
        equal = sum(sizes_by_name[name] == size for name, size in matched.items())
        peak = cost.activation_peak_bytes.value or 0
        print(
            f"{path.name:28} {equal:6}/{len(matched):<6} {peak:12,} {plain.peak_bytes:12,} {plain.spread_bytes:12,}"
            f" {peak / plain.spread_bytes - 1:8.1%} {reusing.spread_bytes:12,} {peak / reusing.spread_bytes - 1:8.1%}"
        )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runtime", action="store_true", help="also run every model with ONNX Runtime's profiler")
    asked = parser.parse_args()
    print_published()
    if asked.runtime:
        print_runtime()
    sys.stdout.flush()


if __name__ == "__main__":
    main()
