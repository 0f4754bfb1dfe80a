"""`benchmark` on any callable: options, what goes wrong, memory and device, on a clock that only the target moves."""

import functools
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import pytest

from fakes import FakeGauge
from onnxdyno.domain.errors import DeviceError, UsageError
from onnxdyno.domain.outcomes import PointState
from onnxdyno.face.benchmarking import Benchmark, benchmark
from onnxdyno.face.inprocess import Order, measure_here
from onnxdyno.face.records import ONE_PROCESS, Launched, Result
from onnxdyno.face.surroundings import Surroundings
from onnxdyno.ports import Sighting

MILLISECOND, SECOND = 1_000_000, 1_000_000_000
LOOKS = 2
"""Untimed calls before the first timed one."""


@dataclass
class Work:
    """A clock, and a target that takes `cost_ns` on it."""

    cost_ns: int = 10 * MILLISECOND
    now_ns: int = 0
    calls: int = 0
    fails_at: int | None = None
    error: BaseException = field(default_factory=lambda: ValueError("no more"))
    output: Any = None

    def clock(self) -> int:
        return self.now_ns

    def __call__(self) -> Any:
        if self.calls == self.fails_at:
            raise self.error
        self.calls += 1
        self.now_ns += self.cost_ns + self.calls
        return self.output


def never_waited(seen: Iterator[int] = count(step=10**15)) -> Sighting:  # noqa: B008  one for all tests will do
    return Sighting(cpu_ns=next(seen))


def refuse() -> FakeGauge:
    raise DeviceError("no gauge.")


def around(work: Work, **changes: Any) -> Surroundings:
    """A process on `work`'s clock, without accelerators."""
    plain = Surroundings(
        clock=work.clock,
        witness=never_waited,
        ram=FakeGauge(),
        vram=refuse,
        drivers=lambda: (),
        cpu_name="Test CPU",
    )
    return replace(plain, **changes)


def measured(work: Work, *, sync: Callable[[], Any] | None = None, **changes: Any) -> Launched:
    order = Order(call=work, sync=sync, budget_ns=20 * SECOND, launches=1)
    return measure_here(order, around(work, **changes))


def result(*launches: Launched, batch: int = 1) -> Result:
    return Result(label="work", batch=batch, launches=launches)


def test_every_argument_reaches_the_target_whatever_its_name() -> None:
    seen: list[tuple[Any, ...]] = []

    def target(*args: Any, **kwargs: Any) -> None:
        seen.append((args, kwargs))

    names = "self target label batch budget_s launches sync options args kwargs order call clock".split()
    given = {name: at for at, name in enumerate(names)}
    got = Benchmark(budget_s=0.01)(target, "first", **given)
    assert got.state.is_measured
    assert all(call == (("first",), given) for call in seen)
    assert len(seen) >= LOOKS + 2


@pytest.mark.parametrize("wrong", [0, -1, 1.5, math.nan, True, False, "3", None])
@pytest.mark.parametrize("name", ["batch", "launches"])
def test_a_count_that_is_none_is_refused(name: str, wrong: Any) -> None:
    with pytest.raises(UsageError, match=f"{name} is .*whole number"):
        benchmark.using(**{name: wrong})


@pytest.mark.parametrize("wrong", [0, -1, math.nan, math.inf, True, "3", None])
def test_a_budget_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match=r"budget_s is .*seconds"):
        benchmark.using(budget_s=wrong)


def test_other_options_of_a_wrong_kind_are_refused() -> None:
    with pytest.raises(UsageError, match="sync"):
        benchmark.using(sync=3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="label"):
        benchmark.using(label=b"x")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="1 to 100"):
        benchmark.using(launches=101)


def test_arguments_that_the_target_does_not_take_are_told_with_where_options_go() -> None:
    def target(image: str) -> None:
        pass

    with pytest.raises(UsageError, match=r"unexpected keyword argument 'batch'.*benchmark\.using"):
        benchmark(target, "x", batch=4)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="expected a callable"):
        benchmark(3)  # type: ignore[arg-type]


async def coroutine() -> None:
    pass


def generator() -> Iterator[int]:
    yield 1


def gives_coroutine() -> Any:
    return coroutine()


def gives_generator() -> Any:
    return generator()


@pytest.mark.parametrize("lazy", [coroutine, generator, functools.partial(generator), gives_coroutine, gives_generator])
def test_a_call_that_does_none_of_its_work_is_not_measured(lazy: Callable[[], Any]) -> None:
    with pytest.raises(UsageError, match="none of its work"):
        benchmark(lazy)


def test_samples_are_the_calls_exact_durations_by_the_engine_of_models() -> None:
    work = Work()
    timed = measured(work).timed
    assert timed is not None
    assert timed.state is PointState.OK
    assert [*timed.warm_up_ns, *timed.samples_ns] == [work.cost_ns + at for at in range(LOOKS + 1, work.calls + 1)]


def test_throughput_counts_the_batch_and_back_to_back_time() -> None:
    work = Work()
    one, eight = result(launched := measured(work)), result(launched, batch=8)
    assert launched.timed is not None
    rate = launched.timed.runs / launched.timed.busy_ns * 1e9
    assert one.throughput_items_per_s.value == pytest.approx(rate)
    assert eight.throughput_items_per_s.value == pytest.approx(8 * rate)
    assert eight.p50_ns == one.p50_ns


def test_the_wait_for_the_device_is_inside_the_reading() -> None:
    work = Work()

    def sync() -> None:
        work.now_ns += 5 * MILLISECOND

    timed = measured(work, sync=sync).timed
    assert timed is not None
    assert min(timed.samples_ns) > 15 * MILLISECOND


def test_an_error_of_the_wait_is_an_error() -> None:
    def sync() -> None:
        raise RuntimeError("device lost")

    got = result(measured(Work(), sync=sync))
    assert got.state is PointState.MODEL_ERROR
    assert "RuntimeError: device lost" in (got.reason or "")


@pytest.mark.parametrize("fails_at", [LOOKS + 15, LOOKS + 100])
def test_an_exception_keeps_the_samples_so_far_and_publishes_no_latency(fails_at: int) -> None:
    work = Work(fails_at=fails_at)
    got = result(measured(work))
    kept = got.samples_ns
    assert list(kept) == [work.cost_ns + at for at in range(fails_at - len(kept) + 1, fails_at + 1)]
    assert len(kept) >= fails_at - LOOKS - 10
    assert got.state is PointState.MODEL_ERROR
    assert "the target raised ValueError: no more (test_face_benchmark.py:" in (got.reason or "")
    assert got.n == 0
    for estimate in (got.p50_ns, got.p90_ns, got.p99_ns, got.throughput_items_per_s):
        assert estimate.value is None
        assert "ValueError: no more" in (estimate.reason or "")


def test_an_exception_of_the_first_call_is_a_result_in_one_harmless_line() -> None:
    got = result(measured(Work(fails_at=0, error=ValueError("bad\x1b[31m\n<b>"))))
    assert (got.state, got.samples_ns) == (PointState.MODEL_ERROR, ())
    assert "bad\\x1b[31m\\n<b>" in (got.reason or "")
    assert (got.ram.value_bytes, got.vram.value_bytes, got.device) == (None, None, "unknown")


def test_an_exception_whose_text_raises_is_still_a_result() -> None:
    class Worse(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    got = result(measured(Work(fails_at=0, error=Worse())))
    assert "the target raised Worse" in (got.reason or "")


def test_memory_that_fails_is_told_apart() -> None:
    assert result(measured(Work(fails_at=20, error=MemoryError()))).state is PointState.OOM


def test_an_interrupt_is_the_persons_and_passes_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        measured(Work(fails_at=30, error=KeyboardInterrupt()))


def test_one_process_has_no_interval_and_says_how_to_have_one() -> None:
    got = result(measured(Work()))
    for estimate in (got.p50_ns, got.p90_ns, got.throughput_items_per_s):
        assert estimate.value is not None
        assert (estimate.low, estimate.high, estimate.reason) == (None, None, ONE_PROCESS)


def test_launches_have_an_interval_over_them() -> None:
    got = result(*(measured(Work(cost_ns=cost)) for cost in (10_000_000, 10_100_000, 10_200_000)))
    low, value, high = got.p50_ns.low, got.p50_ns.value, got.p50_ns.high
    assert low is not None and value is not None and high is not None  # noqa: PT018  for mypy
    assert low < value < high
    assert value == pytest.approx(10_100_000, rel=1e-4)
    assert high - low > 400_000  # t with two degrees of freedom on a spread of 100 µs: ± 248 µs


def test_one_failed_launch_takes_all_figures_and_no_samples_with_it() -> None:
    good, bad = measured(Work()), measured(Work(fails_at=100))
    got = result(good, bad)
    assert got.state is PointState.MODEL_ERROR
    assert got.p50_ns.value is None
    assert good.timed is not None and bad.failed is not None  # noqa: PT018  for mypy
    assert got.samples_ns == (*good.timed.samples_ns, *bad.failed.samples_ns)


def test_excluded_samples_stay_and_count_in_no_figure() -> None:
    timed = measured(Work()).timed
    assert timed is not None
    spoiled = replace(timed, samples_ns=(7, 7, *timed.samples_ns, 9), excluded=((0, 2, "preempted"),))
    got = result(replace(measured(Work()), timed=spoiled))
    assert got.n == len(spoiled.samples_ns) - 2
    assert got.samples_ns == spoiled.samples_ns
    clean = result(replace(measured(Work()), timed=replace(timed, samples_ns=(*timed.samples_ns, 9))))
    assert got.p50_ns == clean.p50_ns


def test_ram_is_the_peak_within_the_calls_not_what_is_left_after_them() -> None:
    gauge = FakeGauge(used=1000, peak=9999)

    class Hungry(Work):
        def __call__(self) -> Any:
            gauge.take(500)
            gauge.give_back(500)
            return super().__call__()

    assert result(measured(Hungry(), ram=gauge)).ram.value_bytes == 500
    assert gauge.used == 1000


def test_ram_that_cannot_be_read_is_null_with_the_reason_and_no_obstacle() -> None:
    got = result(measured(Work(), ram=FakeGauge(refusal=PermissionError(13, "Permission denied"))))
    assert got.ram.value_bytes is None
    assert "Permission denied" in (got.ram.reason or "")
    assert got.state is PointState.OK


@dataclass
class SeenGauge(FakeGauge):
    """Device memory that remembers no peak; it says when it has been read during the spike."""

    seen_bytes: int = 0
    was_seen: threading.Event = field(default_factory=threading.Event)

    def used_bytes(self) -> int:
        if self.used >= self.seen_bytes:
            self.was_seen.set()
        return self.used

    def peak_bytes(self) -> int:
        return self.used


class Spiking(Work):
    """Takes device memory, and gives it back once somebody looked (only in the untimed calls)."""

    gauge: SeenGauge

    def __call__(self) -> Any:
        self.gauge.take(300)
        if self.calls < LOOKS:
            assert self.gauge.was_seen.wait(30)
        self.gauge.give_back(300)
        return super().__call__()


class OnDevice:
    """An array that lies on a device, in DLPack's terms."""

    def __init__(self, kind: int, index: int = 0) -> None:
        self._where = (kind, index)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._where


def spiking(output: Any) -> Result:
    gauge = SeenGauge(used=100, seen_bytes=400)
    work = Spiking(output=output)
    work.gauge = gauge
    return result(measured(work, vram=lambda: gauge, drivers=lambda: ("libcuda",)))


def test_vram_is_the_peak_within_a_call_of_a_gauge_that_keeps_none() -> None:
    got = spiking(OnDevice(2))
    assert (got.vram.value_bytes, got.has_cuda, got.device) == (300, True, "cuda:0")


def test_vram_of_another_device_than_the_gauges_is_null() -> None:
    got = spiking(OnDevice(2, 1))
    assert got.vram.value_bytes is None
    assert "ran on cuda:1" in (got.vram.reason or "")
    assert (got.device, got.has_cuda) == ("cuda:1", True)


def test_without_a_cuda_driver_the_gauge_is_not_even_asked() -> None:
    def never() -> FakeGauge:
        raise AssertionError("asked")

    got = result(measured(Work(), vram=never))
    assert got.vram.value_bytes is None
    assert "no CUDA driver" in (got.vram.reason or "")
    assert not got.has_cuda


def test_a_gauge_that_fails_is_null_with_its_reason() -> None:
    class Lost(FakeGauge):
        def peak_bytes(self) -> int:
            raise DeviceError("cudaMemGetInfo: gone.")

    for gauge, why in ((refuse, "no gauge."), (Lost, "gone.")):
        got = result(measured(Work(), vram=gauge, drivers=lambda: ("libcuda",)))
        assert got.vram.value_bytes is None
        assert why in (got.vram.reason or "")
        assert got.state is PointState.OK


def test_the_process_that_waited_for_a_core_is_disturbed() -> None:
    work = Work()
    got = result(measured(work, witness=lambda: Sighting(cpu_ns=work.now_ns // 2)))
    assert got.state is PointState.DISTURBED


def test_a_real_call_here_is_measured_with_its_memory_and_the_cpus_name() -> None:
    def hungry() -> int:
        return len(bytearray(64 * 2**20))

    got = benchmark.using(budget_s=0.5)(hungry)
    assert got.label.endswith("hungry")
    assert got.state.is_measured
    assert got.ram.value_bytes is not None
    assert 60 * 2**20 <= got.ram.value_bytes < 100 * 2**20
    assert (got.device != "unknown") == (got.place.reason is None)
