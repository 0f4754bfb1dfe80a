"""Nodes from our own profile, and one prediction from several measured devices."""

from dataclasses import replace

import pytest

import factories as make
from onnxdyno.analysis.nodes import device_times
from onnxdyno.analysis.prediction import Basis, ProfileNode, predict, predict_from, profile_nodes
from onnxdyno.domain.cost import Cost, Count, NodeCost
from onnxdyno.domain.errors import SpecError
from onnxdyno.domain.outcomes import NodeTiming, Profile

NODES = (
    ProfileNode(kind="Gemm", flops=1e11, bytes=1e8, latency_ns=2.5e7),
    ProfileNode(kind="Relu", flops=1e7, bytes=5e8, latency_ns=2.2e6),
)


def scaled(factor: float) -> tuple[ProfileNode, ...]:
    return tuple(replace(node, latency_ns=(node.latency_ns or 0.0) * factor) for node in NODES)


def test_a_measured_target_is_its_own_profile() -> None:
    found = predict_from({"t4": NODES, "v100-pcie-32gb": scaled(0.3)}, ["v100-pcie-32gb", "l4"])
    assert found[0].basis is Basis.MEASURED
    assert found[0].latency_ns == pytest.approx(2.72e7 * 0.3)
    assert found[1].basis is Basis.EXTRAPOLATED


def test_two_sources_of_one_relation_give_their_geometric_mean() -> None:
    both = predict_from({"t4": NODES, "v100-pcie-32gb": scaled(0.3)}, ["l4"])[0]
    alone = [predict(nodes, source, ["l4"])[0] for source, nodes in (("t4", NODES), ("v100-pcie-32gb", scaled(0.3)))]
    assert both.latency_ns == pytest.approx(((alone[0].latency_ns or 0) * (alone[1].latency_ns or 0)) ** 0.5)
    assert both.source_id == "t4 + v100-pcie-32gb"


def test_a_nearer_source_speaks_alone() -> None:
    both = predict_from({"p100-pcie-16gb": scaled(0.6), "a100-pcie-40gb": scaled(0.2)}, ["a100-pcie-80gb"])[0]
    assert both.source_id == "a100-pcie-40gb"


def test_a_gpu_speaks_before_a_cpu() -> None:
    both = predict_from({"xeon-8375c": scaled(9), "t4": NODES}, ["l4"])[0]
    assert both == predict(NODES, "t4", ["l4"])[0]
    lone = predict_from({"xeon-8375c": scaled(9), "epyc-7r13": scaled(9)}, ["l4"])[0]
    assert lone.latency_ns is None
    assert lone.low_ns is not None


def test_no_profile_is_refused() -> None:
    with pytest.raises(SpecError):
        predict_from({}, ["t4"])


def timing(name: str, op_type: str = "Conv", kernel_ns: int | None = None) -> NodeTiming:
    return NodeTiming(
        path="",
        index=0,
        name=name,
        op_type=op_type,
        provider="CPUExecutionProvider",
        self_ns=1000,
        runs=1,
        output_bytes=None,
        input_shapes="",
        output_shapes="",
        kernel_ns=kernel_ns,
    )


def counted(name: str, output: str, flops: int | None) -> NodeCost:
    return NodeCost(
        path="",
        index=0,
        name=name,
        op_type="Conv",
        output=output,
        runs=1,
        flops=flops,
        read_bytes=100,
        written_bytes=50,
        output_bytes=50,
        output_shapes=(),
    )


def test_our_own_profile_meets_our_own_arithmetic_by_name() -> None:
    none = Count(value=None, reason="not asked")
    cost = Cost(
        sizes=(),
        flops=none,
        least_flops=0,
        read_bytes=none,
        written_bytes=none,
        parameters=0,
        weight_bytes=0,
        input_bytes=none,
        output_bytes=none,
        activation_peak_bytes=none,
        nodes=(counted("conv1", "y1", 2000), counted("conv2", "y2", None)),
        uncounted=(),
    )
    profile = Profile(
        point=make.point(batch=1),
        is_complete=True,
        runs=1,
        model_run_ns=None,
        nodes=(timing("conv1"), timing("y1_nchwc", kernel_ns=700), timing("conv2"), timing("unknown", "Reorder")),
    )
    found = profile_nodes(profile, cost)
    assert [(each.flops, each.bytes, each.latency_ns) for each in found] == [
        (2000, 150, 1000),
        (2000, 150, 700),
        (0, 150, 1000),
        (0, 0, 1000),
    ]


def test_what_starting_a_node_on_a_gpu_took_is_never_taken_for_its_time() -> None:
    started = replace(timing("conv1"), provider="CUDAExecutionProvider")
    host = replace(timing("shape", "Shape"), provider="CPUExecutionProvider")
    assert device_times((started, host)) == (None, 1000)
    assert device_times((replace(started, kernel_ns=700), started, host)) == (700, 1000, 1000)
