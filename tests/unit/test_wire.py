"""What crosses the border between processes comes out as it went in."""

from dataclasses import replace

import pytest

import factories as make
from onnxdyno import wire
from onnxdyno.domain.assignments import (
    Assignment,
    Began,
    Copied,
    Done,
    Event,
    NotCopied,
    Pass,
    Ran,
    Refused,
    Searched,
    Settled,
    Tried,
    Turn,
    Unusable,
)
from onnxdyno.domain.axes import AxisRule, Constraints
from onnxdyno.domain.ceilings import CeilingReading
from onnxdyno.domain.cold import ColdReading, FileReading
from onnxdyno.domain.errors import InfrastructureError
from onnxdyno.domain.outcomes import ArenaReading, Explored, Flag, LaunchReading, ModelState, PointState, Probe
from onnxdyno.domain.plan import Protocol, Variant
from onnxdyno.domain.sessions import Optimisation

HOSTILE = 'quo"te \\ new\nline \x1b[31m </script> é漢\u2028'
POINT = make.point(batch=4, height=320)

EVENTS: tuple[Event | Probe, ...] = (
    Began(turn=3),
    Done(),
    Ran(point=POINT, run_ns=2**62, outputs=(HOSTILE,)),
    Tried(sizes=((HOSTILE, 3),), is_fine=False),
    Searched(),
    Explored(sizes=((HOSTILE, 3),), call_ns=None, state=PointState.OOM, reason=HOSTILE),
    Settled(),
    Copied(how=HOSTILE),
    NotCopied(reason=HOSTILE),
    Refused(state=ModelState.UNSUPPORTED, reason=HOSTILE, remedy="Do something."),
    Unusable(reason=HOSTILE),
    LaunchReading(
        launch=1,
        session_ns=5,
        providers=("CPUExecutionProvider",),
        assignment=(("CPU", "Conv", 2),),
        runtime=(("a", "b"),),
        file=FileReading(read_bytes=1, was_cached=None, cached_ns=2, uncached_ns=None, reason=HOSTILE),
    ),
    ArenaReading(point=POINT, peak_bytes=None, held_bytes=None, runs=5, reason=HOSTILE),
    CeilingReading(micro="MatMul float32", launch=2, call_ns=12.5),
    ColdReading(
        point=POINT, optimisation=Optimisation.NONE, launch=1, session_ns=None, first_run_ns=None, reason=HOSTILE
    ),
    make.measured(
        POINT,
        samples_ns=tuple(range(1000)),
        excluded=((3, 4, "throttled"),),
        flags=(Flag.NON_FINITE, Flag.CPU_NODES),
        reason=HOSTILE,
        state=PointState.NOISY,
    ),
    make.skipped(replace(POINT, variant=Variant.E2E), PointState.OOM, HOSTILE, launch=None),
    make.memory_reading(POINT, None),
    make.profile(POINT, (make.node(HOSTILE, output_bytes=None), make.node("b", index=2))),
    Probe(
        point=None,
        tried=(make.skipped(POINT),),
        constraints=Constraints(rules=(AxisRule(axis=HOSTILE, multiple=32),), squares=(("h", "w"),), tries=9),
    ),
)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_every_event_survives_as_one_line(event: Event | Probe) -> None:
    line = wire.encode(event)
    assert b"\n" not in line
    assert wire.decode(line) == event


def test_every_kind_of_event_is_tried_here() -> None:
    assert {type(event) for event in EVENTS} == set(wire._NAMES)


def test_an_assignment_survives() -> None:
    assignment = Assignment(
        kind=Pass.TIMING,
        launch=2,
        launches=3,
        model_path="/cache/" + HOSTILE,
        device=make.gpu_device(),
        threads=3,
        recipes=make.text_signature().recipes,
        turns=(Turn(point=POINT, budget_ns=10**12),),
        seed=7,
        protocol=Protocol(most_samples=10),
        memory_limit_bytes=2**40,
        signature=make.image_signature(),
        history=((POINT.sizes, True),),
    )
    assert wire.decode_assignment(wire.encode_assignment(assignment)) == assignment


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"Traceback (most recent call last):",
        b'{"kind":"began"}',
        b'{"kind":"nothing","value":{}}',
        b'{"kind":"began","value":{"turn":"one"}}',
        b'{"kind":"began","value":{"turn":1}',
        b"\xff\xfe\x1b[31m",
    ],
)
def test_anything_else_is_one_clear_line(line: bytes) -> None:
    with pytest.raises(InfrastructureError, match="not an event of a measuring process") as refused:
        wire.decode(line)
    assert str(refused.value).isprintable()
