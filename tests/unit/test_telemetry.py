"""What a device said, laid over samples whose times are known: what is left out, what is no number, what it cost."""

from dataclasses import replace
from typing import Any

import pytest

import factories as make
from onnxdyno.analysis import analyse
from onnxdyno.analysis.latency import kept_samples
from onnxdyno.domain.outcomes import Cause, Flag, Measured, PointState, Skipped, SteadySpan
from onnxdyno.domain.plan import Protocol
from onnxdyno.domain.telemetry import Energy, TelemetrySample, Tenant, event_names
from onnxdyno.measuring.energy import cpu_energy, gpu_energy
from onnxdyno.measuring.telemetry import judge, stranger_on

MS = 1_000_000
POINT = make.point(batch=1)
PROTOCOL = Protocol()
OURS = Tenant(pid=100, used_bytes=2**30, is_ours=True)
SHORT = SteadySpan(first=0, end=100, opened_ns=1000 * MS, wall_ns=100 * MS)
THEIRS = Tenant(pid=4242, used_bytes=2**29, is_ours=False)


def measured(windows: int = 4, **changes: Any) -> Measured:
    """`windows` windows of 100 calls of 10 ms, from second 1 on, back to back: sample i ran at 1 s + i × 10 ms."""
    spans = tuple(
        SteadySpan(first=100 * at, end=100 * at + 100, opened_ns=1000 * (at + 1) * MS, wall_ns=1000 * MS)
        for at in range(windows)
    )
    return make.measured(POINT, (10 * MS,) * (100 * windows), **({"spans": spans} | changes))


def readings(*, until_ms: int = 6000, every_ms: int = 50, **fields: Any) -> list[TelemetrySample]:
    """A reading every 50 ms; a field that is a function is asked with the time in ms."""
    return [
        TelemetrySample(
            t_ns=at * MS, **{name: value(at) if callable(value) else value for name, value in fields.items()}
        )
        for at in range(0, until_ms, every_ms)
    ]


def judged(samples: list[TelemetrySample], point: Measured | None = None) -> Measured:
    found = judge(point or measured(), samples, PROTOCOL)
    assert isinstance(found, Measured), found
    return found


def refused(samples: list[TelemetrySample], point: Measured | None = None) -> Skipped:
    found = judge(point or measured(), samples, PROTOCOL)
    assert isinstance(found, Skipped), found
    return found


def test_bits_are_told_by_the_names_of_nvml_and_new_ones_by_their_number() -> None:
    assert event_names(0) == ()
    assert event_names(0x1 | 0x8 | 0x40) == ("gpu_idle", "hw_slowdown", "hw_thermal_slowdown")
    assert event_names(0x1000) == ("bit 0x1000",)


@pytest.mark.parametrize("bits", [0x8, 0x20, 0x40, 0x80, 0x8 | 0x4, 0x80 | 0x1])
def test_a_short_throttle_leaves_out_all_it_may_have_touched_and_no_more(bits: int) -> None:
    """Bad at 1500 and 1550 ms: the readings before and after, at 1450 and 1600, bound what may have been touched."""
    found = judged(readings(clock_events=lambda at: bits if at in (1500, 1550) else 0))
    assert found.excluded == ((45, 60, Cause.THROTTLED),)
    assert found.state is PointState.OK
    assert len(kept_samples(found)) == 385
    assert found.runs == 385
    assert found.busy_ns == 3850 * MS


@pytest.mark.parametrize("bits", [0x0, 0x1, 0x2, 0x10, 0x100, 0x200, 0x400])
def test_what_does_not_invalidate_changes_nothing(bits: int) -> None:
    found = judged(readings(clock_events=bits))
    assert replace(found, energy=None) == measured()


def test_a_power_cap_only_labels() -> None:
    found = judged(readings(clock_events=lambda at: 0x4 if at >= 2000 else 0))
    assert found.flags == (Flag.POWER_CAPPED,)
    assert (found.state, found.excluded) == (PointState.OK, ())


def test_a_power_cap_outside_the_steady_time_is_not_this_points() -> None:
    assert judged(readings(clock_events=lambda at: 0x4 if at < 900 else 0)).flags == ()


def test_a_long_throttle_takes_every_number_and_names_the_bits() -> None:
    found = refused(readings(clock_events=lambda at: 0x20 | 0x40 if at >= 3000 else 0))
    assert found.state is PointState.THROTTLED
    assert "sw_thermal_slowdown, hw_thermal_slowdown" in found.reason
    assert found.reason.startswith("51%")
    assert found.remedy


def test_a_throttle_that_the_last_reading_still_told_goes_on() -> None:
    found = judged(readings(until_ms=4800, clock_events=lambda at: 0x8 if at == 4750 else 0))
    assert found.excluded == ((370, 400, Cause.THROTTLED),)


def test_a_throttle_between_two_windows_touches_neither() -> None:
    far = SteadySpan(first=100, end=200, opened_ns=3000 * MS, wall_ns=1000 * MS)
    point = measured(2, spans=(measured().spans[0], far))
    assert judged(readings(clock_events=lambda at: 0x8 if at == 2500 else 0), point).excluded == ()


def test_the_time_between_calls_is_shared_out_over_a_window() -> None:
    """100 calls of 5 ms in a window of a second: each takes 10 ms with what lies around it."""
    point = replace(measured(1), samples_ns=(5 * MS,) * 100, busy_ns=1000 * MS, runs=100)
    found = judged(readings(clock_events=lambda at: 0x8 if at == 1500 else 0), point)
    assert found.excluded == ((45, 55, Cause.THROTTLED),)
    assert found.busy_ns == 900 * MS


def test_what_was_left_out_before_stays_so_and_is_not_counted_twice() -> None:
    point = measured(excluded=((40, 50, "preempted"),), runs=390, busy_ns=3900 * MS)
    found = judged(readings(clock_events=lambda at: 0x8 if at in (1500, 1550) else 0), point)
    assert found.excluded == ((40, 50, "preempted"), (50, 60, Cause.THROTTLED))
    assert len(kept_samples(found)) == found.runs == 380


def test_throttled_and_kept_from_running_together_beyond_the_cap_is_disturbed() -> None:
    point = measured(excluded=((300, 375, "preempted"),), runs=325, busy_ns=3250 * MS)
    found = judged(readings(clock_events=lambda at: 0x8 if at == 1500 else 0), point)
    assert found.state is PointState.DISTURBED
    assert found.reason


def test_a_point_of_which_nothing_would_be_left_has_no_number() -> None:
    point = measured(excluded=((0, 350, "preempted"),), state=PointState.DISTURBED)
    assert refused(readings(clock_events=lambda at: 0x8 if at > 4500 else 0), point).state is PointState.THROTTLED


def test_a_clock_far_below_its_own_median_leaves_samples_out_and_a_capped_one_does_not() -> None:
    def dip(at: int) -> int:
        return 1000 if at == 1500 else 1400

    assert judged(readings(sm_clock_mhz=dip, clock_events=0)).excluded == ((45, 55, Cause.CLOCK),)
    assert judged(readings(sm_clock_mhz=dip)).excluded == ((45, 55, Cause.CLOCK),), "the bits cannot be read"
    assert judged(readings(sm_clock_mhz=dip, clock_events=0x4)).excluded == (), "the power cap explains it"
    assert judged(readings(sm_clock_mhz=lambda at: 1100 if at == 1500 else 1400)).excluded == ()


def test_a_clock_that_was_locked_low_by_its_owner_is_no_throttle() -> None:
    assert judged(readings(sm_clock_mhz=600, clock_events=0)).excluded == ()


def test_a_process_that_comes_in_takes_every_number() -> None:
    found = refused(readings(tenants=lambda at: (OURS, THEIRS) if at >= 4000 else (OURS,)))
    assert found.state is PointState.FOREIGN_TENANT
    assert "4242" in found.reason


def test_a_process_that_was_gone_before_the_steady_time_does_no_harm() -> None:
    judged(readings(tenants=lambda at: (OURS, THEIRS) if at < 900 else (OURS,)))


def test_where_no_process_id_is_ours_none_is_a_stranger() -> None:
    """A container: our own process has the id of the host."""
    judged(readings(tenants=(THEIRS,)))


def test_a_point_without_telemetry_or_times_stays_as_it_is() -> None:
    assert judge(measured(), [], PROTOCOL) == measured()
    old = measured(spans=())
    assert judge(old, readings(clock_events=0x8), PROTOCOL) == old


def test_readings_that_could_not_be_read_invalidate_nothing() -> None:
    found = judged(readings(reasons=(("energy_mj", "NVML: Not Supported"),)))
    assert found.excluded == ()
    assert found.energy == Energy(energy_mj=None, runs=400, source="nvml", reason="NVML: Not Supported")


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        (TelemetrySample(t_ns=0, tenants=(THEIRS,)), "process 4242 computed"),
        (TelemetrySample(t_ns=0, memory_used_bytes=2**30), "1,024 MiB"),
        (TelemetrySample(t_ns=0, utilisation=0.5), "50% busy"),
    ],
)
def test_before_anything_of_ours_runs_processes_memory_and_utilisation_are_others(
    sample: TelemetrySample, said: str
) -> None:
    assert said in (stranger_on(sample, PROTOCOL) or "")


def test_an_idle_device_or_one_that_tells_nothing_is_free() -> None:
    idle = TelemetrySample(t_ns=0, tenants=(), memory_used_bytes=4 * 2**20, utilisation=0.0)
    assert stranger_on(idle, PROTOCOL) is None
    assert stranger_on(TelemetrySample(t_ns=0), PROTOCOL) is None


def test_energy_is_the_counters_difference_over_the_steady_time() -> None:
    """200 W over 400 calls of 10 ms are 2 J a call; the counter stands at 7 J before."""
    energy = judged(readings(energy_mj=lambda at: 7000 + 200 * at)).energy
    assert energy is not None
    assert energy.energy_mj == pytest.approx(200 * 4000)
    assert energy.runs == 400


def test_energy_between_readings_goes_with_time() -> None:
    """Windows open between the readings: half an interval at 100 W, then 300 W."""
    spans = (SteadySpan(first=0, end=100, opened_ns=1025 * MS, wall_ns=1000 * MS),)
    samples = readings(energy_mj=lambda at: 100 * at if at <= 1050 else 100 * 1050 + 300 * (at - 1050))
    energy = judged(samples, measured(1, spans=spans)).energy
    assert energy is not None
    assert energy.energy_mj == pytest.approx(100 * 25 + 300 * 975)


def test_energy_leaves_out_windows_with_excluded_samples() -> None:
    samples = readings(clock_events=lambda at: 0x8 if at == 1500 else 0, energy_mj=lambda at: 200 * at)
    energy = judged(samples).energy
    assert energy is not None
    assert energy.runs == 300
    assert energy.energy_mj == pytest.approx(200 * 3000)


@pytest.mark.parametrize(
    ("samples", "point", "reason"),
    [
        (readings(energy_mj=5), measured(), "did not move"),
        (readings(energy_mj=lambda at: 10**6 - at), measured(), "went back"),
        (readings(until_ms=3000, energy_mj=lambda at: at), measured(), "not read over all"),
        (readings(energy_mj=lambda at: at), measured(1, spans=(SHORT,)), "too short"),
    ],
)  # fmt: skip
def test_energy_that_cannot_be_told_is_null_with_its_reason(
    samples: list[TelemetrySample], point: Measured, reason: str
) -> None:
    energy = gpu_energy(point, samples, PROTOCOL)
    assert energy.energy_mj is None
    assert reason in (energy.reason or "")


def test_energy_of_the_cpu_is_the_sum_of_the_windows_that_count() -> None:
    assert cpu_energy((2_000, 3_000), 10, None) == Energy(energy_mj=5.0, runs=10, source="rapl")
    for energies, why in (((None, None), "no counter"), ((5, None), None), ((0, 0), None)):
        unread = cpu_energy(energies, 10, why)
        assert unread.energy_mj is None
        assert unread.reason


def test_energy_of_an_item_is_published_with_its_interval_or_its_reason() -> None:
    point = make.point(batch=4, height=32, width=32)
    launches = tuple(
        make.measured(point, launch=at, energy=Energy(energy_mj=mj, runs=10, source="nvml"))
        for at, mj in enumerate((400.0, 402.0, 398.0), 1)
    )
    (found,) = analyse(make.benchmark_run(launches)).points
    assert found.energy_per_item_mj.value == 10.0
    low, high = found.energy_per_item_mj.low, found.energy_per_item_mj.high
    assert low is not None
    assert high is not None
    assert low < 10.0 < high
    blind = tuple(replace(each, energy=Energy(energy_mj=None, runs=10, reason="no counter")) for each in launches)
    (found,) = analyse(make.benchmark_run(blind)).points
    assert (found.energy_per_item_mj.value, found.energy_per_item_mj.reason) == (None, "no counter")


def test_what_could_not_be_seen_of_a_gpu_is_a_warning() -> None:
    plan = make.plan(device=make.gpu_device())

    def warnings(*samples: TelemetrySample) -> str:
        outcome = make.measured(plan.base, telemetry=samples)
        return " ".join(analyse(make.benchmark_run((outcome,), plan=plan, profiles=())).warnings)

    assert "not watched" in warnings()
    blind = TelemetrySample(
        t_ns=1, reasons=(("clock_events", "NVML: Not Supported"), ("tenants", "NVML: No Permission"))
    )
    assert "Throttling would not have been seen: NVML: Not Supported" in warnings(blind)
    assert "NVML: No Permission" in warnings(blind)
    assert "container" in warnings(TelemetrySample(t_ns=1, clock_events=0, tenants=(THEIRS,)))
    seeing = warnings(TelemetrySample(t_ns=1, clock_events=0, tenants=(OURS,)))
    assert "seen" not in seeing


def test_with_several_calls_in_flight_a_throttle_takes_whole_windows() -> None:
    at_once = replace(POINT, concurrency=2)
    point = replace(measured(12), point=at_once)
    found = judged(readings(until_ms=15_000, clock_events=lambda at: 0x8 if at == 1500 else 0), point)
    assert found.excluded == ((0, 100, Cause.THROTTLED),)
