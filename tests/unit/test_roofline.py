"""Verdicts of nodes and models by ceilings that are known exactly."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from factories import cpu_device, gpu_device, node, point
from onnxdyno.analysis.roofline import Datasheet, judge, why_not
from onnxdyno.domain.bounds import Bound
from onnxdyno.domain.ceilings import Ceiling, CeilingKind, Ceilings, fingerprint_sha256
from onnxdyno.domain.cost import NodeWork
from onnxdyno.domain.devices import Device, Fact
from onnxdyno.domain.findings import NodeFinding, ProfileFinding
from onnxdyno.domain.numbers import percent
from onnxdyno.domain.verdicts import Advice, Move, Roofline
from onnxdyno.reporting import rooflines
from onnxdyno.reporting.grid import profile_caption
from onnxdyno.reporting.roofline_plot import roofline_plot

CPU = cpu_device(threads=1)
MIB = 2**20


def entry(
    kind: CeilingKind, label: str, value: float, working_bytes: int | None = None, spread: float = 0.1
) -> Ceiling:
    """A ceiling with its interval."""
    return Ceiling(
        kind=kind,
        label=label,
        value=value,
        low=value * (1 - spread),
        high=value * (1 + spread),
        working_bytes=working_bytes,
    )


def ceilings(device: Device = CPU, threads: int = 1, spread: float = 0.1) -> Ceilings:
    """100 GFLOP/s, 400 GOP/s of int8, 100 GB/s in the cache, 10 GB/s beyond it, 1 µs a node, 1 G Softmax elements/s."""
    return Ceilings(
        device_id=device.id,
        device_class=device.device_class,
        threads=threads,
        fingerprint_sha256=fingerprint_sha256(device, threads),
        runtime_version="1",
        entries=(
            entry(CeilingKind.FLOP_RATE, "MatMul float32", 100e9, spread=spread),
            entry(CeilingKind.FLOP_RATE, "MatMul int8", 400e9, spread=spread),
            entry(CeilingKind.DISPATCH, "node", 1000.0, spread=spread),
            entry(CeilingKind.OP_RATE, "Softmax", 1e9, spread=spread),
            *(
                entry(CeilingKind.BANDWIDTH, label, value, size, spread)
                for label in ("stream", "read")
                for size, value in ((MIB, 100e9), (100 * MIB, 10e9))
            ),
        ),
    )


def found(
    op_type: str,
    flops: int | None,
    read_bytes: int | None,
    written_bytes: int | None,
    *,
    self_ns: int = 1_000_000,
    index: int = 0,
    shapes: tuple[str, str] = ("float[1,64]", "float[1,64]"),
    provider: str = "CPUExecutionProvider",
) -> NodeFinding:
    """One node with its work."""
    timing = replace(
        node(f"n{index}", index=index),
        op_type=op_type,
        self_ns=self_ns,
        input_shapes=shapes[0],
        output_shapes=shapes[1],
        provider=provider,
        output_bytes=written_bytes,
        path="",
    )
    reason = None if flops is not None else "no counterpart in the file"
    work = NodeWork(flops=flops, read_bytes=read_bytes, written_bytes=written_bytes, basis="name", reason=reason)
    return NodeFinding(node=timing, share=0.0, work=work)


def verdict(
    *nodes: NodeFinding,
    device: Device = CPU,
    known: Ceilings | None = None,
    weight_bytes: int = 0,
    coverage: float | None = 1.0,
) -> Roofline:
    """The model of these nodes."""
    profile = ProfileFinding(point=point(), is_complete=True, coverage=coverage, overhead=0.0, nodes=nodes, reason=None)
    return judge(profile, known or ceilings(device), device, 1, weight_bytes=weight_bytes)


def bounds(found: Roofline) -> list[Bound | None]:
    """Of its nodes."""
    return [each.bound for each in found.nodes]


GEMM = found("MatMul", 10**9, 4 * MIB, MIB)
GEMV = found("MatMul", 33_554_432, 67_108_864 + 16_384, 16_384, shapes=("float[1,4096]", "float[1,4096]"))
COPY = found("Transpose", 0, 64 * MIB, 64 * MIB)
TINY = found("Add", 1, 8, 4, self_ns=2000)


def test_a_large_product_is_bound_by_compute_and_a_decoders_by_memory() -> None:
    assert bounds(verdict(GEMM, GEMV)) == [Bound.COMPUTE, Bound.MEMORY]


def test_a_copy_without_flops_is_bound_by_memory_and_a_tiny_node_by_its_launch() -> None:
    assert bounds(verdict(COPY, TINY)) == [Bound.MEMORY, Bound.LAUNCH]


def test_softmax_in_the_cache_is_bound_by_arithmetic_although_its_intensity_is_low() -> None:
    sizes = ("float[64,1024]", "float[64,1024]")
    softmax = found("Softmax", 5 * 65_536, 262_144, 262_144, shapes=sizes, self_ns=70_000)
    assert bounds(verdict(softmax)) == [Bound.COMPUTE]
    assert verdict(softmax).nodes[0].intensity_flop_per_byte == pytest.approx(0.625)


def test_a_class_that_flips_within_the_ceilings_intervals_is_balanced() -> None:
    even = found("MatMul", 10_000_000, 10_000_000 - 256, 256)
    assert bounds(verdict(even, known=ceilings(spread=0.0))) != [Bound.BALANCED]
    assert bounds(verdict(even, known=ceilings(spread=0.9))) == [Bound.BALANCED]


def test_a_kernel_slower_than_its_margin_is_no_evidence_for_either_limit() -> None:
    near = found("MatMul", 10**8, 4 * MIB, MIB, self_ns=20_000_000)
    judged = verdict(near).nodes[0]
    assert judged.margin is not None
    assert judged.margin < 1 / (judged.efficiency or 1)
    assert judged.bound is Bound.BALANCED
    assert judged.reason is not None
    assert bounds(verdict(replace(GEMM, node=replace(GEMM.node, self_ns=60_000_000)))) == [Bound.COMPUTE]


def test_a_loop_is_bound_by_running_its_graph() -> None:
    assert bounds(verdict(found("Loop", 0, 0, 0))) == [Bound.LAUNCH]


def test_copies_and_strays_of_a_gpus_session_need_no_ceiling() -> None:
    device = gpu_device()
    stray = found("Add", 1, 8, 4)
    copied = found("MemcpyToHost", 0, 8, 8, provider="CUDAExecutionProvider")
    assert bounds(verdict(stray, copied, device=device)) == [Bound.FALLBACK, Bound.COPY]


def test_a_copy_is_held_to_the_measured_rate_of_copies_of_its_size_that_way() -> None:
    device = gpu_device()
    links = [
        entry(kind, "pinned", value, size)
        for kind, value in ((CeilingKind.H2D, 10e9), (CeilingKind.D2H, 5e9))
        for size in (MIB, 100 * MIB)
    ]
    known = replace(ceilings(device), entries=(*ceilings(device).entries, *links))
    node = found("MemcpyToHost", 0, MIB, MIB, provider="CUDAExecutionProvider", self_ns=5_000)
    gemm = replace(GEMM, node=replace(GEMM.node, provider="CUDAExecutionProvider", self_ns=5_000))
    started = verdict(node, gemm, device=device, known=known)
    copy = next(each for each in started.nodes if each.bound is Bound.COPY)
    assert copy.memory is not None
    assert copy.memory.value_ns == pytest.approx(MIB / 5)
    assert dict(started.shares)[Bound.COPY] == pytest.approx(MIB / 5 / (MIB / 5 + 1e7 + 1e3), rel=0.01)
    ran = replace(node, node=replace(node.node, kernel_ns=420_000))
    timed = verdict(ran, device=device, known=known, coverage=5_000 / 500_000)
    assert timed.nodes[0].efficiency == pytest.approx(0.5, rel=0.01)
    assert timed.nodes[0].achieved_bytes_per_s == pytest.approx(MIB / 420e-6)
    assert [each.move for each in timed.advice] == [Move.KEEP_ON_DEVICE], "no better kernel makes a link faster"
    unknown = verdict(node, device=device, known=ceilings(device)).nodes[0]
    assert (unknown.bound, unknown.memory) == (Bound.COPY, None)


def test_a_node_whose_work_is_unknown_has_no_verdict_and_the_model_may_have_none() -> None:
    unknown = found("Custom", None, None, None, self_ns=9_000_000)
    judged = verdict(unknown, GEMM)
    assert judged.nodes[0].bound is None
    assert judged.nodes[0].reason == "no counterpart in the file"
    assert judged.bound is None
    assert judged.unjudged_share == pytest.approx(0.9)
    assert judged.reason is not None


def test_the_model_is_bound_by_what_most_of_its_time_follows() -> None:
    judged = verdict(replace(GEMM, node=replace(GEMM.node, self_ns=7_000_000)), GEMV)
    assert judged.bound is Bound.COMPUTE
    assert judged.margin == pytest.approx(7.0)
    assert dict(judged.shares) == pytest.approx({Bound.COMPUTE: 7 / 8, Bound.MEMORY: 1 / 8})


@pytest.mark.parametrize(
    ("known", "word"),
    [
        (ceilings(gpu_device()), "ceilings are of"),
        (ceilings(threads=2), "threads"),
        (ceilings(replace(CPU, fingerprint=(Fact(name="ort", value="9"),))), "fingerprint"),
    ],
)
def test_ceilings_of_something_else_are_refused_with_the_reason(known: Ceilings, word: str) -> None:
    judged = verdict(GEMM, known=known)
    assert (judged.bound, judged.nodes) == (None, ())
    assert judged.reason is not None
    assert word in judged.reason


def test_the_ceilings_of_the_device_itself_are_not_refused() -> None:
    assert why_not(ceilings(), CPU, 1) is None


def advice(judged: Roofline, move: Move) -> Advice:
    """The one advice of this kind."""
    (one,) = [each for each in judged.advice if each.move is move]
    return one


def test_the_batch_that_moves_a_products_weights_past_the_ridge_is_where_arithmetic_takes_as_long() -> None:
    told = advice(verdict(GEMV, weight_bytes=100 * MIB), Move.RAISE_BATCH)
    # weights: 64 MiB at 10 GB/s = 6.7 ms; arithmetic 0.34 ms an item: twenty items
    assert told.factor == pytest.approx(20, abs=1)
    assert told.gain_at_most == pytest.approx(0.95, abs=0.01)


def test_int8_saves_the_compute_bound_share_by_the_ratio_of_measured_rates() -> None:
    judged = verdict(replace(GEMM, node=replace(GEMM.node, self_ns=3_000_000)), COPY)
    assert advice(judged, Move.INT8).gain_at_most == pytest.approx(3 / 4 * (1 - 100 / 400))


def test_int8_advice_for_float16_has_its_own_rate_and_half_of_the_weights() -> None:
    halves = ("float16[1,4096]", "float16[1,4096]")
    half = entry(CeilingKind.FLOP_RATE, "MatMul float16", 200e9)
    known = replace(ceilings(), entries=(*ceilings().entries, half))
    gemm = found("MatMul", 10**9, 4 * MIB, MIB, shapes=halves)
    gemv = replace(GEMV, node=replace(GEMV.node, input_shapes=halves[0], output_shapes=halves[1]))
    arithmetic = advice(verdict(gemm, known=known), Move.INT8)
    assert arithmetic.gain_at_most == pytest.approx(1 - 200 / 400)
    assert "2 times that of float16, half of its weights" in arithmetic.because
    weights = advice(verdict(gemv, known=known, weight_bytes=100 * MIB), Move.INT8)
    assert weights.gain_at_most == pytest.approx(0.5, abs=0.01)
    assert not int8_told(verdict(gemm)), "float16 has no rate of its own here"


def test_int8_advice_stops_where_the_other_limit_begins() -> None:
    # weights 6.7 ms to 1.7 ms, but their arithmetic takes 33.6 MFLOP / 10 GFLOP/s = 3.4 ms
    (told,) = int8_told(verdict(GEMV, known=with_int8(10e9), weight_bytes=100 * MIB))
    assert told.gain_at_most == pytest.approx(0.5, abs=0.01)
    assert not int8_told(verdict(GEMV, known=with_int8(5e9), weight_bytes=100 * MIB))


def int8_told(judged: Roofline) -> list[Advice]:
    """The advice to quantise, if it was given."""
    return [each for each in judged.advice if each.move is Move.INT8]


def with_int8(rate: float) -> Ceilings:
    """The same ceilings with another rate of int8."""
    changed = (replace(each, value=rate) if each.label == "MatMul int8" else each for each in ceilings().entries)
    return replace(ceilings(), entries=tuple(changed))


def test_fusing_a_thousand_tiny_nodes_saves_nearly_all_of_their_time() -> None:
    tiny = [replace(TINY, node=replace(TINY.node, index=at)) for at in range(1000)]
    assert advice(verdict(*tiny), Move.FUSE).gain_at_most == pytest.approx(0.999)


def tiny(count: int, self_ns: int) -> list[NodeFinding]:
    """Nodes without work that start in 1 µs."""
    return [replace(TINY, node=replace(TINY.node, index=at, self_ns=self_ns)) for at in range(count)]


def test_nodes_that_took_twice_the_unprofiled_call_give_neither_verdict_nor_gain() -> None:
    # 10 tiny nodes and a product: 210 µs profiled, 42 µs without; the ceilings explain 10 + 11 µs of it
    product = found("MatMul", 10**6, 4096, 4096, self_ns=110_000)
    judged = verdict(*tiny(10, 10_000), product, coverage=5.0)
    assert (judged.bound, judged.margin, judged.advice) == (None, None, ())
    assert judged.reason is not None
    assert "5 times as long as the whole call" in judged.reason
    assert judged.unexplained_share == pytest.approx(0.5, abs=0.01)
    assert sum(dict(judged.shares).values()) + judged.unexplained_share == pytest.approx(1.0)
    assert [each.efficiency for each in judged.nodes] == [None] * 11
    assert "no verdict" in rooflines.verdict_line(judged)
    assert not rooflines.advice_lines(judged)
    document = rooflines.roofline_document("m.onnx", judged, ceilings())
    assert (document["is_timed"], document["coverage"]) == (False, 5.0)
    assert document["untimed_reason"] in document["reason"]
    assert sum(each["share"] for each in document["nodes"]) == pytest.approx(1 - judged.unexplained_share)


def test_as_many_dispatches_as_the_unprofiled_call_lasts_bind_it_to_launch_whatever_the_profiler_took() -> None:
    # 200 starts at 1 µs and a product of 20 µs in a call of 240 µs; profiled it took 1,100 µs
    judged = verdict(*tiny(200, 5_000), found("MatMul", 2 * 10**6, 4096, 4096, self_ns=100_000), coverage=1_100 / 240)
    assert judged.bound is Bound.LAUNCH
    assert dict(judged.shares)[Bound.LAUNCH] == pytest.approx(200 / 240)
    assert judged.reason is None
    assert "of the call without the profiler" in rooflines.verdict_line(judged)


def test_a_model_whose_nodes_all_have_one_bound_has_it_whatever_the_profiler_took() -> None:
    assert verdict(found("Loop", 0, 0, 0), *tiny(3, 5_000), coverage=13.0).bound is Bound.LAUNCH
    assert verdict(found("Custom", None, None, None), coverage=13.0).bound is None
    few = verdict(found("Add", 1, 10**7, 10**7, self_ns=10**8), coverage=13.0)
    assert (few.nodes[0].bound, few.bound) == (Bound.MEMORY, None), "most of that call is explained by nothing"


def test_a_table_of_nodes_says_when_its_times_are_mostly_the_profilers() -> None:
    def caption(coverage: float | None) -> str:
        nodes = (GEMM,)
        return profile_caption(
            ProfileFinding(point=point(), is_complete=True, coverage=coverage, overhead=3.5, nodes=nodes, reason=None)
        )

    assert "nodes cover 435 % of the unprofiled median; the profiler added 350 %" in caption(4.35)
    assert "more of these times is the profiler's" in caption(4.35)
    assert "profiler's" not in caption(1.2) + caption(None)


def test_what_the_profiler_added_may_belong_to_any_node() -> None:
    half = [
        replace(GEMM, node=replace(GEMM.node, self_ns=6_000_000)),
        replace(GEMV, node=replace(GEMV.node, self_ns=4_000_000)),
    ]
    assert verdict(*half, coverage=1.1).bound is Bound.COMPUTE
    assert verdict(*half, coverage=1.4).bound is Bound.BALANCED
    assert verdict(*half, coverage=None).bound is Bound.COMPUTE, "nobody knows"
    assert verdict(*half, coverage=1.4).advice


def test_advice_has_nothing_of_zero_things() -> None:
    starts = advice(verdict(*tiny(5, 2_000)), Move.FUSE)
    assert starts.because == "5 nodes work less than their start takes"
    adds = [replace(found("Add", 10**6, 64 * MIB, 64 * MIB, index=at), share=0.5) for at in range(2)]
    rows = advice(verdict(*adds), Move.FUSE)
    assert rows.because == "2 elementwise nodes in rows are bound by memory"
    slow = advice(verdict(replace(COPY, node=replace(COPY.node, self_ns=40_000_000))), Move.BETTER_KERNELS)
    assert slow.because.startswith("1 node takes more than twice what the ceilings allow; it is Transpose at ")


def test_running_text_has_one_style_of_percent() -> None:
    lines = " ".join(rooflines.advice_lines(verdict(GEMM, GEMV, COPY, weight_bytes=100 * MIB)))
    assert "%" in lines
    assert re.findall(r"[^ ]%|\.\d %", lines) == []
    assert [percent(share) for share in (0.0, 0.004, 0.556, 1.0)] == ["0 %", "under 1 %", "56 %", "100 %"]


def test_achieved_rates_stand_beside_the_datasheets() -> None:
    profile = ProfileFinding(point=point(), is_complete=True, coverage=1.0, overhead=0.0, nodes=(COPY,), reason=None)
    judged = judge(profile, ceilings(), CPU, 1, datasheet=Datasheet(flop_per_s=1e12, bytes_per_s=200e9))
    assert judged.nodes[0].achieved_bytes_per_s == pytest.approx(128 * MIB * 1e3)
    assert judged.nodes[0].datasheet_memory_share == pytest.approx(128 * MIB * 1e3 / 200e9)


def test_a_contraction_is_held_to_the_datasheet_of_its_own_type() -> None:
    sheet = Datasheet(flop_per_s=1e12, contractions=(("float16", 8e12), ("int8", None)))
    assert sheet.peak("MatMul float16") == 8e12
    assert sheet.peak("Conv int8") is None
    assert sheet.peak("MatMul float32") == sheet.peak(None) == 1e12


def test_nodes_of_a_gpu_that_were_only_seen_to_start_are_judged_without_their_times() -> None:
    gpu = gpu_device()
    started = [
        replace(each, node=replace(each.node, provider="CUDAExecutionProvider", self_ns=5_000)) for each in (GEMV, GEMM)
    ]
    judged = verdict(*started, device=gpu, known=ceilings(gpu))
    assert bounds(judged) == [Bound.COMPUTE, Bound.MEMORY], "slowest first, by what the ceilings allow"
    assert judged.is_timed is False
    assert [(each.took_ns, each.efficiency, each.achieved_flop_per_s) for each in judged.nodes] == [(None,) * 3] * 2
    assert dict(judged.shares)[Bound.COMPUTE] > 0.5
    assert "no kernel was timed" in rooflines.verdict_line(judged)
    document = rooflines.roofline_document("m.onnx", judged, ceilings(gpu))
    assert (document["is_timed"], document["nodes"][0]["self_ms"]) == (False, None)
    assert "to start" in document["nodes"][0]["reasons"]["self_ms"]
    kernels = [replace(each, node=replace(each.node, kernel_ns=20_000_000)) for each in started]
    assert verdict(*kernels, device=gpu, known=ceilings(gpu), coverage=10_000 / 40_000_000).is_timed


def test_a_product_in_bfloat16_without_a_rate_of_its_own_is_held_to_that_of_float16() -> None:
    half = entry(CeilingKind.FLOP_RATE, "MatMul float16", 800e9)
    known = replace(ceilings(), entries=(*ceilings().entries, half))
    product = replace(GEMM, node=replace(GEMM.node, input_shapes="bfloat16[1024,512] bfloat16[512,1024]"))
    double = replace(GEMM, node=replace(GEMM.node, input_shapes="double[1024,512] double[512,1024]"))
    judged = verdict(product, double, known=known)
    assert judged.nodes[0].compute is not None
    assert judged.nodes[0].compute.value_ns == pytest.approx(1e9 / 800)
    assert (judged.nodes[1].bound, judged.nodes[1].reason) == (None, "no ceiling of compute was measured for it")


def test_the_document_gives_every_null_its_reason() -> None:
    judged = verdict(found("Custom", None, None, None), GEMM)
    for each in rooflines.roofline_document("m.onnx", judged, ceilings())["nodes"]:
        nulls = {key for key, value in each.items() if value is None}
        assert nulls == set(each["reasons"])


SVG = "{http://www.w3.org/2000/svg}"


def drawn(text: str) -> ElementTree.Element:
    """The picture as elements."""
    return ElementTree.fromstring(text.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))  # noqa: S314


def test_nodes_are_circles_by_time_and_ceilings_are_lines() -> None:
    longer = replace(GEMV, node=replace(GEMV.node, self_ns=9_000_000))
    text = roofline_plot(verdict(GEMM, longer), ceilings())
    assert text is not None
    circles = drawn(text).findall(f"{SVG}circle")
    radius = {
        circle.get("class"): float(circle.get("r") or 0) for circle in circles if float(circle.get("r") or 0) != 5
    }
    assert radius["node memory"] > radius["node compute"]
    assert {line.get("class") for line in drawn(text).findall(f"{SVG}line")} >= {"roof", "slope", "grid", "leader"}


def test_a_model_without_flops_has_no_picture() -> None:
    assert roofline_plot(verdict(COPY), ceilings()) is None


def test_hostile_names_are_text() -> None:
    hostile = replace(GEMM, node=replace(GEMM.node, name='<script>alert("x")</script>' * 3))
    text = roofline_plot(verdict(hostile), ceilings())
    assert text is not None
    assert "<script" not in text
    drawn(text)
