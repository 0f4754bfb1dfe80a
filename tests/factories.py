"""Small, valid domain values for tests. Every factory takes only what a test cares about."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from onnxdyno.domain.axes import Axis, AxisSizes, Role, axis_sizes
from onnxdyno.domain.cost import Cost, Count
from onnxdyno.domain.devices import Device, DeviceKind, Fact
from onnxdyno.domain.findings import (
    Choice,
    Estimate,
    Findings,
    MeasuredHere,
    NodeFinding,
    PointFinding,
    ProfileFinding,
    Tier,
)
from onnxdyno.domain.models import Dim, InputRecipe, LocalModel, ModelRef, Signature, TensorSpec
from onnxdyno.domain.outcomes import (
    LaunchReading,
    Measured,
    MemoryReading,
    NodeTiming,
    Outcome,
    PointState,
    Probe,
    Profile,
    Skipped,
)
from onnxdyno.domain.plan import BenchmarkPlan, BenchmarkSpec, Point, Variant
from onnxdyno.domain.runs import BenchmarkRun, Origin

SHA256 = "3f6c1d0a9b8e7f6a5b4c3d2e1f0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e3f2a"
UNKNOWN = Estimate(value=None, reason="not measured")


def point(variant: Variant = Variant.DEVICE, **sizes: int) -> Point:
    """`point(batch=4, height=320)`."""
    return Point(sizes=axis_sizes(sizes), variant=variant)


def cpu_device(**changes: Any) -> Device:
    """A four-core CPU."""
    values: dict[str, Any] = {
        "id": "cpu",
        "kind": DeviceKind.CPU,
        "name": "Example CPU @ 2.50GHz",
        "device_class": "example-cpu-4c-cpu-ort1.31",
        "memory_bytes": 16_000_000_000,
        "cores": (0, 1, 2, 3),
        "threads": 3,
        "fingerprint": (Fact(name="governor", value=None, reason="not readable"), Fact(name="ort", value="1.31.1")),
    }
    return Device(**(values | changes))


def gpu_device(**changes: Any) -> Device:
    """A Tesla T4 as NVML names it."""
    values: dict[str, Any] = {
        "id": "GPU-5f0c7d3e-0000-4000-8000-000000000001",
        "kind": DeviceKind.CUDA,
        "name": "Tesla T4",
        "device_class": "tesla-t4-cuda-ort1.31",
        "memory_bytes": 15_843_721_216,
        "cores": (0, 1, 2, 3),
        "threads": 3,
        "compute_capability": "7.5",
    }
    return Device(**(values | changes))


def model_ref(name: str = "model.onnx", **changes: Any) -> ModelRef:
    """A one-megabyte model."""
    values: dict[str, Any] = {"name": name, "sha256": SHA256, "size_bytes": 1_000_000}
    return ModelRef(**(values | changes))


def local_model(name: str = "model.onnx") -> LocalModel:
    """A model on disk; nothing is there."""
    return LocalModel(ref=model_ref(name), path=Path("model.onnx"))


def image_signature(**changes: Any) -> Signature:
    """`image[batch,3,height,width]` -> `scores[batch,10]`, all three axes dynamic."""
    dims = (
        Dim(role=Role.BATCH, axes=("batch",), symbol="batch"),
        Dim(role=Role.CHANNELS, constant=3),
        Dim(role=Role.HEIGHT, axes=("height",), symbol="height"),
        Dim(role=Role.WIDTH, axes=("width",), symbol="width"),
    )
    values: dict[str, Any] = {
        "inputs": (TensorSpec(name="image", kind="tensor", dtype="float32", dims=dims),),
        "outputs": (
            TensorSpec(
                name="scores", kind="tensor", dtype="float32", dims=(dims[0], Dim(role=Role.OTHER, constant=10))
            ),
        ),
        "axes": (
            Axis(name="batch", role=Role.BATCH, size=None, symbols=("batch",)),
            Axis(name="height", role=Role.HEIGHT, size=None, symbols=("height",)),
            Axis(name="width", role=Role.WIDTH, size=None, symbols=("width",)),
        ),
        "recipes": (InputRecipe(name="image", kind="tensor", dtype="float32", dims=dims, rule="normal"),),
        "opset": 17,
        "domains": (("ai.onnx", 17),),
        "ir_version": 8,
        "producer": "tests",
        "parameters": 1234,
        "weight_bytes": 4936,
        "precision": "float32",
        "node_count": 3,
        "op_types": (("Conv", 2), ("Relu", 1)),
    }
    return Signature(**(values | changes))


def text_signature(**changes: Any) -> Signature:
    """`ids[batch,sequence]` int64 -> `hidden[batch,sequence,8]`."""
    dims = (
        Dim(role=Role.BATCH, axes=("batch",), symbol="batch"),
        Dim(role=Role.SEQUENCE, axes=("sequence",), symbol="sequence"),
    )
    values: dict[str, Any] = {
        "inputs": (TensorSpec(name="ids", kind="tensor", dtype="int64", dims=dims),),
        "outputs": (
            TensorSpec(name="hidden", kind="tensor", dtype="float32", dims=(*dims, Dim(role=Role.OTHER, constant=8))),
        ),
        "axes": (
            Axis(name="batch", role=Role.BATCH, size=None, symbols=("batch",)),
            Axis(name="sequence", role=Role.SEQUENCE, size=None, symbols=("sequence",)),
        ),
        "recipes": (InputRecipe(name="ids", kind="tensor", dtype="int64", dims=dims, rule="integers", high=64.0),),
    }
    return image_signature(**(values | changes))


def plan(points: tuple[Point, ...] = (), **changes: Any) -> BenchmarkPlan:
    """A plan over `points` (default: batch 1 at 32 × 32) on the example CPU; the first point is the base."""
    points = points or (point(batch=1, height=32, width=32),)
    values: dict[str, Any] = {
        "model": local_model(),
        "device": cpu_device(),
        "spec": BenchmarkSpec(),
        "recipes": image_signature().recipes,
        "base_candidates": points[:1],
        "base": points[0],
        "points": points,
        "batch_axes": ("batch",),
        "threads": 3,
    }
    return BenchmarkPlan(**(values | changes))


def cost(sizes: AxisSizes = (), **changes: Any) -> Cost:
    """A billion FLOPs; the activation peak is unknown."""
    values: dict[str, Any] = {
        "sizes": sizes,
        "flops": Count(value=1_000_000_000),
        "least_flops": 1_000_000_000,
        "read_bytes": Count(value=5_000),
        "written_bytes": Count(value=4_000),
        "parameters": 1234,
        "weight_bytes": 4936,
        "input_bytes": Count(value=100),
        "output_bytes": Count(value=40),
        "activation_peak_bytes": Count(value=None, reason="an output's size depends on data"),
        "nodes": (),
        "uncounted": (),
    }
    return Cost(**(values | changes))


def origin(run_id: str = "20250101T000000Z-0001", **changes: Any) -> Origin:
    """A run started by hand."""
    values: dict[str, Any] = {
        "run_id": run_id,
        "started_at": "2025-01-01T00:00:00Z",
        "reason": "bench",
        "source_uri": "file:models",
        "source_key": "model.onnx",
        "source_etag": None,
        "source_version_id": None,
        "attempt": 1,
    }
    return Origin(**(values | changes))


def measured(
    at: Point, samples_ns: tuple[int, ...] = (1_000_000,) * 10, *, launch: int = 1, **changes: Any
) -> Measured:
    """One launch of one point with these samples."""
    values: dict[str, Any] = {
        "point": at,
        "launch": launch,
        "state": PointState.OK,
        "reason": None,
        "flags": (),
        "first_run_ns": 3_000_000,
        "warm_up_ns": (2_000_000, 1_100_000),
        "samples_ns": samples_ns,
        "excluded": (),
        "busy_ns": sum(samples_ns),
        "runs": len(samples_ns),
    }
    return Measured(**(values | changes))


def skipped(
    at: Point, state: PointState = PointState.SHAPE_ERROR, reason: str = "refused", *, launch: int | None = 1
) -> Skipped:
    """One point without numbers."""
    return Skipped(point=at, launch=launch, state=state, reason=reason, remedy="Choose another size.")


def memory_reading(at: Point, peak_bytes: int | None = 50_000_000, **changes: Any) -> MemoryReading:
    """Peak over the baseline; None gets a reason."""
    values: dict[str, Any] = {
        "point": at,
        "baseline_bytes": 80_000_000,
        "peak_bytes": peak_bytes,
        "run_ns": 1_000_000,
        "reason": None if peak_bytes is not None else "the memory process crashed",
    }
    return MemoryReading(**(values | changes))


def node(name: str = "conv0", self_ns: int = 600_000, **changes: Any) -> NodeTiming:
    """One convolution."""
    values: dict[str, Any] = {
        "path": "",
        "index": 0,
        "name": name,
        "op_type": "Conv",
        "provider": "CPUExecutionProvider",
        "self_ns": self_ns,
        "runs": 5,
        "output_bytes": 4096,
        "input_shapes": "float32[1,3,32,32]",
        "output_shapes": "float32[1,1,32,32]",
    }
    return NodeTiming(**(values | changes))


def profile(at: Point, nodes: tuple[NodeTiming, ...] = (), **changes: Any) -> Profile:
    """A complete profile of five runs."""
    values: dict[str, Any] = {
        "point": at,
        "is_complete": True,
        "runs": 5,
        "model_run_ns": 1_000_000,
        "nodes": nodes or (node(),),
    }
    return Profile(**(values | changes))


def benchmark_run(outcomes: tuple[Outcome, ...] = (), **changes: Any) -> BenchmarkRun:
    """A run with these outcomes (default: one measured point)."""
    planned: BenchmarkPlan = changes.get("plan") or plan(tuple(dict.fromkeys(each.point for each in outcomes)))
    values: dict[str, Any] = {
        "origin": origin(),
        "signature": image_signature(),
        "plan": planned,
        "probe": Probe(point=planned.base, tried=()),
        "launches": (
            LaunchReading(
                launch=1,
                session_ns=20_000_000,
                providers=("CPUExecutionProvider",),
                assignment=(("CPUExecutionProvider", "Conv", 2),),
                runtime=(("onnxruntime", "1.31.1"),),
            ),
        ),
        "outcomes": outcomes or (measured(planned.base),),
        "memory": (memory_reading(planned.base),),
        "profiles": (profile(planned.base),),
    }
    return BenchmarkRun(**(values | changes))


def estimate(value: float, half_width: float = 0.01) -> Estimate:
    """A value with an interval of ± `half_width` (relative)."""
    return Estimate(value=value, low=value * (1 - half_width), high=value * (1 + half_width))


def point_finding(at: Point, p50_ns: float = 1_000_000.0, **changes: Any) -> PointFinding:
    """A measured point whose throughput follows from its batch and median."""
    items = changes.get("items", dict(at.sizes).get("batch"))
    values: dict[str, Any] = {
        "point": at,
        "state": PointState.OK,
        "flags": (),
        "reason": None,
        "remedy": "",
        "n": 500,
        "launches": 3,
        "excluded": 0,
        "n_eff": Estimate(value=250.0),
        "p50_ns": estimate(p50_ns),
        "p90_ns": estimate(p50_ns * 1.1),
        "p95_ns": estimate(p50_ns * 1.15),
        "p99_ns": estimate(p50_ns * 1.3),
        "mad_ns": Estimate(value=p50_ns * 0.01, reason="no interval is computed for spreads"),
        "iqr_ns": Estimate(value=p50_ns * 0.02, reason="no interval is computed for spreads"),
        "throughput_items_per_s": estimate((items or 1) * 1e9 / p50_ns) if items is not None else UNKNOWN,
        "first_run_ns": Estimate(value=p50_ns * 3, reason="one value per launch"),
        "peak_memory_bytes": 50_000_000,
        "peak_memory_reason": None,
        "items": items,
    }
    return PointFinding(**(values | changes))


def skipped_finding(
    at: Point, state: PointState = PointState.SHAPE_ERROR, reason: str = "refused", **changes: Any
) -> PointFinding:
    """A point that has no number."""
    nothing = Estimate(value=None, reason=reason)
    values: dict[str, Any] = {
        "state": state,
        "reason": reason,
        "remedy": "Choose another size.",
        "n": 0,
        "launches": 0,
        "peak_memory_bytes": None,
        "peak_memory_reason": reason,
    } | dict.fromkeys(
        (
            *("n_eff", "p50_ns", "p90_ns", "p95_ns", "p99_ns"),
            *("mad_ns", "iqr_ns", "throughput_items_per_s", "first_run_ns"),
        ),
        nothing,
    )
    return replace(point_finding(at), **(values | changes))


def profile_finding(at: Point, nodes: tuple[NodeTiming, ...] = (), **changes: Any) -> ProfileFinding:
    """Shares follow from the nodes' self times."""
    nodes = nodes or (node(), node("relu0", 400_000, index=1, op_type="Relu"))
    total_ns = sum(each.self_ns for each in nodes)
    values: dict[str, Any] = {
        "point": at,
        "is_complete": True,
        "coverage": 0.97,
        "overhead": 0.05,
        "nodes": tuple(NodeFinding(node=each, share=each.self_ns / total_ns) for each in nodes),
        "reason": None,
    }
    return ProfileFinding(**(values | changes))


def choice(at: Point | None = None, value: float | None = None, reason: str = "no such axis") -> Choice:
    """An answer, or its absence."""
    return Choice(point=at, value=value, reason=reason)


def tier(name: str = "minimum", **changes: Any) -> Tier:
    """A tier that rests on memory."""
    values: dict[str, Any] = {
        "tier": name,
        "device_id": "t4",
        "device_name": "Tesla T4",
        "memory_bytes": 16 * 2**30,
        "needed_bytes": 700_000_000,
        "sizes": axis_sizes({"batch": 1}),
        "basis": "memory",
        "reason": "rests on memory alone, not on speed",
    }
    return Tier(**(values | changes))


def measured_here(at: Point, **changes: Any) -> MeasuredHere:
    """The example CPU at this point, where it meets a target of 5 ms."""
    values: dict[str, Any] = {
        "run_id": "20250101T000000Z-0001",
        "device_name": "Example CPU @ 2.50GHz",
        "device_kind": "cpu",
        "device_memory_bytes": 16_000_000_000,
        "threads": 3,
        "sizes": at.sizes,
        "meets": True,
        "reason": "meets p50 within 5 ms",
        "state": "ok",
        "latency_ns": estimate(1_000_000.0),
        "peak_memory_bytes": 50_000_000,
    }
    return MeasuredHere(**(values | changes))


def findings(points: tuple[PointFinding, ...] = (), **changes: Any) -> Findings:
    """Findings over these points (default: one)."""
    points = points or (point_finding(point(batch=1, height=32, width=32)),)
    values: dict[str, Any] = {
        "points": points,
        "session_ns": estimate(20_000_000.0),
        "best_batch": choice(points[0].point, 1.0, "highest throughput"),
        "largest_resolution": choice(),
        "largest_batch": choice(),
        "largest_sequence": choice(),
        "profiles": (profile_finding(points[0].point),),
        "tiers": (tier("minimum"), tier("recommended"), tier("optimal", device_id=None, device_name=None)),
        "warnings": (),
    }
    return Findings(**(values | changes))
