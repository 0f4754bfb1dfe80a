"""Ceilings: from calls of micro-models to rates, and as they are kept on disk."""

from dataclasses import replace
from pathlib import Path

import pytest

from factories import cpu_device
from onnxdyno.analysis.ceilings import ceilings_from
from onnxdyno.domain.ceilings import Ceiling, CeilingKind, CeilingReading, Ceilings, fingerprint_sha256
from onnxdyno.domain.devices import DeviceKind, Fact
from onnxdyno.domain.micros import Micro, micros, working_sets
from onnxdyno.domain.outcomes import PointState, Skipped
from onnxdyno.domain.plan import Point, Variant
from onnxdyno.execution.ceilings import without_waits
from onnxdyno.storage.ceilings import keep_ceilings, read_ceilings

KIB, MIB = 2**10, 2**20
KNOWN = micros(DeviceKind.CPU, (32 * KIB, MIB))
CALL_NS, DISPATCH_NS, RATE = 5_000.0, 400.0, 20e9


def reading(micro: Micro, launch: int, *, rate: float = RATE) -> CeilingReading:
    """A device on which every kind of work goes at one rate a second."""
    busy_ns = micro.work / rate * 1e9
    return CeilingReading(micro=micro.name, launch=launch, call_ns=CALL_NS + micro.nodes * DISPATCH_NS + busy_ns)


def found(*rates: float) -> dict[tuple[CeilingKind, str, int | None], Ceiling]:
    """Ceilings of launches at these rates."""
    launches = [[reading(micro, at, rate=rate) for micro in KNOWN] for at, rate in enumerate(rates, 1)]
    return {(each.kind, each.label, each.working_bytes): each for each in ceilings_from(KNOWN, launches)}


def ceilings(digest: str = "a" * 64, threads: int = 1) -> Ceilings:
    """A stored value."""
    entry = Ceiling(kind=CeilingKind.DISPATCH, label="node", value=400.0, low=390.0, high=410.0)
    return Ceilings(
        device_id="cpu",
        device_class="c",
        threads=threads,
        fingerprint_sha256=digest,
        runtime_version="1",
        entries=(entry,),
    )


def test_what_a_call_and_a_dispatch_cost_is_no_part_of_a_rate() -> None:
    known = found(RATE, RATE, RATE)
    assert known[CeilingKind.DISPATCH, "node", None].value == pytest.approx(DISPATCH_NS)
    assert known[CeilingKind.FLOP_RATE, "MatMul float32", None].value == pytest.approx(RATE)
    assert known[CeilingKind.BANDWIDTH, "stream", 4 * MIB].value == pytest.approx(RATE)
    assert known[CeilingKind.OP_RATE, "Softmax", None].value == pytest.approx(RATE)


def test_a_ceiling_has_an_interval_over_launches_that_holds_its_value() -> None:
    matmul = found(0.9 * RATE, RATE, 1.1 * RATE)[CeilingKind.FLOP_RATE, "MatMul float32", None]
    assert matmul.low is not None
    assert matmul.high is not None
    assert matmul.value is not None
    assert 0 < matmul.low < 0.9 * RATE < matmul.value < 1.1 * RATE < matmul.high


def test_a_node_shorter_than_its_dispatch_says_so_and_has_no_rate() -> None:
    stream = found(1e12, 1e12, 1e12)[CeilingKind.BANDWIDTH, "stream", 16 * KIB]
    assert stream.value is None
    assert stream.reason is not None
    assert "dispatch" in stream.reason


def test_what_the_provider_has_no_kernel_for_is_null_with_the_runtimes_words() -> None:
    at = next(place for place, micro in enumerate(KNOWN) if micro.name == "MatMul float16")
    point = Point(sizes=(("micro", at),), variant=Variant.DEVICE)
    refused = Skipped(point=point, launch=1, state=PointState.UNSUPPORTED, reason="no kernel for float16")
    launches = [
        [refused if micro.name == "MatMul float16" else reading(micro, launch) for micro in KNOWN]
        for launch in (1, 2, 3)
    ]
    (half,) = [each for each in ceilings_from(KNOWN, launches) if each.label == "MatMul float16"]
    assert (half.value, half.reason) == (None, "no kernel for float16")


def test_working_sets_lie_within_each_cache_and_beyond_all() -> None:
    assert working_sets((32 * KIB, MIB, 32 * MIB)) == (16 * KIB, 512 * KIB, 16 * MIB, 128 * MIB)
    assert working_sets((32 * KIB, MIB, 400 * MIB))[-1] == 512 * MIB
    assert len(working_sets(())) == 4


def test_the_digest_changes_with_threads_and_with_any_fact() -> None:
    device = cpu_device()
    other = replace(device, fingerprint=(*device.fingerprint, Fact(name="new", value="1")))
    assert len({fingerprint_sha256(device, 1), fingerprint_sha256(device, 2), fingerprint_sha256(other, 1)}) == 3


def test_ceilings_are_kept_once_and_read_back(tmp_path: Path) -> None:
    first = keep_ceilings(tmp_path, ceilings())
    second = keep_ceilings(tmp_path, ceilings(threads=2))
    assert first == second == read_ceilings(tmp_path, "a" * 64)
    again = keep_ceilings(tmp_path, ceilings(threads=2), is_again=True)
    assert again == read_ceilings(tmp_path, "a" * 64)
    assert [path.name for path in (tmp_path / "ceilings").iterdir()] == [f"{'a' * 64}.json"]


def test_damaged_ceilings_are_not_there_and_are_replaced(tmp_path: Path) -> None:
    keep_ceilings(tmp_path, ceilings())
    (tmp_path / "ceilings" / f"{'a' * 64}.json").write_bytes(b'{"device_id": "cp')
    assert read_ceilings(tmp_path, "a" * 64) is None
    assert keep_ceilings(tmp_path, ceilings()) == read_ceilings(tmp_path, "a" * 64)


@pytest.mark.parametrize(
    ("took_ns", "waits_ns", "left_ns"), [(100, 0, 100), (100, 30, 70), (100, 60, 100), (100, 900, 100)]
)
def test_waits_are_taken_off_a_call_unless_they_are_most_of_it(took_ns: int, waits_ns: int, left_ns: int) -> None:
    assert without_waits(took_ns, waits_ns) == left_ns
