"""Stored ceilings know what they lack: only that is measured, and what is good stays as it stood."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from factories import cpu_device
from fakes import FINE, FakeSampler
from onnxdyno import wire
from onnxdyno.analysis.ceilings import ceilings_from, lacking
from onnxdyno.domain.assignments import Assignment, Began, Done
from onnxdyno.domain.ceilings import Ceiling, CeilingKind, CeilingReading, Ceilings, MicroOutcome
from onnxdyno.domain.devices import Device, DeviceKind
from onnxdyno.domain.micros import _COPIED_BYTES, Micro, micros
from onnxdyno.domain.outcomes import PointState, Skipped
from onnxdyno.domain.plan import Point, Variant
from onnxdyno.domain.runs import Progress
from onnxdyno.launching.ceilings import measure_ceilings
from onnxdyno.ports import Exit, Launch
from onnxdyno.reporting import ceilings as told

CACHES = (2**15, 2**20)
KNOWN = micros(DeviceKind.CPU, CACHES)
FLOAT64 = (CeilingKind.FLOP_RATE, "MatMul float64", None)
RATE = 20e9


def reading(micro: Micro, launch: int, rate: float = RATE) -> CeilingReading:
    """On a device where every kind of work goes at one rate a second."""
    return CeilingReading(
        micro=micro.name, launch=launch, call_ns=5_000 + 400.0 * micro.nodes + micro.work / rate * 1e9
    )


def refused(name: str, state: PointState) -> Skipped:
    """A micro-model without a reading."""
    place = next(at for at, micro in enumerate(KNOWN) if micro.name == name)
    point = Point(sizes=(("micro", place),), variant=Variant.DEVICE)
    return Skipped(point=point, launch=1, state=state, reason=f"it is {state.value}")


def entry(name: str, *answers: MicroOutcome | None) -> Ceiling:
    """What three launches make of one micro-model; None: as on any other."""
    launches = []
    for launch, answer in enumerate(answers, 1):
        launches.append([answer if micro.name == name and answer else reading(micro, launch) for micro in KNOWN])
    return next(each for each in ceilings_from(KNOWN, launches) if each.label == name)


@dataclass
class Machine:
    """`ports.Launcher`: every micro-model at the same rate; it remembers what it was asked."""

    rate: float = RATE
    asked: list[list[str]] = field(default_factory=list)

    def start(self, device: Device, assignment: bytes) -> Launch:
        turns = wire.decode_assignment(assignment)
        self.asked.append([KNOWN[dict(turn.point.sizes)["micro"]].name for turn in turns.turns])
        return _Process(asked=turns, rate=self.rate)


@dataclass
class _Process:
    asked: Assignment
    rate: float

    def events(self, silence_s: Any) -> Generator[bytes, None, None]:
        for at, turn in enumerate(self.asked.turns):
            yield wire.encode(Began(turn=at))
            yield wire.encode(reading(KNOWN[dict(turn.point.sizes)["micro"]], self.asked.launch, self.rate))
        yield wire.encode(Done())

    def stop(self) -> Exit:
        return FINE


def measured(machine: Machine, standing: Ceilings | None = None, told: list[Progress] | None = None) -> Ceilings:
    """Ceilings by this machine."""
    return measure_ceilings(
        cpu_device(),
        1,
        cache_bytes=CACHES,
        runtime_version="1",
        launcher=machine,
        memory_limit_bytes=None,
        tell=(told if told is not None else []).append,
        sampler=FakeSampler([]),
        standing=standing,
    )


def without(known: Ceilings, *labels: str) -> Ceilings:
    """As code that did not know these kinds stored it."""
    return replace(known, entries=tuple(each for each in known.entries if each.label not in labels))


def test_only_what_is_missing_is_measured_and_the_rest_stays_as_it_stood() -> None:
    first = measured(Machine())
    old = without(first, "MatMul float64", "MatMul bfloat16")
    later, steps = Machine(rate=2 * RATE), list[Progress]()
    again = measured(later, old, steps)
    chain = ["node x 16", "node x 256"]
    assert later.asked == [[*chain, "MatMul float64", "MatMul bfloat16 x 1", "MatMul bfloat16 x 5"]] * 3
    assert [each.key for each in again.entries] == [each.key for each in first.entries]
    by_key = {each.key: each for each in again.entries}
    assert by_key[FLOAT64].value == pytest.approx(2 * RATE)
    kept = [each for each in again.entries if each.label not in ("MatMul float64", "MatMul bfloat16")]
    assert kept == [each for each in first.entries if each in kept]
    assert len(kept) == len(first.entries) - 2
    assert (steps[-1].done, steps[-1].total) == (15, 15)


def test_complete_ceilings_lack_nothing() -> None:
    assert lacking(KNOWN, measured(Machine()).entries) == ()
    assert set(lacking(KNOWN, ())) == {micro.key for micro in KNOWN}


def test_a_null_for_a_passing_cause_is_lacking_and_a_lasting_one_is_not() -> None:
    name = "MatMul float64"
    lost = entry(name, refused(name, PointState.TIMEOUT), None, None)
    never = entry(name, *(refused(name, PointState.UNSUPPORTED),) * 3)
    assert (lost.value, lost.is_lasting, never.value, never.is_lasting) == (None, False, None, True)
    good = [each for each in measured(Machine()).entries if each.label != name]
    assert lacking(KNOWN, [*good, lost]) == (FLOAT64,)
    assert lacking(KNOWN, [*good, never]) == ()


def test_a_node_too_short_in_every_launch_is_lasting_and_in_one_of_three_it_is_not() -> None:
    name = "MatMul float64"
    micro = next(each for each in KNOWN if each.name == name)
    short = [replace(reading(micro, launch), call_ns=5_500.0) for launch in (1, 2, 3)]
    assert entry(name, *short).is_lasting
    once = entry(name, short[0], None, None)
    assert (once.value, once.is_lasting) == (None, False)
    assert "dispatch" in (once.reason or "")


def test_a_null_of_older_code_is_tried_again_as_nobody_knows_whether_it_lasts() -> None:
    old = Ceiling(kind=CeilingKind.FLOP_RATE, label="MatMul float64", value=None, reason="it was disturbed")
    assert FLOAT64 in lacking(KNOWN, [old])


def test_a_missing_dispatch_is_measured_with_all_that_rests_on_it() -> None:
    first = measured(Machine())
    lost = [
        replace(each, value=None, low=None, high=None, reason="x") for each in first.entries if each.label == "node"
    ]
    again = measured(later := Machine(), replace(first, entries=(*lost, *without(first, "node").entries)))
    assert later.asked == [["node x 16", "node x 256"]] * 3
    assert [each.value for each in again.entries if each.label == "node"] == [pytest.approx(400.0)]


def test_what_was_measured_now_is_said_by_name() -> None:
    keys = (FLOAT64, (CeilingKind.BANDWIDTH, "stream", 2**20), (CeilingKind.H2D, "pinned", 2**16))
    (line,) = told.measured_now(keys)
    assert line.endswith("lacked them: MatMul float64, stream 1.00 MiB, h2d pinned 64.0 KiB")
    assert told.measured_now(()) == []


def copies(kind: DeviceKind) -> Iterator[Micro]:
    """Copies between host and device."""
    return (micro for micro in micros(kind) if micro.kind in (CeilingKind.H2D, CeilingKind.D2H))


def test_copies_are_measured_by_size_each_way_on_a_gpu_and_null_on_a_cpu() -> None:
    found = list(copies(DeviceKind.CUDA))
    sizes = {each.kind: [one.working_bytes for one in found if one.kind is each.kind] for each in found}
    assert sizes[CeilingKind.H2D] == sizes[CeilingKind.D2H] == list(_COPIED_BYTES)
    assert list(copies(DeviceKind.CPU)) == []
    nulls = [each for each in measured(Machine()).entries if each.label == "pinned"]
    assert [(each.kind, each.value, each.is_lasting) for each in nulls] == [
        (CeilingKind.H2D, None, True),
        (CeilingKind.D2H, None, True),
    ]
    assert all("nothing is copied" in (each.reason or "") for each in nulls)


def test_a_rate_of_copies_is_bytes_by_the_time_of_one_copy_with_its_interval() -> None:
    known = micros(DeviceKind.CUDA)
    launches = [
        [CeilingReading(micro=micro.name, launch=at, call_ns=micro.work / rate + 2_000.0) for micro in known]
        for at, rate in enumerate((9.0, 10.0, 11.0), 1)
    ]
    found = {each.key: each for each in ceilings_from(known, launches)}
    large = found[CeilingKind.H2D, "pinned", 2**28]
    small = found[CeilingKind.D2H, "pinned", 2**12]
    assert large.value == pytest.approx(10e9, rel=0.01)
    assert large.low is not None
    assert large.high is not None
    assert large.low < 9e9
    assert large.high > 11e9
    assert small.value is not None
    assert small.value < 2e9, "a small copy is mostly its submission"
    old = Ceiling(kind=CeilingKind.H2D, label="pinned", value=None, reason="copies are timed with each model")
    assert (CeilingKind.H2D, "pinned", 2**28) in lacking(known, [old])
