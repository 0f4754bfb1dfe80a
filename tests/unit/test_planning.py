"""Plans: which points run, in which order, and which are ruled out with a reason."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import factories as make
from onnxdyno.domain.devices import Device, DeviceKind
from onnxdyno.domain.errors import SpecError
from onnxdyno.domain.models import LocalModel, ModelRef, Signature
from onnxdyno.domain.plan import BenchmarkPlan, BenchmarkSpec, InputRule, Point, Variant
from onnxdyno.domain.sessions import CudnnSearch
from onnxdyno.graphs.signature import read_signature
from onnxdyno.planning import BATCHES, MOST_CANDIDATES, MOST_POINTS, SIDES_PX, base_candidates, expand, rebase

CASES = Path(__file__).parent.parent / "cases"
DEVICE = Device(
    id="cpu", kind=DeviceKind.CPU, name="cpu", device_class="cpu", memory_bytes=None, cores=(0, 1), threads=1
)
MODEL = LocalModel(ref=ModelRef(name="m.onnx", sha256="0" * 64, size_bytes=1), path=Path("m.onnx"))
ALL = sorted(path.stem for path in CASES.glob("*.onnx"))
READABLE = [name for name in ALL if not name.startswith(("git_lfs", "html", "truncated", "zero_bytes", "zip"))]


def signature(case: str) -> Signature:
    return read_signature(CASES / f"{case}.onnx")


def plan(case: str, spec: BenchmarkSpec | None = None) -> BenchmarkPlan:
    return expand(spec or BenchmarkSpec(), signature(case), MODEL, DEVICE)


def column(made: BenchmarkPlan, axis: str) -> list[int]:
    return [dict(point.sizes)[axis] for point in made.points]


def test_without_a_spec_the_batch_is_swept_around_the_base() -> None:
    made = plan("initializer_as_input_ir8")
    assert column(made, "N") == list(BATCHES)
    assert made.base == made.points[0]
    assert (made.batch_axes, made.fixed_batch, made.threads) == (("N",), None, 1)


def test_images_get_a_star_of_batch_and_resolution() -> None:
    made = plan("unet_multiple_of_8")
    assert dict(made.base.sizes) == {"N": 1, "H": 224, "W": 224}
    assert len(made.points) == len(BATCHES) + len(SIDES_PX) - 1
    moved = [point for point in made.points if dict(point.sizes)["H"] != 224]
    assert all(dict(p.sizes)["N"] == 1 and dict(p.sizes)["H"] == dict(p.sizes)["W"] for p in moved)


@pytest.mark.parametrize(("case", "fixed"), [("static_batch1", 1), ("static_batch4", 4)])
def test_a_static_batch_is_not_swept(case: str, fixed: int) -> None:
    made = plan(case)
    assert [dict(point.sizes) for point in made.points] == [{"batch": fixed, "height": 16, "width": 16}]
    assert made.fixed_batch == fixed
    assert [dict(e.point.sizes)["batch"] for e in made.excluded] == [n for n in BATCHES if n != fixed]
    assert all(f"fixed at {fixed}" in e.reason for e in made.excluded)


def test_an_asked_resolution_that_is_fixed_becomes_a_row_with_a_reason() -> None:
    made = plan("static_batch1", BenchmarkSpec(batches=(1,), resolutions_px=((16, 16), (32, 32))))
    assert [(dict(e.point.sizes), e.reason) for e in made.excluded] == [
        ({"batch": 1, "height": 32, "width": 32}, "the model's height is fixed at 16.")
    ]
    assert plan("grouped_conv_counts").excluded == ()


def test_what_the_model_has_no_axis_for_is_excluded() -> None:
    made = plan("initializer_as_input_ir8", BenchmarkSpec(sequences=(16,), resolutions_px=((8, 8),)))
    assert sorted(e.reason for e in made.excluded) == [
        "the model has no height axis.",
        "the model has no sequence axis.",
    ]
    assert column(made, "N") == list(BATCHES)


def test_what_is_asked_together_is_crossed() -> None:
    spec = BenchmarkSpec(batches=(2, 1), resolutions_px=((64, 40), (32, 32)))
    made = plan("unet_multiple_of_8", spec)
    assert {(dict(p.sizes)["N"], dict(p.sizes)["H"]) for p in made.points} == {(1, 32), (2, 32), (1, 64), (2, 64)}
    assert dict(made.base.sizes) == {"N": 1, "H": 32, "W": 32}


def test_axes_that_must_be_equal_are_swept_together() -> None:
    made = plan("same_size_different_names", BenchmarkSpec(batches=(1, 2), sequences=(3,)))
    assert [point.sizes for point in made.points] == [
        (("batch_a", 1), ("len_a", 3)),
        (("batch_a", 2), ("len_a", 3)),
    ]


def test_an_axis_can_be_named_by_its_symbol() -> None:
    made = plan("same_size_different_names", BenchmarkSpec(axes=(("batch_b", (3,)), ("len_a", (5, 2)))))
    assert [point.sizes for point in made.points] == [(("batch_a", 3), ("len_a", 2)), (("batch_a", 3), ("len_a", 5))]


def test_unnamed_dimensions_start_from_one() -> None:
    assert dict(plan("unnamed_dims").base.sizes) == {"batch": 1, "a:1": 1}


def test_audio_starts_from_512_samples() -> None:
    assert dict(plan("audio_scalar_sr_if").base.sizes) == {"batch": 1, "samples": 512}


@pytest.mark.parametrize("case", ["sequence_input", "sklearn_logreg_zipmap", "string_input"])
def test_values_that_are_no_tensors_are_measured_from_the_host(case: str) -> None:
    assert {point.variant for point in plan(case).points} == {Variant.E2E}


def test_an_unknown_axis_names_the_nearest() -> None:
    with pytest.raises(SpecError, match="Did you mean 'height'"):
        plan("nhwc_dynamic", BenchmarkSpec(axes=(("hight", (8,)),)))


def test_an_unknown_input_names_the_nearest() -> None:
    with pytest.raises(SpecError, match="Did you mean 'image'"):
        plan("nhwc_dynamic", BenchmarkSpec(inputs=(InputRule(name="imag", value=0),)))


def test_more_points_than_the_cap_are_refused() -> None:
    with pytest.raises(SpecError, match="at most 256"):
        plan("text_vocab64", BenchmarkSpec(batches=tuple(range(1, 31)), sequences=tuple(range(1, 31))))


def test_a_plan_moves_to_the_base_that_ran() -> None:
    found = signature("min_resolution_33")
    made = expand(BenchmarkSpec(), found, MODEL, DEVICE)
    ran = next(point for point in made.base_candidates if dict(point.sizes)["H"] == 48)
    moved = rebase(made, found, ran)
    assert moved.base == moved.points[0] == ran
    assert {dict(p.sizes)["H"] for p in moved.points} == {48}
    assert {dict(p.sizes)["W"] for p in moved.points} == {160, 224, 320, 448, 640}
    assert moved.base_candidates == made.base_candidates


sizes = st.lists(st.integers(1, 2**31), min_size=1, max_size=5, unique=True).map(tuple)
specs = st.builds(
    BenchmarkSpec,
    batches=st.none() | sizes,
    sequences=st.none() | sizes,
    resolutions_px=st.none()
    | st.lists(st.tuples(st.integers(1, 4096), st.integers(1, 4096)), min_size=1, max_size=3).map(tuple),
    variants=st.sampled_from([(Variant.DEVICE,), (Variant.E2E,), (Variant.DEVICE, Variant.E2E)]),
)


@settings(deadline=None)
@given(st.sampled_from(READABLE), specs)
def test_every_plan_is_sound(case: str, spec: BenchmarkSpec) -> None:
    found = signature(case)
    made = expand(spec, found, MODEL, DEVICE)
    names = {axis.name for axis in found.axes}
    assert made.points[0] == made.base
    assert made.base == made.base_candidates[0]
    assert len(set(made.points)) == len(made.points) <= MOST_POINTS
    assert len({point.key for point in made.points}) == len(made.points)
    assert 1 <= len(made.base_candidates) <= MOST_CANDIDATES
    assert all({name for name, _ in point.sizes} == names for point in (*made.points, *made.base_candidates))
    assert not {e.point for e in made.excluded} & set(made.points)
    asked = set(spec.batches or BATCHES)
    for name in made.batch_axes:
        assert {dict(point.sizes)[name] for point in made.points} <= asked


@settings(deadline=None)
@given(st.sampled_from(READABLE), specs)
def test_the_same_question_gets_the_same_plan(case: str, spec: BenchmarkSpec) -> None:
    found = signature(case)
    assert expand(spec, found, MODEL, DEVICE) == expand(spec, found, MODEL, DEVICE)
    for candidate in base_candidates(spec, found):
        moved = rebase(expand(spec, found, MODEL, DEVICE), found, Point(sizes=candidate, variant=Variant.DEVICE))
        assert moved.points[0].sizes == candidate


def test_variants_that_only_cuda_has_are_one_row_each_on_a_cpu() -> None:
    spec = BenchmarkSpec(batches=(1, 2), variants=(Variant.GRAPH, Variant.DEVICE, Variant.ENQUEUE))
    plan = expand(spec, make.image_signature(), make.local_model(), make.cpu_device())
    assert {point.variant for point in plan.points} == {Variant.DEVICE}
    assert plan.base.variant is Variant.DEVICE
    left_out = [each for each in plan.excluded if each.point.variant.is_cuda_only]
    assert [each.point.variant for each in left_out] == [Variant.GRAPH, Variant.ENQUEUE]
    assert all("CUDA" in each.reason for each in left_out)
    moved = rebase(plan, make.image_signature(), plan.base)
    assert [each for each in moved.excluded if each.point.variant.is_cuda_only] == left_out


def test_the_base_on_a_gpu_is_of_a_variant_that_every_device_has() -> None:
    spec = BenchmarkSpec(batches=(1,), variants=(Variant.GRAPH, Variant.E2E))
    plan = expand(spec, make.image_signature(), make.local_model(), make.gpu_device())
    assert plan.base.variant is Variant.E2E
    assert [point.variant for point in plan.points[:2]] == [Variant.E2E, Variant.GRAPH]
    alone = expand(
        BenchmarkSpec(variants=(Variant.GRAPH,)), make.image_signature(), make.local_model(), make.gpu_device()
    )
    assert alone.base.variant is Variant.DEVICE


def test_spinning_and_the_search_of_cudnn_are_in_the_fingerprint_once() -> None:
    spec = BenchmarkSpec(spinning=False, cudnn_search=CudnnSearch.HEURISTIC)
    plan = expand(spec, make.image_signature(), make.local_model(), make.gpu_device())
    moved = rebase(plan, make.image_signature(), plan.base)
    facts = [(fact.name, fact.value) for fact in moved.device.fingerprint]
    assert facts == [("spinning", "false"), ("cudnn_search", "HEURISTIC")]
    on_cpu = expand(spec, make.image_signature(), make.local_model(), make.cpu_device())
    assert "cudnn_search" not in {fact.name for fact in on_cpu.device.fingerprint}
