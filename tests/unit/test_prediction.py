"""Latency on another device: physics that cannot be wrong, shrinkage, and what a prediction says of itself."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from onnxdyno.analysis.prediction import Basis, Bound, ProfileNode, Relation, predict, spread
from onnxdyno.analysis.prediction.calibration import PRIOR, from_document, shipped_calibration, to_document
from onnxdyno.analysis.prediction.ceilings import Ceilings, ceilings
from onnxdyno.analysis.prediction.fitting import MeasuredProfile, fit
from onnxdyno.analysis.prediction.kinds import OpClass, op_class
from onnxdyno.analysis.prediction.physics import columns, l2_gain, times
from onnxdyno.analysis.prediction.transfer import COMPUTE, LAUNCH, MEMORY, project, see, transferred
from onnxdyno.domain.errors import SpecError
from onnxdyno.hardware.lookup import Catalogue, shipped
from onnxdyno.hardware.sustained import Sustained


def node(kind: str = "linear", flops: float = 1e11, moved: float = 1e8, latency_ns: float | None = 2e7) -> ProfileNode:
    return ProfileNode(kind=kind, flops=flops, bytes=moved, latency_ns=latency_ns)


def profile(scale: float = 1.0) -> tuple[ProfileNode, ...]:
    """A model on a T4: large products, streams, and launches."""
    return (
        node(latency_ns=2.5e7 * scale),
        node("elem", 1e7, 5e8, 2.2e6 * scale),
        node("Softmax", 1e7, 3e8, 1.3e6 * scale),
        *(node("noop", 0, 0, 1e4 * scale) for _ in range(6)),
    )


def rates(device_id: str = "t4", dtype: str = "fp32") -> Ceilings:
    found = ceilings(shipped().find(device_id), dtype, shipped())
    assert found is not None
    return found


@pytest.mark.parametrize(
    "field", ["flop_per_s", "vector_flop_per_s", "bytes_per_s", "host_bytes_per_s", "l2_cache_bytes"]
)
def test_more_of_any_rate_is_never_slower(field: str) -> None:
    nodes = columns(
        [node(), node("Relu", 1e6, 3e7), node("MemcpyToHost", 0, 1e8), node("Erf", 1e10, 1e3), node("Add", 0, 1e6)]
    )
    slow = times(nodes, rates(), PRIOR).work_ns
    fast = times(nodes, replace(rates(), **{field: 2 * getattr(rates(), field)}), PRIOR).work_ns
    assert (fast <= slow).all()
    assert (fast < slow).any()


def test_twice_the_rates_take_half_the_time() -> None:
    here = rates()
    twice = replace(
        here,
        flop_per_s=2 * here.flop_per_s,
        vector_flop_per_s=2 * here.vector_flop_per_s,
        bytes_per_s=2 * here.bytes_per_s,
    )
    nodes = columns([node(), node("elem", 1e7, 5e8)])
    assert times(nodes, here, PRIOR).work_ns == pytest.approx(2 * times(nodes, twice, PRIOR).work_ns)


def test_more_work_never_takes_less_time() -> None:
    sizes = np.geomspace(1e3, 1e13, 200)
    by_flops = times(columns([node(flops=size, moved=1.0) for size in sizes]), rates("a100-pcie-40gb"), PRIOR).work_ns
    by_bytes = times(columns([node("elem", 0, size) for size in sizes]), rates("a100-pcie-40gb"), PRIOR).work_ns
    assert (np.diff(by_flops) >= 0).all()
    assert (np.diff(by_bytes) >= 0).all()


def test_the_last_wave_at_most_doubles_a_product_and_vanishes_for_large_ones() -> None:
    small, large = times(columns([node(flops=1e3, moved=0), node(flops=1e14, moved=0)]), rates(), PRIOR).wave_share
    assert 0 < large < 0.001 < small < 0.51


def test_traffic_that_fits_into_l2_is_faster_and_large_traffic_is_not() -> None:
    at = rates("l4")
    assert at.l2_cache_bytes == 48 * 2**20
    gain = l2_gain(np.array([1e5, 2e7, 4e8]), at)
    assert gain[0] > gain[1] > gain[2] == 1.0


def test_a_launch_bound_model_follows_its_launches_not_the_peaks() -> None:
    tiny = tuple(node("Relu", 1e3, 1e4, 5e3) for _ in range(500))
    found = predict(tiny, "t4", ["h100-sxm5-80gb"])[0]
    assert found.bound is Bound.LAUNCH
    assert found.latency_ns is not None
    assert 0.5 < found.latency_ns / (500 * 5e3) < 3


def test_a_view_that_took_no_time_moves_nothing_on_the_target_either() -> None:
    alias = node("contiguous", 1e8, 1e9, 1e4)
    with_it, without = (predict((*profile(), *more), "t4", ["p100-pcie-16gb"])[0] for more in ((alias,), ()))
    assert with_it.latency_ns is not None
    assert without.latency_ns is not None
    assert with_it.latency_ns - without.latency_ns < 1e5


def test_time_that_nothing_explains_is_not_lost() -> None:
    mystery = node("NonMaxSuppression", 0, 0, 5e7)
    found = predict((*profile(), mystery), "t4", ["p4"])[0]
    assert found.latency_ns is not None
    assert found.latency_ns > 5e7


def test_a_profile_is_seen_as_arithmetic_traffic_and_launches() -> None:
    seen = see(columns(profile()), rates(), PRIOR)
    assert [int(each) for each in seen.regime[:4]] == [COMPUTE, MEMORY, MEMORY, LAUNCH]
    assert seen.floor_ns == 1e4


def test_luck_is_shrunk_and_what_is_beyond_luck_transfers_whole() -> None:
    seen = replace(
        see(columns([node(), node(), node("noop"), node("Conv")]), rates(), PRIOR),
        residual=np.array([0.2, 3.0, 0.2, 0.2]),
        regime=np.array([COMPUTE, COMPUTE, LAUNCH, COMPUTE], dtype=np.int8),
    )
    numbers = replace(PRIOR, transfer_compute=0.25, transfer_launch=1.0, transfer_unchecked=0.6, transfer_alike=0.75)
    kept = transferred(seen, numbers, is_alike=False)
    assert kept == pytest.approx([0.05, 0.25 * np.log(2) + 3 - np.log(2), 0.2, 0.12])
    assert transferred(seen, numbers, is_alike=True)[0] == pytest.approx(0.15)


def test_kernel_luck_transfers_to_a_gpu_that_runs_the_same_kernels() -> None:
    def ratio(target: str) -> float:
        calm, lucky = (predict((node(latency_ns=took),), "a100-pcie-40gb", [target])[0] for took in (6.6e6, 9.9e6))
        assert calm.latency_ns is not None
        assert lucky.latency_ns is not None
        return lucky.latency_ns / calm.latency_ns

    assert ratio("a100-pcie-80gb") > 1.3
    assert ratio("v100-pcie-32gb") < 1.05


def test_a_model_of_operators_that_were_not_checked_says_so_and_is_less_sure() -> None:
    convs, products = (predict((node(kind),), "t4", ["v100-pcie-32gb"])[0] for kind in ("Conv", "Gemm"))
    assert (convs.basis, products.basis) == (Basis.EXTRAPOLATED, Basis.INTERPOLATED)
    assert "not checked" in convs.notes[0]
    assert (convs.high_ns or 0) / (convs.low_ns or 1) > (products.high_ns or 0) / (products.low_ns or 1)


def test_a_node_faster_than_its_dtype_allows_is_doubted() -> None:
    found = predict((node(latency_ns=2e6),), "t4", ["v100-pcie-32gb"])[0]
    assert any("another dtype" in note for note in found.notes)


def test_times_of_kernels_alone_do_not_turn_into_times_of_calls() -> None:
    kernels = tuple(node("Relu", 1e3, 1e4, 2e3) for _ in range(100))
    found = predict(kernels, "t4", ["v100-pcie-32gb"])[0]
    assert found.latency_ns is not None
    assert found.latency_ns < 1.3 * 100 * 2e3


def test_a_profile_projected_to_its_own_device_with_full_transfer_is_itself() -> None:
    whole = replace(PRIOR, transfer_compute=1.0, transfer_memory=1.0, transfer_launch=1.0, floor_transfer=1.0)
    seen = see(columns(profile()), rates(), whole)
    assert project(seen, rates(), rates(), whole).total_ns == pytest.approx(columns(profile()).latency_ns)


def test_efficiencies_of_one_gpu_move_a_quarter_of_the_way_and_no_further() -> None:
    at = rates("v100-pcie-32gb")
    nodes = [node(flops=flops, moved=1e6, latency_ns=None) for flops in (1e11, 2e11, 5e11)]
    slow = 2 * times(columns(nodes), at, PRIOR).work_ns
    measured = columns([replace(each, latency_ns=float(slow[k])) for k, each in enumerate(nodes)])
    fitted = fit([MeasuredProfile(model="m", device_id=at.device_id, nodes=measured)], {at.device_id: at})
    gemm, conv = list(OpClass).index(OpClass.GEMM), list(OpClass).index(OpClass.CONV)
    assert fitted.efficiency[gemm] == pytest.approx(2**-0.25, rel=0.02)
    assert fitted.efficiency[conv] == PRIOR.efficiency[conv]


def test_the_source_itself_is_its_own_sum_within_what_profiles_differ_by() -> None:
    found = predict(profile(), "t4", ["Tesla T4"])[0]
    total_ns = sum(each.latency_ns or 0 for each in profile())
    assert found.basis is Basis.MEASURED
    assert found.latency_ns == pytest.approx(total_ns)
    assert (found.low_ns, found.high_ns) == pytest.approx((total_ns / 1.05, total_ns * 1.05), rel=0.002)
    assert found.notes == ("the profile's own sum; that another profile is within 5 % of it is a prior",)


@pytest.mark.parametrize("target", [each.id for each in shipped().devices])
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "int8"])
def test_no_device_of_the_catalogue_has_a_number_without_an_interval(target: str, dtype: str) -> None:
    for source in ("t4", "a100-pcie-40gb", "xeon-8375c", None):
        found = predict(profile(), source, [target], dtype=dtype)[0]
        if found.latency_ns is not None:
            assert found.low_ns is not None
            assert found.high_ns is not None
            assert 0 < found.low_ns < found.latency_ns < found.high_ns < float("inf")
        else:
            assert found.reason


def test_what_a_prediction_rests_on_is_said() -> None:
    v100, h100, unmeasured = predict(profile(), "t4", ["v100-pcie-32gb", "h100-sxm5-80gb", "rtx-4090"])
    assert (v100.basis, v100.relation, v100.notes) == (Basis.INTERPOLATED, Relation.NEAR, ())
    assert (h100.basis, h100.relation) == (Basis.EXTRAPOLATED, Relation.FAR)
    assert any("estimated" in note for note in unmeasured.notes)
    for each in (v100, h100, unmeasured):
        assert each.low_ns is not None
        assert each.high_ns is not None
        assert each.latency_ns is not None
        assert each.low_ns < each.latency_ns < each.high_ns
        assert sum((each.compute_share or 0, each.memory_share or 0, each.launch_share or 0)) == pytest.approx(1)


def test_a_target_whose_rates_are_estimated_has_a_wider_interval() -> None:
    known = shipped()
    hidden = replace(known, sustained=tuple(each for each in known.sustained if each.accelerator_id != "l4"))
    (sure,), (unsure,) = (predict(profile(), "t4", ["l4"], catalogue=each) for each in (known, hidden))
    assert (unsure.high_ns or 0) / (unsure.low_ns or 1) > (sure.high_ns or 0) / (sure.low_ns or 1) > 1


def test_between_a_cpu_and_a_gpu_there_is_a_labelled_range_and_no_number() -> None:
    for source, target in (("xeon-8375c", "t4"), ("t4", "xeon-8375c")):
        found = predict(profile(), source, [target])[0]
        assert found.latency_ns is None
        assert found.low_ns is not None
        assert found.high_ns is not None
        assert found.high_ns / found.low_ns >= 15
        assert found.reason is not None
        assert "range" in found.reason


def test_a_cpu_profile_does_not_move_the_range_on_a_gpu() -> None:
    slow, fast = (predict(profile(scale), "xeon-8375c", ["t4"])[0] for scale in (1.0, 10.0))
    assert slow.low_ns == fast.low_ns


def test_from_cpu_to_cpu_a_faster_one_is_faster() -> None:
    found = predict(profile(), "xeon-8259cl", ["epyc-9r14"])[0]
    assert found.basis is Basis.EXTRAPOLATED
    assert found.latency_ns is not None
    assert found.latency_ns < sum(each.latency_ns or 0 for each in profile())


def test_between_cpus_of_one_kind_with_measured_rates_time_follows_the_rates() -> None:
    like = shipped().cpus[0]
    pair = tuple(replace(like, id=name, name=name) for name in ("slow", "fast"))
    measured = tuple(
        Sustained(accelerator_id=name, fp32_flop_per_s=scale * 1e12, memory_bytes_per_s=scale * 5e10)
        for name, scale in (("slow", 1), ("fast", 2))
    )
    known = Catalogue(accelerators=(), cpus=pair, sustained=measured)
    found = predict((node(latency_ns=1.05e8),), "slow", ["fast"], catalogue=known)[0]
    assert found.latency_ns == pytest.approx(1.05e8 / 2, rel=0.05)
    assert all("estimated" not in note for note in found.notes)


def test_a_dtype_that_a_device_lacks_gives_nothing_and_says_why() -> None:
    found = predict(profile(), "a100-pcie-40gb", ["t4"], dtype="tf32")[0]
    assert (found.latency_ns, found.low_ns, found.high_ns) == (None, None, None)
    assert found.reason == "the peak of t4 for tf32 is not known"


def test_without_a_source_latencies_are_not_used() -> None:
    bare = tuple(replace(each, latency_ns=None) for each in profile())
    assert predict(bare, None, ["t4"]) == predict(profile(), None, ["t4"])
    assert predict(bare, None, ["t4"])[0].basis is Basis.EXTRAPOLATED


@pytest.mark.parametrize(
    ("nodes", "source", "target", "dtype", "said"),
    [
        ((), "t4", "l4", "fp32", "no nodes"),
        ((node(latency_ns=None),), "t4", "l4", "fp32", "no latency"),
        ((node(), node(flops=float("nan"))), "t4", "l4", "fp32", "node 1 .* expected flops from 0 to 1e.24, found nan"),
        ((node(moved=-1.0),), "t4", "l4", "fp32", "expected bytes"),
        ((node(latency_ns=float("inf")),), "t4", "l4", "fp32", "expected latency_ns .* found inf"),
        ((node(latency_ns=0.0), node("x", 0, 0, 0.0)), "t4", "l4", "fp32", "took any time"),
        ((node(),), "t5", "l4", "fp32", "Nearest: t4"),
        ((node(),), "NVIDIA T4", "l4", "fp32", "Nearest: t4"),
        ((node(),), "A100", "l4", "fp32", "Nearest: a100-pcie-40gb, a100-pcie-80gb, a100-sxm4-40gb"),
        ((node(),), "t4", "rtx4099", "fp32", "rtx-4090"),
        ((node(),), "t4", "l4", "fp31", "fp32, tf32"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    nodes: tuple[ProfileNode, ...], source: str, target: str, dtype: str, said: str
) -> None:
    with pytest.raises(SpecError, match=said):
        predict(nodes, source, [target], dtype=dtype)


@pytest.mark.parametrize(("name", "never"), [("RTX A1000", "a100-pcie-40gb"), ("T400", "t4"), ("RTX 4060", "rtx-4080")])
def test_a_name_is_never_matched_in_part(name: str, never: str) -> None:
    with suppress(SpecError):
        assert shipped().find(name).id != never


def test_a_name_that_several_devices_share_lists_them() -> None:
    with pytest.raises(SpecError, match="jetson-orin-nano-8gb, jetson-orin-nano-super"):
        shipped().find("Orin (nvgpu)")


def test_every_gpu_has_ceilings_below_its_peaks() -> None:
    for device in shipped().accelerators:
        found = rates(device.id)
        assert 0.05 * device.fp32_flop_per_s < found.flop_per_s < device.fp32_flop_per_s
        assert found.bytes_per_s < device.memory_bytes_per_s


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("Conv", OpClass.CONV),
        ("MatMul", OpClass.GEMM),
        ("bmm", OpClass.BATCHED),
        ("Layer_Norm", OpClass.NORM),
        ("MemcpyFromHost", OpClass.COPY),
        ("MyOp", OpClass.OTHER),
        ("", OpClass.OTHER),
    ],
)
def test_an_operator_has_a_class(kind: str, expected: OpClass) -> None:
    assert op_class(kind) is expected


def test_the_shipped_numbers_are_read_and_written_alike() -> None:
    shipped_numbers = shipped_calibration()
    assert from_document(to_document(shipped_numbers)) == shipped_numbers
    assert "MIT" in shipped_numbers.source
    assert {(each.relation, each.bound) for each in shipped_numbers.quantiles} == {
        (relation, bound) for relation in Relation for bound in Bound
    }


def test_work_that_took_no_time_is_doubted() -> None:
    found = predict((*profile(), node(latency_ns=0.0)), "t4", ["l4"])[0]
    assert found.latency_ns is not None
    assert any("took no time on t4" in note for note in found.notes)


def test_a_total_is_spread_over_nodes_by_the_arithmetic_of_its_device() -> None:
    whole = spread(profile(), "t4", 5e7)
    assert sum(each.latency_ns or 0 for each in whole) == pytest.approx(5e7)
    assert (whole[0].latency_ns or 0) > 5 * (whole[1].latency_ns or 1) > 0
    assert spread((), "t4", 5e7) == ()
    assert spread(profile(), "t4", 5e7, dtype="bf16") == ()


def test_a_model_that_takes_longer_than_its_arithmetic_does_so_elsewhere_too() -> None:
    (fair_ns, slow_ns) = (
        predict(spread(profile(), "t4", total_ns), "t4", ["l4"])[0].latency_ns for total_ns in (2.8e7, 28e7)
    )
    assert fair_ns is not None
    assert slow_ns is not None
    assert 4 < slow_ns / fair_ns < 10
