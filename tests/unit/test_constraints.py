"""What sizes a model takes, found by few tries: real ones in ONNX Runtime, and models that are a predicate."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper, numpy_helper

from onnxdyno.domain.axes import Axis, AxisRule, AxisSizes, Constraints, Role, axis_sizes
from onnxdyno.domain.devices import Device, DeviceKind
from onnxdyno.domain.models import Dim, LocalModel, ModelRef, Signature, TensorSpec
from onnxdyno.domain.plan import BenchmarkPlan, BenchmarkSpec, Point
from onnxdyno.graphs.constraints import MOST_TRIES, conclude, next_probe
from onnxdyno.graphs.materialise import materialise
from onnxdyno.graphs.signature import read_signature, signature_of
from onnxdyno.planning import BATCHES, base_candidates, expand, rebase

CASES = Path(__file__).parent.parent / "cases"
DEVICE = Device(id="cpu", kind=DeviceKind.CPU, name="cpu", device_class="cpu", memory_bytes=None, cores=(0,), threads=1)
LOCAL = LocalModel(ref=ModelRef(name="m.onnx", sha256="0" * 64, size_bytes=1), path=Path("m.onnx"))

Takes = Callable[[dict[str, int]], bool]
History = list[tuple[AxisSizes, bool]]


def tried(signature: Signature, takes: Takes) -> History:
    """Base candidates until one runs, then every try that is asked for."""
    history: History = []
    for sizes in base_candidates(BenchmarkSpec(), signature):
        history.append((sizes, takes(dict(sizes))))
        if history[-1][1]:
            break
    while (sizes := next_probe(signature, history)) is not None:  # type: ignore[assignment]
        assert sizes not in dict(history)
        history.append((sizes, takes(dict(sizes))))
    return history


def in_runtime(signature: Signature, model: bytes) -> Takes:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def takes(sizes: dict[str, int]) -> bool:
        try:
            session.run(None, {r.name: materialise(r, axis_sizes(sizes), 0) for r in signature.recipes})
        except Exception:  # noqa: BLE001  the runtime's exceptions have no common base class
            return False
        return True

    return takes


def found_in(model: ModelProto | Path) -> tuple[Signature, History, Constraints]:
    signature = read_signature(model) if isinstance(model, Path) else signature_of(model)
    content = model.read_bytes() if isinstance(model, Path) else model.SerializeToString()
    history = tried(signature, in_runtime(signature, content))
    return signature, history, conclude(signature, history)


@pytest.mark.parametrize(
    ("case", "lines"),
    [
        ("reshape_hardcoded_batch", ("N: only 1",)),
        ("nhwc_dynamic", ()),
        ("unet_multiple_of_8", ("H: multiples of 8", "W: multiples of 8")),
        ("min_resolution_33", ("H: at least 33", "W: at least 33")),
        ("text_vocab64", ()),
        ("lstm_state_batch_dim1", ()),
        ("decoder_past_kv", ()),
    ],
)
def test_the_constraints_of_a_case_are_found(case: str, lines: tuple[str, ...]) -> None:
    _, history, constraints = found_in(CASES / f"{case}.onnx")
    assert constraints.describe() == lines
    assert constraints.tries == len(history) <= 1 + MOST_TRIES


def made(nodes: Sequence[tuple[str, list[str], list[str], dict[str, Any]]], dims: list[int | str]) -> ModelProto:
    stored = [
        numpy_helper.from_array(np.array([0, -1, 2], dtype=np.int64), "pairs"),
        numpy_helper.from_array(np.array([-1, 2, 4], dtype=np.int64), "batch_pairs"),
        numpy_helper.from_array(np.array([0, 512], dtype=np.int64), "exactly"),
        numpy_helper.from_array(np.zeros((1, 40, 4), dtype=np.float32), "places"),
    ]
    graph = helper.make_graph(
        [helper.make_node(op, i, o, **a) for op, i, o, a in nodes],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        stored,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_model_that_takes_only_pairs_of_items_is_found_even() -> None:
    model = made([("Reshape", ["x", "batch_pairs"], ["y"], {})], ["batch", 4])
    signature, _, constraints = found_in(model)
    assert constraints.rule("batch").multiple == 2
    plan = rebased(signature, constraints, {"batch": 2})
    assert [dict(point.sizes)["batch"] for point in plan.points] == [2, 4, 8, 16, 32, 64, 128]


def test_a_model_that_takes_only_squares_is_found() -> None:
    turned = ("Transpose", ["x"], ["t"], {"perm": [0, 1, 3, 2]})
    pooled = ("AveragePool", ["x"], ["p"], {"kernel_shape": [1, 1]})
    signature, _, constraints = found_in(made([turned, pooled, ("Add", ["p", "t"], ["y"], {})], ["N", 3, "H", "W"]))
    assert [axis.name for axis in signature.axes] == ["N", "H", "W"]
    assert constraints.squares == (("H", "W"),)
    assert constraints.describe() == ("H and W must be equal",)


def test_a_window_of_one_size_is_the_only_size() -> None:
    _, _, constraints = found_in(made([("Reshape", ["x", "exactly"], ["y"], {})], ["batch", "samples"]))
    assert constraints.rule("samples").only == (512,)
    assert constraints.describe() == ("samples: only 512",)


def test_a_buffer_that_is_added_sets_the_largest_sequence() -> None:
    signature = pretend(("s", Role.SEQUENCE))
    constraints = conclude(signature, tried(signature, lambda sizes: sizes["s"] <= 200))
    assert constraints.rule("s").most is not None
    assert 128 <= (constraints.rule("s").most or 0) <= 200


def pretend(*axes: tuple[str, Role], limits: tuple[tuple[str, int], ...] = ()) -> Signature:
    dims = tuple(Dim(role=role, axes=(name,)) for name, role in axes)
    return Signature(
        inputs=(TensorSpec(name="x", kind="tensor", dtype="float32", dims=dims),),
        outputs=(),
        axes=tuple(Axis(name=name, role=role, size=None) for name, role in axes),
        recipes=(),
        opset=17,
        domains=(),
        ir_version=8,
        producer="",
        parameters=0,
        weight_bytes=0,
        precision="float32",
        node_count=1,
        op_types=(),
        limits=limits,
    )


IMAGE = pretend(("n", Role.BATCH), ("h", Role.HEIGHT), ("w", Role.WIDTH))


def rebased(signature: Signature, constraints: Constraints, base: dict[str, int]) -> BenchmarkPlan:
    plan = expand(BenchmarkSpec(), signature, LOCAL, DEVICE)
    at = Point(sizes=axis_sizes(base), variant=plan.base.variant)
    return rebase(plan, signature, at, constraints)


@settings(deadline=None)
@given(
    st.sampled_from([1, 2, 4, 8, 14, 16, 32, 64]),
    st.integers(1, 200),
    st.booleans(),
    st.sampled_from([1, 2]),
)
def test_what_is_concluded_agrees_with_every_try(multiple: int, least: int, is_square: bool, items: int) -> None:
    def takes(sizes: dict[str, int]) -> bool:
        sides = (sizes["h"], sizes["w"])
        is_right = all(side % multiple == 0 and side >= least for side in sides) and sizes["n"] % items == 0
        return is_right and (not is_square or sides[0] == sides[1])

    history = tried(IMAGE, takes)
    constraints = conclude(IMAGE, history)
    ran = [dict(sizes) for sizes, is_fine in history if is_fine]
    if not ran:
        assert not constraints.rules
        assert not constraints.squares
        return
    for sizes in ran:
        assert all(constraints.rule(name).allows(size) for name, size in sizes.items())
        assert all(sizes[h] == sizes[w] for h, w in constraints.squares)
    first = next(i for i, (_, is_fine) in enumerate(history) if is_fine)
    assert len(history) - first - 1 <= MOST_TRIES
    assert constraints.rule("h").multiple in (1, multiple)
    assert bool(constraints.squares) == is_square
    if ran[0]["h"] % multiple == 0:
        assert constraints.rule("h").multiple == multiple


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_whatever_a_model_answers_the_tries_end(seed: int) -> None:
    rng = np.random.default_rng(seed)
    signature = pretend(("n", Role.BATCH), ("h", Role.HEIGHT), ("w", Role.WIDTH), ("s", Role.SEQUENCE))
    history = tried(signature, lambda _: bool(rng.integers(0, 2)))
    conclude(signature, history)
    first = next((i for i, (_, is_fine) in enumerate(history) if is_fine), len(history))
    assert len(history) - first - 1 <= MOST_TRIES
    assert all(size > 0 for sizes, _ in history for _, size in sizes)


def test_a_first_guess_that_fails_rejects_nothing() -> None:
    history = tried(IMAGE, lambda sizes: sizes["h"] == sizes["w"] and sizes["h"] >= 300)
    assert not history[0][1]
    constraints = conclude(IMAGE, history)
    assert constraints.rule("h").least == 300
    assert constraints.squares == (("h", "w"),)


def test_without_a_base_there_is_nothing_to_ask() -> None:
    history = [(sizes, False) for sizes in base_candidates(BenchmarkSpec(), IMAGE)]
    assert next_probe(IMAGE, history) is None
    assert next_probe(IMAGE, []) is None
    assert conclude(IMAGE, history).rules == ()


def test_text_lines_keep_the_heights_that_ran() -> None:
    def takes(sizes: dict[str, int]) -> bool:
        return sizes["h"] in (32, 48, 64) and sizes["w"] >= 8

    constraints = conclude(IMAGE, tried(IMAGE, takes))
    assert constraints.rule("h").only == (32, 48, 64)
    assert constraints.rule("w").multiple == 1


def test_default_sweeps_move_to_the_sizes_that_are_allowed() -> None:
    constraints = Constraints(rules=(AxisRule(axis="h", multiple=192), AxisRule(axis="w", multiple=192)))
    plan = rebased(IMAGE, constraints, {"n": 1, "h": 384, "w": 384})
    sides = {dict(point.sizes)["h"] for point in plan.points}
    assert sides == {192, 384, 576, 768}
    assert plan.constraints == constraints


def test_a_batch_that_runs_at_one_size_only_keeps_its_rows() -> None:
    constraints = Constraints(rules=(AxisRule(axis="n", only=(1,)),))
    plan = rebased(pretend(("n", Role.BATCH)), constraints, {"n": 1})
    assert [dict(point.sizes)["n"] for point in plan.points] == list(BATCHES)


def test_what_a_spec_asks_is_tried_as_it_is_asked() -> None:
    constraints = Constraints(rules=(AxisRule(axis="h", multiple=32), AxisRule(axis="w", multiple=32)))
    spec = BenchmarkSpec(resolutions_px=((100, 100), (64, 64)))
    plan = expand(spec, IMAGE, LOCAL, DEVICE, constraints=constraints)
    assert {dict(point.sizes)["h"] for point in plan.points} == {64, 100}


def test_a_table_of_positions_cuts_base_and_sweep() -> None:
    signature = pretend(("n", Role.BATCH), ("s", Role.SEQUENCE), limits=(("s", 40),))
    assert dict(base_candidates(BenchmarkSpec(), signature)[0])["s"] == 40
    plan = expand(BenchmarkSpec(), signature, LOCAL, DEVICE)
    assert sorted({dict(point.sizes)["s"] for point in plan.points}) == [16, 32, 40]
    assert conclude(signature, [(plan.base.sizes, True)]).describe() == ("s: at most 40",)


def test_a_second_picture_has_the_size_of_the_first() -> None:
    """Found by the fuzz campaign: axes beyond the first height and width had no size at any point."""
    signature = pretend(
        ("h1", Role.HEIGHT), ("w1", Role.WIDTH), ("h2", Role.HEIGHT), ("w2", Role.WIDTH), ("s", Role.CHANNELS)
    )
    plan = expand(BenchmarkSpec(resolutions_px=((64, 32),)), signature, LOCAL, DEVICE)
    assert dict(plan.base.sizes) == {"h1": 64, "w1": 32, "h2": 64, "w2": 32, "s": 3}
    assert len(tried(signature, lambda _: True)) >= 1


def test_only_squares_leave_only_squares() -> None:
    constraints = Constraints(squares=(("h", "w"),))
    plan = rebased(IMAGE, constraints, {"n": 1, "h": 224, "w": 224})
    assert all(dict(point.sizes)["h"] == dict(point.sizes)["w"] for point in plan.points)
    assert len(plan.points) > len(BATCHES)
