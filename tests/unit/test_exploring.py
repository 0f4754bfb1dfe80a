"""Sizes worth measuring, found by a few calls: a machine is a function from batch to the time of a call."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import factories as make
from onnxdyno.domain.axes import AxisRule, Constraints, axis_sizes
from onnxdyno.domain.outcomes import Explored, PointState
from onnxdyno.domain.plan import BenchmarkSpec, Protocol
from onnxdyno.planning.exploring import next_to_explore, question, worth_measuring

BASE = axis_sizes({"batch": 1, "height": 224, "width": 224})
MS = 1_000_000
Machine = Callable[[int], int | None]
"""Nanoseconds of a call at this batch; None: out of memory."""


def explored(machine: Machine, rule: AxisRule | None = None, **spec: object) -> tuple[list[int], list[int]]:
    """The batches that were tried, in order, and those that are worth measuring."""
    signature = make.image_signature()
    asked = question(
        BenchmarkSpec(resolutions_px=((224, 224),), **spec),  # type: ignore[arg-type]
        signature,
        Protocol(),
        BASE,
        Constraints(rules=(rule,) if rule else ()),
    )
    tries: list[Explored] = []
    while (sizes := next_to_explore(asked, tries)) is not None:
        call_ns = machine(dict(sizes)["batch"])
        tries.append(Explored(sizes=sizes, call_ns=call_ns, state=None if call_ns else PointState.OOM))
        assert len(tries) < 40
    (worth,) = worth_measuring(asked, tries)
    return [dict(each.sizes)["batch"] for each in tries], [dict(sizes)["batch"] for sizes in worth]


def test_a_machine_that_gains_nothing_is_left_after_two_doublings() -> None:
    assert explored(lambda batch: MS * batch) == ([1, 2, 4], [1, 2, 4])


def test_one_doubling_without_gain_does_not_end_the_climb() -> None:
    steps = {1: 10, 2: 20, 4: 30, 8: 40, 16: 80, 32: 160}
    assert explored(lambda batch: steps[batch] * MS)[0] == [1, 2, 4, 8, 16, 32]


def test_the_largest_batch_that_fits_is_found_within_a_sixteenth() -> None:
    tried, worth = explored(lambda batch: MS if batch <= 100 else None)
    assert worth[:7] == [1, 2, 4, 8, 16, 32, 64]
    fits, too_large = worth[7:]
    assert fits <= 100 < too_large
    assert too_large - fits <= fits / 16 + 1
    assert len(tried) <= 14


def test_a_call_too_long_for_the_budget_is_not_climbed_to() -> None:
    assert explored(lambda batch: 400 * MS, budget_s=12.0)[0] == [1]


@given(target_ms=st.floats(1.5, 400), floor_ms=st.floats(0, 2))
def test_the_largest_batch_within_a_target_is_closed_in_on(target_ms: float, floor_ms: float) -> None:
    def machine(batch: int) -> int:
        return round((floor_ms + batch) * MS)

    tried, worth = explored(machine, latency_target_ms=target_ms)
    meets = [batch for batch in worth if floor_ms + batch <= target_ms]
    best = max((batch for batch in range(1, 400) if floor_ms + batch <= 0.97 * target_ms), default=None)
    assert len(tried) <= 14
    if best is not None:
        assert max(meets) >= best - max(1, best / 8)


def test_batches_keep_to_the_multiples_that_the_model_takes() -> None:
    tried, _ = explored(lambda batch: MS if batch <= 22 else None, AxisRule(axis="batch", multiple=2))
    assert all(batch % 2 == 0 for batch in tried[1:])


def test_what_a_spec_names_is_not_explored() -> None:
    asked = question(
        BenchmarkSpec(batches=(1, 2), resolutions_px=((224, 224),)),
        make.image_signature(),
        Protocol(),
        BASE,
        Constraints(),
    )
    assert next_to_explore(asked, ()) is None


@pytest.mark.parametrize("target_ms", [2.0, 3.0])
def test_the_largest_resolution_within_a_target_is_closed_in_on(target_ms: float) -> None:
    signature = make.image_signature()
    spec = BenchmarkSpec(batches=(1,), latency_target_ms=target_ms)
    rules = tuple(AxisRule(axis=name, multiple=32) for name in ("height", "width"))
    asked = question(spec, signature, Protocol(), BASE, Constraints(rules=rules))
    tries: list[Explored] = []
    while (sizes := next_to_explore(asked, tries)) is not None:
        side = dict(sizes)["height"]
        tries.append(Explored(sizes=sizes, call_ns=round(side * side / 224**2 * MS)))
    (worth,) = worth_measuring(asked, tries)
    within = [dict(sizes)["height"] for sizes in worth if dict(sizes)["height"] ** 2 / 224**2 <= target_ms]
    limit = 224 * (0.97 * target_ms) ** 0.5
    assert limit - 32 <= max(within) <= limit * 1.02
