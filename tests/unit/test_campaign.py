"""A whole run on scripted processes: what is kept, what is not tried again, what is left out and why."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest

from factories import cpu_device, image_signature, local_model, measured, memory_reading, origin, skipped
from fakes import FINE
from onnxdyno import planning, wire
from onnxdyno.domain.assignments import Assignment, Began, Done, Event, Pass, Ran, Searched, Settled, Tried
from onnxdyno.domain.axes import AxisSizes, Constraints
from onnxdyno.domain.cold import ColdReading
from onnxdyno.domain.devices import Device
from onnxdyno.domain.models import Signature
from onnxdyno.domain.outcomes import ArenaReading, Explored, LaunchReading, Measured, PointState, Profile, Skipped
from onnxdyno.domain.plan import BenchmarkPlan, BenchmarkSpec, Point
from onnxdyno.domain.runs import BenchmarkRun, Progress
from onnxdyno.domain.sessions import AS_USERS_GET_IT, ArenaStrategy, Optimisation
from onnxdyno.graphs.constraints import conclude, next_probe
from onnxdyno.launching import Bench, Outside, carry_out
from onnxdyno.launching.beside import NO_TIME
from onnxdyno.planning import exploring
from onnxdyno.ports import Exit, Launch
from onnxdyno.storage.progress import MemoryLedger

SECOND = 10**9


@dataclass
class Machine:
    """A launcher and a clock: every process works as told, and each call of a point takes `call_ns` at batch 1."""

    call_ns: int = 1_000_000
    start_ns: int = SECOND // 2
    out_of_memory_from: int = 10**9
    refuses: tuple[int, ...] = ()
    dies_from: int = 10**9
    arena_needs_bytes: int = 1_000_000
    gain_until: int = 1
    spread: float = 0.0
    step: int = 1
    now_ns: int = 0
    started: list[Assignment] = field(default_factory=list)
    timed_ns: list[tuple[int, int]] = field(default_factory=list)
    """(launch, when its process was started)."""
    rests_s: list[float] = field(default_factory=list)
    neighbour_s: float = 0.0
    """How long a neighbour keeps the device after each rest."""

    def rest(self, seconds: float) -> None:
        self.rests_s.append(seconds)
        self.now_ns += round((seconds + self.neighbour_s) * SECOND)

    def call_of(self, sizes: AxisSizes) -> int:
        """Up to batch `gain_until` a call takes no longer than at batch 1."""
        return self.call_ns * max(1, dict(sizes)["batch"] // self.gain_until)

    def clock(self) -> int:
        return self.now_ns

    def start(self, device: Device, assignment: bytes) -> Launch:
        asked = wire.decode_assignment(assignment)
        self.started.append(asked)
        if asked.kind is Pass.TIMING:
            self.timed_ns.append((asked.launch, self.now_ns))
        return _Process(machine=self, asked=asked)

    def answer(self, asked: Assignment, point: Point, budget_ns: int) -> Event:
        batch = dict(point.sizes)["batch"]
        if dict(point.sizes)["height"] in self.refuses:
            return skipped(point, PointState.SHAPE_ERROR)
        if batch >= self.out_of_memory_from:
            return skipped(point, PointState.OOM, "no memory")
        took_ns = self.call_of(point.sizes)
        match asked.kind:
            case Pass.PROBE:
                self.now_ns += 2 * took_ns
                return Ran(point=point, run_ns=took_ns, outputs=())
            case Pass.MEMORY:
                self.now_ns += self.start_ns + 2 * took_ns
                return memory_reading(point, run_ns=took_ns)
            case Pass.TIMING:
                self.now_ns += max(budget_ns, 3 * took_ns)
                level = 1 + self.spread * (1 if asked.launch % 2 else -1) if dict(point.sizes)["batch"] == 1 else 1
                return measured(point, (round(took_ns * level),) * 10, launch=asked.launch)
            case Pass.COLD | Pass.PROFILE | Pass.ARENA | Pass.FIT:
                return self.unclocked(asked, point, took_ns)
            case Pass.COPY | Pass.CEILINGS:
                raise AssertionError("a campaign makes no copies and measures no ceilings")

    def unclocked(self, asked: Assignment, point: Point, took_ns: int) -> Event:
        if asked.kind is Pass.PROFILE:
            return Profile(point=point, is_complete=True, runs=5, model_run_ns=took_ns, nodes=())
        self.now_ns += took_ns
        if asked.kind in (Pass.ARENA, Pass.FIT):
            limit_bytes = asked.recipe.arena_limit_bytes
            if limit_bytes is not None and limit_bytes < self.arena_needs_bytes:
                return skipped(point, PointState.OOM, "the arena is full")
            return ArenaReading(point=point, peak_bytes=600_000, held_bytes=self.arena_needs_bytes, runs=5)
        level = asked.recipe.optimisation
        return ColdReading(point=point, optimisation=level, launch=asked.launch, session_ns=5, first_run_ns=took_ns)


@dataclass
class _Process:
    machine: Machine
    asked: Assignment

    def events(self, silence_s: Any) -> Any:
        self.machine.now_ns += self.machine.start_ns
        yield wire.encode(
            LaunchReading(launch=self.asked.launch, session_ns=5, providers=(), assignment=(), runtime=())
        )
        for at, turn in enumerate(self.asked.turns):
            yield wire.encode(Began(turn=at))
            answer = self.machine.answer(self.asked, turn.point, turn.budget_ns)
            yield wire.encode(answer)
            if isinstance(answer, Ran):
                yield from self.search(turn.point)
                break
        yield wire.encode(Done())

    def search(self, base: Point) -> Any:
        """The sizes around the base, which run where height and width are multiples of `step`."""
        signature, history = self.asked.signature, [*self.asked.history, (base.sizes, True)]
        if signature is None:
            return
        while (sizes := next_probe(signature, history)) is not None:
            is_fine = all(dict(sizes)[name] % self.machine.step == 0 for name in ("height", "width"))
            history.append((sizes, is_fine))
            yield wire.encode(Tried(sizes=sizes, is_fine=is_fine))
        yield wire.encode(Searched())
        yield from self.explore(signature, base.sizes, conclude(signature, history))

    def explore(self, signature: Signature, base: AxisSizes, constraints: Constraints) -> Any:
        assert self.asked.spec is not None
        question = exploring.question(self.asked.spec, signature, self.asked.protocol, base, constraints)
        tries = list(self.asked.explored)
        while (sizes := exploring.next_to_explore(question, tries)) is not None:
            batch = dict(sizes)["batch"]
            if batch >= self.machine.dies_from:
                return
            call_ns = None if batch >= self.machine.out_of_memory_from else self.machine.call_of(sizes)
            tries.append(Explored(sizes=sizes, call_ns=call_ns, state=None if call_ns else PointState.OOM))
            self.machine.now_ns += 4 * self.machine.call_of(sizes)
            yield wire.encode(tries[-1])
        yield wire.encode(Settled())

    def stop(self) -> Exit:
        return FINE


def plan(**spec: Any) -> BenchmarkPlan:
    """Batches 1, 2, 4 … 128 and resolutions of an image model."""
    return planning.expand(BenchmarkSpec(**spec), image_signature(), local_model(), cpu_device())


def carry(
    machine: Machine, planned: BenchmarkPlan, ledger: MemoryLedger | None = None, told: list[Progress] | None = None
) -> BenchmarkRun:
    outside = Outside(
        launcher=machine,
        ledger=ledger or MemoryLedger(),
        clock=machine.clock,
        tell=(told if told is not None else []).append,
        memory_limit_bytes=lambda: None,
        rest=machine.rest,
    )
    return carry_out(Bench(origin=origin(), signature=image_signature(), plan=planned), outside)


def of_state(run: BenchmarkRun, state: PointState) -> Sequence[Skipped]:
    return [each for each in run.outcomes if isinstance(each, Skipped) and each.state is state]


def test_every_point_is_measured_in_every_launch_in_an_order_of_its_own() -> None:
    machine = Machine()
    run = carry(machine, plan(batches=(1, 2, 4, 8)))
    timed = [each for each in run.outcomes if isinstance(each, Measured)]
    assert {(each.point, each.launch) for each in timed} == {
        (point, launch) for point in run.plan.points for launch in (1, 2, 3)
    }
    orders = [[turn.point for turn in each.turns] for each in machine.started if each.kind is Pass.TIMING]
    assert len(orders) == len({tuple(order) for order in orders}) == 3
    assert len(run.launches) == 3
    assert len(run.profiles) == 1


def test_the_budget_is_kept_within_a_tenth() -> None:
    machine = Machine(call_ns=20_000_000)
    carry(machine, plan(budget_s=60.0))
    assert machine.now_ns <= 66 * SECOND


def test_launches_begin_as_far_apart_as_asked_and_rests_are_no_budget() -> None:
    close, apart = Machine(), Machine(neighbour_s=3.0)
    usual = carry(close, plan(batches=(1, 2), budget_s=30.0))
    run = carry(apart, plan(batches=(1, 2), budget_s=30.0, spacing_s=20.0))
    begun = [at_ns for _, at_ns in apart.timed_ns]
    assert [launch for launch, _ in apart.timed_ns] == [1, 2, 3]
    assert [round((after - before) / SECOND) for before, after in pairwise(begun)] == [23, 23]
    assert close.rests_s == []
    assert usual.outcomes == run.outcomes
    assert usual.launches_span_s is not None
    assert run.launches_span_s is not None
    assert run.launches_span_s == pytest.approx(usual.launches_span_s + sum(apart.rests_s) + 6.0)


def test_a_launch_with_several_numbers_of_threads_is_one_launch() -> None:
    machine = Machine()
    carry(machine, plan(batches=(1,), threads=(1, 2), spacing_s=20.0, precision=1.0))
    assert len(machine.timed_ns) > 3
    assert len(machine.rests_s) == 2


def test_no_rest_before_what_is_kept_and_no_span_of_launches_that_were() -> None:
    ledger, planned = MemoryLedger(), plan(batches=(1, 2), spacing_s=20.0)
    carry(Machine(), planned, ledger)
    again = Machine()
    run = carry(again, planned, ledger)
    assert again.rests_s == []
    assert run.launches_span_s is None


def test_points_too_slow_for_the_budget_say_so() -> None:
    run = carry(
        Machine(call_ns=300_000_000),
        plan(budget_s=60.0, batches=(1, 2, 4, 8, 16, 32, 64, 128), resolutions_px=((224, 224),)),
    )
    left_out = of_state(run, PointState.TIMEOUT)
    assert {dict(each.point.sizes)["batch"] for each in left_out} >= {32, 64, 128}
    assert all("budget of 60 s" in each.reason and "--budget" in each.remedy for each in left_out)


def test_a_larger_point_is_not_tried_after_a_smaller_one_ran_out_of_memory() -> None:
    machine = Machine(out_of_memory_from=8)
    run = carry(machine, plan(batches=(1, 2, 4, 8, 16, 32, 64, 128), resolutions_px=((224, 224),)))
    usual = [each for each in machine.started if each.kind is Pass.MEMORY and each.recipe == AS_USERS_GET_IT]
    assert [dict(each.turns[0].point.sizes)["batch"] for each in usual] == [1, 2, 4, 8]
    assert len(of_state(run, PointState.OOM)) == 5
    assert {dict(each.point.sizes)["batch"] for each in run.outcomes if isinstance(each, Measured)} == {1, 2, 4}


def test_memory_processes_stop_in_time_for_the_clock() -> None:
    run = carry(Machine(start_ns=2 * SECOND), plan(budget_s=20.0))
    unread = [each for each in run.memory if each.peak_bytes is None]
    assert unread
    assert all(each.reason and "no time to read memory" in each.reason for each in unread)
    assert any(isinstance(each, Measured) for each in run.outcomes)


def test_the_base_is_measured_however_small_the_budget() -> None:
    run = carry(Machine(call_ns=500_000_000), plan(budget_s=1.0))
    assert {each.point for each in run.outcomes if isinstance(each, Measured)} >= {run.plan.base}


def test_what_is_kept_is_not_measured_again() -> None:
    ledger, planned = MemoryLedger(), plan(batches=(1, 2))
    first = carry(Machine(), planned, ledger)
    again = Machine()
    second = carry(again, planned, ledger)
    assert again.started == []
    assert (second.outcomes, second.memory, second.profiles) == (first.outcomes, first.memory, first.profiles)


def test_only_what_is_missing_is_measured() -> None:
    ledger, planned = MemoryLedger(), plan(batches=(1, 2))
    carry(Machine(), planned, ledger)
    some = MemoryLedger()
    lost = [name for name in ledger.read_all() if name.startswith("timing-2")][:1]
    for name, body in ledger.read_all().items():
        if name not in lost:
            some.keep(name, body)
    again = Machine()
    carry(again, planned, some)
    assert [(each.kind, each.launch, len(each.turns)) for each in again.started] == [(Pass.TIMING, 2, 1)]


@pytest.mark.parametrize("left", [b"", b"junk{", b'{"kind": "measured", "value": {}}'])
def test_a_kept_piece_that_cannot_be_read_is_measured_again(left: bytes) -> None:
    ledger, planned = MemoryLedger(), plan(batches=(1, 2))
    first = carry(Machine(), planned, ledger)
    damaged = MemoryLedger()
    for name in ledger.read_all():
        damaged.keep(name, left)
    again = carry(Machine(), planned, damaged)
    assert (again.outcomes, again.memory, again.profiles) == (first.outcomes, first.memory, first.profiles)


@pytest.mark.parametrize("change", [{"threads": 2}, {"device": cpu_device(name="another CPU")}])
def test_pieces_of_other_conditions_are_not_reused(change: dict[str, Any]) -> None:
    ledger, planned = MemoryLedger(), plan(batches=(1,), resolutions_px=((224, 224),))
    carry(Machine(), planned, ledger)
    again = Machine()
    threads = (change["threads"],) if "threads" in change else None
    outside = replace(planned, **change, spec=replace(planned.spec, threads=threads))
    carry(again, outside, ledger)
    assert {each.kind for each in again.started} == set(Pass) - {
        Pass.COPY,
        Pass.CEILINGS,
        Pass.COLD,
        Pass.ARENA,
        Pass.FIT,
    }


def test_a_first_guess_that_is_refused_moves_the_base() -> None:
    run = carry(Machine(refuses=(224,)), plan(batches=(1,)))
    assert dict(run.plan.base.sizes)["height"] != 224
    assert [dict(each.point.sizes)["height"] for each in run.probe.tried] == [224]
    assert any(isinstance(each, Measured) for each in run.outcomes)


def test_a_model_that_never_runs_gives_the_rows_of_what_was_tried() -> None:
    planned = plan(batches=(1,))
    machine = Machine(out_of_memory_from=1)
    run = carry(machine, planned)
    assert [each.kind for each in machine.started] == [Pass.PROBE]
    assert {each.point for each in of_state(run, PointState.OOM)} == set(planned.base_candidates)


def test_progress_never_goes_back_and_ends_full() -> None:
    told: list[Progress] = []
    carry(Machine(out_of_memory_from=64), plan(), told=told)
    done = [each.done for each in told]
    assert done == sorted(done)
    assert told[-1].done == told[-1].total
    assert all(each.done <= each.total for each in told[1:])


def test_default_sweeps_move_to_the_sizes_that_run() -> None:
    run = carry(Machine(step=32), plan(batches=(1,)))
    assert {dict(point.sizes)["height"] % 32 for point in run.plan.points} == {0}
    assert run.plan.constraints == run.probe.constraints
    assert {rule.multiple for rule in run.probe.constraints.rules} == {32}


def test_asked_sizes_are_tried_as_they_are_asked() -> None:
    machine = Machine(step=32)
    run = carry(machine, plan(batches=(1,), resolutions_px=((33, 33),)))
    assert [dict(point.sizes)["height"] for point in run.plan.points] == [33]
    assert all(each.signature is None for each in machine.started)


def batches(run: BenchmarkRun) -> list[int]:
    return sorted({dict(point.sizes)["batch"] for point in run.plan.points})


def test_the_batch_is_doubled_until_two_doublings_gained_nothing() -> None:
    assert batches(carry(Machine(), plan())) == [1, 2, 4]
    assert batches(carry(Machine(gain_until=8), plan())) == [1, 2, 4, 8, 16, 32]


def test_the_largest_batch_that_fits_is_closed_in_on_and_measured() -> None:
    run = carry(Machine(gain_until=10**6, out_of_memory_from=23, call_ns=1_000_000), plan())
    assert batches(run) == [1, 2, 4, 8, 16, 22, 23]
    assert {dict(each.point.sizes)["batch"] for each in of_state(run, PointState.OOM)} == {23}


def test_the_largest_batch_within_the_target_is_closed_in_on_and_measured() -> None:
    run = carry(Machine(), plan(latency_target_ms=50.0))
    tried = batches(run)
    assert tried[:3] == [1, 2, 4]
    assert max(size for size in tried if size < 50) >= 45
    assert len(tried) <= 5


def test_what_a_call_costs_the_budget_ends_the_doubling() -> None:
    assert batches(carry(Machine(call_ns=400_000_000, gain_until=10**6), plan(budget_s=10.0))) == [1]


def test_a_size_that_ends_the_probe_is_measured_on_its_own_and_not_climbed_past() -> None:
    machine = Machine(gain_until=10**6, dies_from=4)
    run = carry(machine, plan())
    assert batches(run) == [1, 2, 4]
    assert sum(each.kind is Pass.PROBE for each in machine.started) == 2


def test_a_wide_interval_gets_further_launches_and_the_others_do_not() -> None:
    run = carry(Machine(spread=0.02), plan(batches=(1, 2)))
    launches = {
        batch: sorted(
            each.launch
            for each in run.outcomes
            if isinstance(each, Measured) and dict(each.point.sizes)["batch"] == batch
        )
        for batch in (1, 2)
    }
    assert launches[2] == [1, 2, 3]
    assert len(launches[1]) > 3


def test_further_launches_end_with_the_budget() -> None:
    machine = Machine(spread=0.2)
    carry(machine, plan(batches=(1, 2), budget_s=12.0))
    assert machine.now_ns <= 13.2 * SECOND


def test_threads_and_calls_in_flight_are_factors_of_what_is_asked() -> None:
    machine = Machine()
    run = carry(machine, plan(batches=(1,), resolutions_px=((224, 224),), threads=(1, 2), concurrency=(1, 4)))
    assert {(point.threads, point.concurrency) for point in run.plan.points} == {(None, 1), (None, 4), (2, 1), (2, 4)}
    timing = [each for each in machine.started if each.kind is Pass.TIMING]
    assert sorted(each.threads for each in timing) == [1, 1, 1, 2, 2, 2]
    assert {turn.point.threads for each in timing if each.threads == 2 for turn in each.turns} == {2}
    assert len(run.launches) == 3


def test_cold_levels_are_measured_on_request_only_each_in_as_many_processes_as_launches() -> None:
    machine = Machine()
    assert not carry(machine, plan(batches=(1,), resolutions_px=((224, 224),))).cold
    assert Pass.COLD not in {each.kind for each in machine.started}
    asked = carry(Machine(), plan(batches=(1,), resolutions_px=((224, 224),), cold=True))
    assert [(each.launch, each.optimisation) for each in asked.cold] == [
        (launch, level) for launch in (1, 2, 3) for level in Optimisation
    ]


def test_cold_levels_take_no_more_than_their_share_of_the_budget_and_every_level_comes_before_a_second_launch() -> None:
    run = carry(Machine(start_ns=SECOND), plan(batches=(1,), resolutions_px=((224, 224),), cold=True, budget_s=30.0))
    assert [(each.launch, each.optimisation) for each in run.cold] == [
        *((1, level) for level in Optimisation),
        (2, Optimisation.NONE),
    ]


def test_cold_levels_that_are_kept_are_not_measured_again() -> None:
    ledger, planned = MemoryLedger(), plan(batches=(1,), resolutions_px=((224, 224),), cold=True)
    first = carry(Machine(), planned, ledger)
    again = Machine()
    assert carry(again, planned, ledger).cold == first.cold
    assert again.started == []


def test_only_a_launch_is_told_to_read_the_files_of_the_model() -> None:
    machine = Machine()
    carry(machine, plan(batches=(1,), resolutions_px=((224, 224),), cold=True))
    assert {each.kind: len(each.files) for each in machine.started} == {
        Pass.PROBE: 0, Pass.MEMORY: 0, Pass.COLD: 0, Pass.TIMING: 1, Pass.PROFILE: 0,
    }  # fmt: skip


def read_again(machine: Machine) -> list[tuple[Pass, int, ArenaStrategy]]:
    """Pass, batch and strategy of every process that read memory beside the usual one."""
    beside = [each for each in machine.started if each.kind is Pass.ARENA or each.recipe != AS_USERS_GET_IT]
    return [(each.kind, dict(each.turns[0].point.sizes)["batch"], each.recipe.arena) for each in beside]


def test_the_other_strategy_is_read_at_the_first_and_the_largest_point_only() -> None:
    machine = Machine()
    run = carry(machine, plan(batches=(1, 2, 4), resolutions_px=((224, 224),)))
    other = ArenaStrategy.SAME_AS_REQUESTED
    assert read_again(machine) == [(Pass.MEMORY, 1, other), (Pass.MEMORY, 4, other)]
    assert [each.same_as_requested_peak_bytes is None for each in run.beside] == [False, True, False]
    assert "--memory full" in (run.beside[1].same_as_requested_reason or "")


def test_full_memory_reads_the_other_strategy_and_the_arena_at_every_point() -> None:
    machine = Machine()
    run = carry(machine, plan(batches=(1, 2), resolutions_px=((224, 224),), memory_full=True))
    assert {(kind, batch) for kind, batch, _ in read_again(machine)} == {
        (kind, batch) for kind in (Pass.MEMORY, Pass.ARENA) for batch in (1, 2)
    }
    assert [each.arena.held_bytes for each in run.beside if each.arena] == [1_000_000, 1_000_000]
    assert {each.processes for each in run.beside} == {2}


def test_no_other_way_of_reading_memory_is_started_once_its_share_of_the_budget_is_used() -> None:
    machine = Machine(start_ns=5 * SECOND)
    run = carry(machine, plan(batches=(1, 2), resolutions_px=((224, 224),), memory_full=True, budget_s=30.0))
    assert read_again(machine) == []
    assert run.beside[0].arena_reason == NO_TIME
    assert all("raise --budget" in (each.arena_reason or "") for each in run.beside)


def test_the_least_arena_is_closed_in_on_to_two_percent() -> None:
    machine = Machine(arena_needs_bytes=777_777)
    run = carry(machine, plan(batches=(1,), resolutions_px=((224, 224),), true_minimum=True))
    (found,) = run.minima
    assert found.arena_bytes is not None
    assert 777_777 <= found.arena_bytes <= 777_777 * 1.02
    assert found.process_bytes is None
    assert "nobody can bound" in (found.process_reason or "")
    assert found.processes == sum(each.kind is Pass.ARENA for each in machine.started)


def test_the_true_minimum_is_outside_the_budget_and_only_on_request() -> None:
    assert carry(Machine(), plan(batches=(1,), resolutions_px=((224, 224),))).minima == ()
    run = carry(
        Machine(start_ns=SECOND), plan(batches=(1,), resolutions_px=((224, 224),), true_minimum=True, budget_s=5.0)
    )
    assert run.minima[0].arena_bytes is not None
