"""The timed loop on a clock that only the timed calls advance: every duration is exact."""

import gc
import json
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, count, cycle, pairwise, repeat
from pathlib import Path

import pytest

from onnxdyno.domain.outcomes import PointState
from onnxdyno.domain.plan import Protocol
from onnxdyno.intervals import quantile
from onnxdyno.measuring.timing import Conditions, Timed, time_point
from onnxdyno.measuring.windows import sample_window
from onnxdyno.ports import ClockNs, Sighting, Witness

CASES = Path(__file__).parents[1] / "cases"
MICROSECOND, MILLISECOND, SECOND = 1_000, 1_000_000, 1_000_000_000


@dataclass
class Work:
    """A clock, and a call that takes the next of `costs_ns` on it."""

    costs_ns: Iterator[int]
    tick_ns: int = 0
    now_ns: int = 0
    taken_ns: list[int] = field(default_factory=list)

    def clock(self) -> int:
        self.now_ns += self.tick_ns
        return self.now_ns

    def call(self) -> None:
        cost_ns = next(self.costs_ns)
        self.now_ns += cost_ns
        self.taken_ns.append(cost_ns)


def undisturbed(seen: Iterator[int] = count(step=10**15)) -> Sighting:  # noqa: B008  one for all tests will do
    """A witness of a process that had its core all the time: CPU time never lags behind the clock."""
    return Sighting(cpu_ns=next(seen))


def conditions(
    clock: ClockNs,
    *,
    budget_ns: int = SECOND,
    launches: int = 1,
    protocol: Protocol | None = None,
    witness: Witness = undisturbed,
    threads: int = 1,
) -> Conditions:
    """How to time on a fake clock."""
    return Conditions(
        clock=clock,
        witness=witness,
        protocol=protocol or Protocol(),
        launches=launches,
        threads=threads,
        budget_ns=budget_ns,
    )


def timed(work: Work, *, budget_ns: int = 8 * SECOND, launches: int = 1, protocol: Protocol | None = None) -> Timed:
    """One point of one input set."""
    return time_point([work.call], conditions(work.clock, budget_ns=budget_ns, launches=launches, protocol=protocol))


def test_every_sample_is_the_exact_duration_of_its_call_in_order() -> None:
    work = Work(cycle([10 * MILLISECOND, 10 * MILLISECOND + 1, 10 * MILLISECOND + 2]))
    got = timed(work)
    assert [*got.warm_up_ns, *got.samples_ns] == work.taken_ns
    assert got.state is PointState.OK
    assert got.first_run_ns == work.taken_ns[0]
    assert got.busy_ns == sum(got.samples_ns)


def test_the_clocks_own_cost_between_calls_is_in_no_sample_more_than_once() -> None:
    work = Work(repeat(MILLISECOND), tick_ns=40)
    got = timed(work)
    assert set(got.samples_ns) == {MILLISECOND + 40}
    assert got.busy_ns > sum(got.samples_ns)


def test_slow_first_runs_are_warm_up_and_never_samples() -> None:
    slow = [950 * MILLISECOND, *([41 * MILLISECOND] * 4)]
    got = timed(Work(chain(slow, repeat(10 * MILLISECOND))), budget_ns=60 * SECOND)
    assert set(got.samples_ns) == {10 * MILLISECOND}
    assert got.warm_up_ns[: len(slow)] == tuple(slow)
    assert got.first_run_ns == 950 * MILLISECOND
    assert got.state is PointState.OK


def test_recorded_slow_first_runs_do_not_move_a_percentile() -> None:
    """O43, through the real loop: none of them is a sample, so none is in a percentile."""
    recorded = json.loads((CASES / "data" / "latencies_warmup.json").read_text())
    costs_ns = [round(value * MILLISECOND) for value in recorded["samples_ms"]]
    slow, steady = costs_ns[: recorded["warmup_runs"]], costs_ns[recorded["warmup_runs"] :]
    got = timed(Work(chain(slow, cycle(steady))), budget_ns=60 * SECOND)
    assert got.warm_up_ns[: len(slow)] == tuple(slow)
    assert not set(slow) & set(got.samples_ns)
    ordered = sorted(got.samples_ns)
    assert quantile(ordered, 0.5) == 10 * MILLISECOND
    assert quantile(ordered, 0.99) <= max(steady)


def test_a_ramp_that_outlasts_the_first_runs_is_warm_up_too() -> None:
    ramp = [round(40 * MILLISECOND * 0.99**at) for at in range(138)]
    got = timed(Work(chain(ramp, repeat(10 * MILLISECOND))), budget_ns=60 * SECOND)
    assert got.state is PointState.OK
    assert set(got.samples_ns) == {10 * MILLISECOND}
    assert len(got.warm_up_ns) >= 138


def test_a_stair_on_which_two_windows_agree_does_not_pass_for_steady() -> None:
    stair = [MILLISECOND * (40 - at // 10) for at in range(300)]
    got = timed(Work(chain(stair, repeat(10 * MILLISECOND))), budget_ns=60 * SECOND)
    assert got.state is PointState.NOT_STEADY
    assert "the median went one way" in (got.reason or "")


def test_a_slope_too_gentle_for_adjacent_windows_is_found_in_the_whole() -> None:
    work = Work(round(10 * MILLISECOND * (1 + at / 2_500) + 7 * MILLISECOND * (at % 2)) for at in range(10_000))
    got = timed(work, budget_ns=10 * SECOND)
    assert got.state is PointState.NOT_STEADY


def test_a_slope_that_ends_while_there_is_time_was_warm_up_and_what_follows_is_steady() -> None:
    slope = [round(10 * MILLISECOND * (1.1 - at / 1_500) + 7 * MILLISECOND * (at % 2)) for at in range(150)]
    work = Work(chain(slope, repeat(10 * MILLISECOND)))
    got = timed(work, budget_ns=8 * SECOND, protocol=Protocol(least_time_ns=1_500 * MILLISECOND))
    assert (got.state, got.reason) == (PointState.OK, None)
    assert set(got.samples_ns) == {10 * MILLISECOND}
    assert [*got.warm_up_ns, *got.samples_ns] == work.taken_ns


def test_warm_up_is_ten_runs_or_200_ms_whichever_comes_first() -> None:
    assert len(timed(Work(repeat(MILLISECOND))).warm_up_ns) == 10
    assert len(timed(Work(repeat(50 * MILLISECOND))).warm_up_ns) == 4
    assert len(timed(Work(repeat(300 * MILLISECOND)), budget_ns=60 * SECOND).warm_up_ns) == 1


def test_a_function_that_drifts_for_ever_is_not_steady_and_keeps_its_later_half() -> None:
    work = Work(round(10 * MILLISECOND * 1.004**at) for at in range(10_000))
    got = timed(work, budget_ns=40 * SECOND)
    assert got.state is PointState.NOT_STEADY
    assert "never agreed within 1%" in (got.reason or "")
    assert [*got.warm_up_ns, *got.samples_ns] == work.taken_ns
    assert got.samples_ns


def test_an_unsteady_function_is_called_so_at_the_cap_not_at_the_budget() -> None:
    work = Work(MILLISECOND * (10 if at // 20 % 2 else 20) for at in range(10_000))
    protocol = Protocol(warm_up_cap_ns=SECOND, window_ns=200 * MILLISECOND)
    got = timed(work, budget_ns=20 * SECOND, protocol=protocol)
    assert got.state is PointState.NOT_STEADY
    assert sum(got.warm_up_ns) < 2 * SECOND


def test_a_slow_function_past_the_cap_still_gets_two_windows() -> None:
    got = timed(Work(repeat(6 * SECOND)), budget_ns=100 * SECOND)
    assert set(got.samples_ns) == {6 * SECOND}
    assert len(got.samples_ns) >= 4


def test_a_budget_for_one_run_gives_one_warm_up_and_one_sample_and_says_so() -> None:
    got = timed(Work(repeat(SECOND)), budget_ns=1)
    assert (len(got.warm_up_ns), len(got.samples_ns)) == (1, 1)
    assert got.state is PointState.UNCONVERGED
    assert got.reason == "time budget used after 1 run, before a steady state showed."


def test_a_budget_that_ends_in_steady_timing_is_unconverged_and_states_n() -> None:
    work = Work(cycle([100 * MILLISECOND, 140 * MILLISECOND]))
    got = timed(work, budget_ns=4 * SECOND)
    assert got.state is PointState.UNCONVERGED
    assert f"after {len(got.samples_ns)} runs" in (got.reason or "")
    assert work.now_ns <= 4 * SECOND + 140 * MILLISECOND


def test_a_budget_of_slow_calls_ends_with_the_call_that_ends_nearest_to_it() -> None:
    for budget_ns in (SECOND, 2 * SECOND, 3_300 * MILLISECOND, 3_330 * MILLISECOND):
        work = Work(repeat(170 * MILLISECOND))
        timed(work, budget_ns=budget_ns)
        assert abs(work.now_ns - budget_ns) <= 85 * MILLISECOND


def test_noise_that_cannot_improve_is_noisy_before_the_budget() -> None:
    work = Work(cycle([MILLISECOND, 3 * MILLISECOND // 2]))
    got = timed(work, budget_ns=1000 * SECOND)
    assert got.state is PointState.NOISY
    assert work.now_ns < 100 * SECOND


@pytest.mark.parametrize("launches", [1, 3, 5])
def test_calls_of_50_ns_stop_at_the_buffers_end(launches: int) -> None:
    got = timed(Work(repeat(50)), launches=launches)
    assert len(got.samples_ns) + len(got.warm_up_ns) <= Protocol().most_samples + Protocol().warm_up_runs
    assert "the sample buffer is full" in (got.reason or "")
    assert got.state is PointState.UNCONVERGED


def test_a_buffer_part_full_of_warm_up_windows_ends_without_an_error() -> None:
    drifting = chain((200 - at // 1000 for at in range(150_000)), repeat(50))
    got = timed(Work(drifting), budget_ns=1000 * SECOND)
    assert len(got.warm_up_ns) > 20_000
    assert set(got.samples_ns[-1000:]) == {50}
    assert "the sample buffer is full" in (got.reason or "")


@pytest.mark.parametrize("most", [1, 2, 7, 25])
def test_a_tiny_buffer_is_never_overrun(most: int) -> None:
    got = timed(Work(cycle([50, 70, 90])), protocol=Protocol(most_samples=most))
    assert 1 <= len(got.samples_ns) <= most


def test_calls_that_take_no_time_at_all_end_too() -> None:
    got = timed(Work(repeat(0)))
    assert set(got.samples_ns) == {0}


def test_every_input_set_is_visited_in_turn() -> None:
    seen: list[str] = []
    work = Work(repeat(10 * MILLISECOND))

    def call(name: str) -> Callable[[], None]:
        def visit() -> None:
            seen.append(name)
            work.call()

        return visit

    time_point([call("a"), call("b"), call("c")], conditions(work.clock))
    assert seen == [name for name, _ in zip(cycle("abc"), seen, strict=False)]


def test_the_collector_is_off_inside_a_window_and_on_after() -> None:
    inside: list[bool] = []
    buffer = array("q", bytes(80))
    opened_ns, wall_ns = sample_window(
        repeat(lambda: inside.append(gc.isenabled())),
        clock=Work(repeat(0), 1).clock,
        samples_ns=buffer,
        start=2,
        size=5,
    )
    assert inside == [False] * 5
    assert gc.isenabled()
    assert list(buffer) == [0, 0, 1, 1, 1, 1, 1, 0, 0, 0]
    assert (opened_ns, wall_ns) == (1, 11)


def test_the_spans_of_a_point_are_all_its_samples_at_the_times_they_were_taken() -> None:
    work = Work(repeat(MILLISECOND))
    timed = time_point([work.call], conditions(work.clock))
    assert timed.spans[0].first == 0
    assert timed.spans[-1].end == len(timed.samples_ns)
    for before, after in pairwise(timed.spans):
        assert before.end == after.first
        assert before.opened_ns + before.wall_ns == after.opened_ns  # nothing but calls takes time here
    assert timed.spans[0].opened_ns == len(timed.warm_up_ns) * MILLISECOND
    assert all(span.wall_ns == (span.end - span.first) * MILLISECOND for span in timed.spans)


def test_the_collector_is_on_again_when_a_call_raises() -> None:
    def fail() -> None:
        raise RuntimeError("the runtime's own")

    with pytest.raises(RuntimeError, match="the runtime's own"):
        sample_window(repeat(fail), clock=lambda: 0, samples_ns=array("q", bytes(80)), start=0, size=5)
    assert gc.isenabled()


def test_the_collector_is_off_in_every_window_of_a_point_and_on_between() -> None:
    states: list[bool] = []
    work = Work(repeat(MILLISECOND))

    def call() -> None:
        states.append(gc.isenabled())
        work.call()

    got = time_point([call], conditions(work.clock))
    assert states[len(got.warm_up_ns) :] == [False] * len(got.samples_ns)
    assert gc.isenabled()


def test_windows_fill_a_quarter_of_a_second_with_ten_short_runs_or_two_long_ones_at_least() -> None:
    protocol = replace(Protocol(), least_samples=1, least_time_ns=1)
    assert len(timed(Work(repeat(MILLISECOND)), protocol=protocol).samples_ns) == 2 * 250
    assert len(timed(Work(repeat(24 * MILLISECOND)), protocol=protocol).samples_ns) == 2 * 10
    assert len(timed(Work(repeat(400 * MILLISECOND)), protocol=protocol, budget_ns=60 * SECOND).samples_ns) == 3 * 2


@dataclass
class Shared:
    """A core that a neighbour takes for part of the time: calls take longer, and the witness sees why."""

    work: Work
    neighbour_has_it: Callable[[int], bool]
    cpu_ns: int = 0
    switches: int = 0
    calls: int = 0

    def call(self) -> None:
        before_ns = self.work.now_ns
        self.work.call()
        self.cpu_ns += self.work.now_ns - before_ns
        if self.neighbour_has_it(self.calls):
            self.work.now_ns += MILLISECOND
            self.switches += 1
        self.calls += 1

    def witness(self) -> Sighting:
        return Sighting(cpu_ns=self.cpu_ns, switches=self.switches)


def on_a_shared_core(neighbour_has_it: Callable[[int], bool]) -> Timed:
    shared = Shared(work=Work(repeat(MILLISECOND)), neighbour_has_it=neighbour_has_it)
    how = conditions(shared.work.clock, witness=shared.witness, budget_ns=8 * SECOND)
    return time_point([shared.call], how)


def test_a_neighbour_on_the_core_all_the_time_is_disturbed_and_its_numbers_say_so() -> None:
    got = on_a_shared_core(lambda _: True)
    assert got.state is PointState.DISTURBED
    assert "100% of the samples" in (got.reason or "")
    assert "50% of the cores' time" in (got.reason or "")
    assert got.excluded == ()
    assert got.runs == len(got.samples_ns)


def test_a_neighbour_for_a_moment_costs_only_the_windows_it_was_in() -> None:
    got = on_a_shared_core(lambda call: 300 <= call < 320)
    assert got.state is PointState.OK
    ((first, end, cause),) = got.excluded
    assert cause == "preempted"
    assert got.runs == len(got.samples_ns) - (end - first)
    kept = [*got.samples_ns[:first], *got.samples_ns[end:]]
    assert set(kept) == {MILLISECOND}
    assert got.busy_ns == sum(kept)
    assert max(got.samples_ns) > MILLISECOND  # excluded, and still stored


@pytest.mark.parametrize("threads", [1, 4])
def test_a_stop_of_two_seconds_is_left_out_though_no_switch_was_involuntary(threads: int) -> None:
    work = Work(repeat(MILLISECOND))
    stopped_ns = calls = 0

    def call() -> None:
        nonlocal stopped_ns, calls
        work.call()
        calls += 1
        if calls == 400:
            work.now_ns += 2 * SECOND
            stopped_ns += 2 * SECOND

    how = conditions(
        work.clock, witness=lambda: Sighting(cpu_ns=work.now_ns - stopped_ns), budget_ns=20 * SECOND, threads=threads
    )
    got = time_point([call], how)
    ((first, end, _),) = got.excluded
    assert got.state is PointState.OK
    assert max(got.samples_ns[first:end]) > 2 * SECOND  # excluded, and still stored
    assert got.busy_ns == got.runs * MILLISECOND


def test_a_rare_switch_excludes_nothing() -> None:
    got = on_a_shared_core(lambda call: call % 500 == 499)
    assert got.excluded == ()
    assert got.state is PointState.OK


def test_energy_is_read_around_each_window_that_counts_and_never_in_one() -> None:
    work = Work(repeat(MILLISECOND))
    watts = 5

    def metered() -> Sighting:
        return replace(undisturbed(), energy_uj=work.now_ns // 1_000 * watts)

    timed = time_point([work.call], conditions(work.clock, witness=metered))
    assert timed.energies_uj == tuple(span.wall_ns // 1_000 * watts for span in timed.spans)
    blind = time_point([work.call], conditions(work.clock))
    assert set(blind.energies_uj) == {None}
