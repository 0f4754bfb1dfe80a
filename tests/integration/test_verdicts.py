"""A few micro-models: what their time follows when one thing is changed is what our verdict says bounds them."""

import os

import pytest

from benchmarks import verdict_models as make
from benchmarks.verdicts import Label, Stand, cases, clocked, label_of, tried
from factories import cpu_device
from onnxdyno.adapters import host
from onnxdyno.adapters.ort import OrtRuntime
from onnxdyno.adapters.processes import DeviceLock, ProcessLauncher
from onnxdyno.analysis.ceilings import ceilings_from
from onnxdyno.domain.assignments import Assignment, Pass, Turn
from onnxdyno.domain.bounds import Bound
from onnxdyno.domain.ceilings import CeilingReading, Ceilings, fingerprint_sha256
from onnxdyno.domain.devices import DeviceKind
from onnxdyno.domain.micros import micros
from onnxdyno.domain.outcomes import Skipped
from onnxdyno.domain.plan import Point, Protocol, Variant
from onnxdyno.launching.driving import Limits, drive

CACHES = host.cache_bytes(0) or (32 * 2**10, 2**20, 16 * 2**20)
NEEDED = ("node", "MatMul float32", "stream", "read", "Pow")
CASES = {case.name: case for case in cases()}


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Stand:
    """This CPU with one thread, and the ceilings that these cases need."""
    folder = tmp_path_factory.mktemp("verdicts")
    device = cpu_device(cores=tuple(sorted(os.sched_getaffinity(0))), threads=1)
    known = micros(DeviceKind.CPU, CACHES)
    places = [place for place, micro in enumerate(known) if micro.label in NEEDED]
    turns = tuple(Turn(point=Point(sizes=(("micro", place),), variant=Variant.DEVICE), budget_ns=0) for place in places)
    asked = Assignment(
        kind=Pass.CEILINGS,
        launch=1,
        launches=1,
        model_path="",
        device=device,
        threads=1,
        recipes=(),
        turns=turns,
        seed=0,
        protocol=Protocol(),
        cache_bytes=CACHES,
    )
    launches = []
    with DeviceLock(folder / "locks", device, 0, print) as lock:
        for _ in range(3):
            said = drive(ProcessLauncher(lock, host.oom_kills), asked, Limits(load_s=60, turn_s=lambda _: 60))
            launches.append([each for each in said if isinstance(each, CeilingReading | Skipped)])
    ceilings = Ceilings(
        device_id=device.id,
        device_class=device.device_class,
        threads=1,
        fingerprint_sha256=fingerprint_sha256(device, 1),
        runtime_version="here",
        entries=ceilings_from([known[place] for place in places], launches),
    )
    return Stand(device=device, ceilings=ceilings, folder=folder, runtime=OrtRuntime())


@pytest.mark.parametrize(
    ("name", "bound"),
    [
        ("gemm 128x1024x1024", Bound.COMPUTE),
        ("gemv 2x4096x4096", Bound.MEMORY),
        ("Pow in the cache", Bound.COMPUTE),
        ("Relu beyond the caches", Bound.MEMORY),
        ("Concat 2048x2048", Bound.MEMORY),
        ("1000 tiny nodes of 1", Bound.LAUNCH),
        ("Loop of 300 additions", Bound.LAUNCH),
    ],
)
def test_a_verdict_is_what_the_time_follows(stand: Stand, name: str, bound: Bound) -> None:
    (call_ns,) = clocked([stand.call(make.chain(1, 1))])
    label, found = tried(CASES[name], stand, call_ns)
    assert label.bound in (bound, None), label.told  # a busy machine may blur what the time follows
    assert found.bound is bound


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 40


def test_a_label_is_what_the_time_follows_and_none_where_it_follows_nothing() -> None:
    case = CASES["gemv 2x4096x4096"]
    # twice the rows, twice the columns, two nodes, the same FLOPs with twice the bytes
    memory = label_of(case, 1e6, [1e6, 2e6, 1e6, 2e6], None, 0.0)
    compute = label_of(case, 1e6, [2e6, 2e6, 1e6, 1e6], None, 0.0)
    nothing = label_of(case, 1e6, [1e6, 1e6, 1e6, 1e6], None, 0.0)
    assert (memory.bound, compute.bound, nothing.bound) == (Bound.MEMORY, Bound.COMPUTE, None)
    assert isinstance(nothing, Label)


def test_work_that_gets_faster_in_a_nearer_cache_was_bound_by_memory() -> None:
    case = CASES["Relu beyond the caches"]
    assert label_of(case, 1e6, [], 0.3e6, 0.0).bound is Bound.MEMORY
    assert label_of(case, 1e6, [], 0.98e6, 0.0).bound is Bound.COMPUTE
    assert label_of(case, 1e6, [], 0.8e6, 0.0).bound is None
