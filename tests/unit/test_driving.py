"""Many processes for one assignment: what a death, a hang and a refusal cost."""

import signal
from collections.abc import Iterator, Sequence

import pytest

from factories import cpu_device, measured, point, skipped
from fakes import FINE, FakeLauncher, Script
from onnxdyno.domain.assignments import Assignment, Began, Done, Event, Pass, Ran, Refused, Turn, Unusable
from onnxdyno.domain.errors import DeviceBusy, DeviceError, InfrastructureError, ModelError
from onnxdyno.domain.outcomes import LaunchReading, Measured, ModelState, PointState, Skipped
from onnxdyno.domain.plan import Protocol
from onnxdyno.launching.driving import Answer, Limits, drive
from onnxdyno.ports import Exit

A, B, C = (point(batch=size) for size in (1, 2, 4))
READING = LaunchReading(launch=1, session_ns=5, providers=(), assignment=(), runtime=())
KILLED = Exit(status=-signal.SIGKILL, stderr_tail="", timed_out=False, oom_killed=False)
SEGFAULT = Exit(status=-signal.SIGSEGV, stderr_tail="", timed_out=False, oom_killed=False)
HUNG = Exit(status=-signal.SIGKILL, stderr_tail="", timed_out=True, oom_killed=False)
OUT_OF_MEMORY = Exit(status=-signal.SIGKILL, stderr_tail="", timed_out=False, oom_killed=True)
LIMITS = Limits(load_s=90, turn_s=lambda turn: turn.budget_ns / 1e9)


def assignment(*, kind: Pass = Pass.TIMING) -> Assignment:
    """Points A, B, C with 10, 20 and 30 s."""
    return Assignment(
        kind=kind,
        launch=1,
        launches=3,
        model_path="model.onnx",
        device=cpu_device(),
        threads=1,
        recipes=(),
        turns=tuple(Turn(point=each, budget_ns=10**10 * (at + 1)) for at, each in enumerate((A, B, C))),
        seed=0,
        protocol=Protocol(),
    )


def works(asked: Assignment) -> tuple[Sequence[Event], Exit]:
    """A process that measures all it is asked."""
    answers = [event for at, turn in enumerate(asked.turns) for event in (Began(turn=at), measured(turn.point))]
    return [READING, *answers, Done()], FINE


def dies_at(which: object, how: Exit) -> Script:
    """A process that works until it comes to a point, and ends there."""

    def script(asked: Assignment) -> tuple[Sequence[Event], Exit]:
        events: list[Event] = [READING]
        for at, turn in enumerate(asked.turns):
            events.append(Began(turn=at))
            if turn.point == which:
                return events, how
            events.append(measured(turn.point))
        return [*events, Done()], FINE

    return script


def says(*events: Event | bytes, ended: Exit = FINE) -> Script:
    """A process that says exactly this."""
    return lambda _: (events, ended)


def outcomes(launcher: FakeLauncher) -> dict[int, str]:
    """State by batch, of everything that was answered; every process must have been stopped once."""
    answers = [each for each in drive(launcher, assignment(), LIMITS) if isinstance(each, Measured | Skipped)]
    assert [launch.stops for launch in launcher.launches] == [1] * len(launcher.scripts)
    assert len({each.point for each in answers}) == len(answers), "a point is answered once"
    return {dict(each.point.sizes)["batch"]: each.state.value for each in answers}


def reasons(launcher: FakeLauncher) -> list[str]:
    """Why points were skipped."""
    return [each.reason for each in drive(launcher, assignment(), LIMITS) if isinstance(each, Skipped)]


def test_an_orderly_process_answers_every_point() -> None:
    launcher = FakeLauncher([works])
    assert outcomes(launcher) == {1: "ok", 2: "ok", 4: "ok"}
    assert launcher.launches[0].patience_s[:2] == [90, 90], "until the first turn begins the model may load"
    assert launcher.launches[0].patience_s[2:] == [10, 10, 20, 20, 30, 30]


def test_one_death_costs_one_more_try_of_that_point_only() -> None:
    launcher = FakeLauncher([dies_at(B, KILLED), works])
    assert outcomes(launcher) == {1: "ok", 2: "ok", 4: "ok"}
    assert [turn.point for turn in launcher.assignments[1].turns] == [B, C]


def test_a_second_death_at_the_same_point_is_crashed_with_the_signals_name() -> None:
    launcher = FakeLauncher([dies_at(B, SEGFAULT), dies_at(B, SEGFAULT), works])
    assert outcomes(launcher) == {1: "ok", 2: "crashed", 4: "ok"}
    assert reasons(FakeLauncher([dies_at(B, SEGFAULT), dies_at(B, SEGFAULT), works])) == [
        "the measuring process died at this point (SIGSEGV): no message"
    ]


def test_deaths_at_different_points_do_not_add_up() -> None:
    launcher = FakeLauncher([dies_at(A, KILLED), dies_at(B, KILLED), dies_at(C, KILLED), works])
    assert outcomes(launcher) == {1: "ok", 2: "ok", 4: "ok"}


def test_every_point_may_be_lost_one_by_one() -> None:
    launcher = FakeLauncher([dies_at(each, SEGFAULT) for each in (A, A, B, B, C, C)])
    assert outcomes(launcher) == {1: "crashed", 2: "crashed", 4: "crashed"}


def test_a_hang_is_a_timeout_and_never_tried_again() -> None:
    launcher = FakeLauncher([dies_at(B, HUNG), works])
    assert outcomes(launcher) == {1: "ok", 2: "timeout", 4: "ok"}
    assert [turn.point for turn in launcher.assignments[1].turns] == [C]


def test_a_kill_for_memory_is_oom_and_never_tried_again() -> None:
    launcher = FakeLauncher([dies_at(B, OUT_OF_MEMORY), works])
    assert outcomes(launcher) == {1: "ok", 2: "oom", 4: "ok"}


@pytest.mark.parametrize(
    "last",
    ["terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc", "MemoryError"],
)
def test_a_failed_allocation_that_nothing_caught_is_oom(last: str) -> None:
    aborted = Exit(status=-signal.SIGABRT, stderr_tail=f"x\n{last}\n", timed_out=False, oom_killed=False)
    assert outcomes(FakeLauncher([dies_at(B, aborted), works])) == {1: "ok", 2: "oom", 4: "ok"}


def test_a_death_while_loading_is_tried_again_once_and_then_costs_all_points() -> None:
    assert outcomes(FakeLauncher([says(ended=KILLED), works])) == {1: "ok", 2: "ok", 4: "ok"}
    assert outcomes(FakeLauncher([says(ended=SEGFAULT), says(ended=SEGFAULT)])) == dict.fromkeys((1, 2, 4), "crashed")
    assert reasons(FakeLauncher([says(ended=SEGFAULT), says(ended=SEGFAULT)]))[0] == (
        "the measuring process died while it loaded the model (SIGSEGV): no message"
    )


def test_a_hang_while_loading_costs_all_points_at_once() -> None:
    assert outcomes(FakeLauncher([says(READING, ended=HUNG)])) == dict.fromkeys((1, 2, 4), "timeout")


def test_the_last_words_of_a_process_are_one_printable_line() -> None:
    end = Exit(
        status=1, stderr_tail="Traceback\n  File\n\x1b[31mValueError: \x07 no\n", timed_out=False, oom_killed=False
    )
    launcher = FakeLauncher([dies_at(A, end), dies_at(A, end), works])
    assert reasons(launcher) == [
        "the measuring process died at this point (exit status 1): \\x1b[31mValueError: \\x07 no"
    ]


def test_a_signal_without_a_name_is_a_number() -> None:
    end = Exit(status=-40, stderr_tail="", timed_out=False, oom_killed=False)
    assert "(signal 40)" in reasons(FakeLauncher([dies_at(A, end), dies_at(A, end), works]))[0]


def test_a_process_that_ends_after_its_last_answer_without_a_word_was_done() -> None:
    def silent(asked: Assignment) -> tuple[Sequence[Event], Exit]:
        return list(works(asked)[0])[:-1], SEGFAULT

    assert outcomes(FakeLauncher([silent])) == {1: "ok", 2: "ok", 4: "ok"}


def test_a_process_that_dies_between_two_points_repeats_neither() -> None:
    launcher = FakeLauncher([says(READING, Began(turn=0), measured(A), ended=KILLED), works])
    assert outcomes(launcher) == {1: "ok", 2: "ok", 4: "ok"}
    assert [turn.point for turn in launcher.assignments[1].turns] == [B, C]


def test_a_probe_is_done_with_the_first_that_ran_however_the_process_ends() -> None:
    events = (READING, Began(turn=0), skipped(A), Began(turn=1), Ran(point=B, run_ns=5, outputs=()))
    launcher = FakeLauncher([says(*events, ended=SEGFAULT)])
    answers = list(drive(launcher, assignment(kind=Pass.PROBE), LIMITS))
    assert [type(each) for each in answers] == [LaunchReading, Skipped, Ran]
    assert launcher.launches[0].stops == 1


def test_a_refused_model_is_a_model_error_and_the_process_is_stopped() -> None:
    refused = Refused(state=ModelState.UNSUPPORTED, reason="no kernel.", remedy="Export it otherwise.")
    launcher = FakeLauncher([says(refused, Done())])
    with pytest.raises(ModelError, match=r"unsupported: no kernel\. Export it otherwise\."):
        list(drive(launcher, assignment(), LIMITS))
    assert launcher.launches[0].stops == 1


def test_a_device_that_did_not_start_is_a_device_error_and_no_fault_of_any_point() -> None:
    launcher = FakeLauncher([says(Unusable(reason="no CUDA here."), Done())])
    with pytest.raises(DeviceError, match=r"^no CUDA here\.$"):
        list(drive(launcher, assignment(), LIMITS))
    assert launcher.launches[0].stops == 1


def test_nonsense_from_a_process_is_an_infrastructure_error_and_it_is_stopped() -> None:
    launcher = FakeLauncher([says(READING, b"Segmentation fault")])
    with pytest.raises(InfrastructureError, match="not an event of a measuring process"):
        list(drive(launcher, assignment(), LIMITS))
    assert launcher.launches[0].stops == 1


def test_a_busy_device_is_passed_on() -> None:
    with pytest.raises(DeviceBusy):
        list(drive(FakeLauncher([]), assignment(), LIMITS))


def test_a_reader_who_stops_early_stops_the_process() -> None:
    launcher = FakeLauncher([works])
    answers = drive(launcher, assignment(), LIMITS)
    next(answers)
    assert launcher.launches[0].stops == 0
    answers.close()  # a generator
    assert launcher.launches[0].stops == 1


def test_an_interrupt_stops_the_process() -> None:
    launcher = FakeLauncher([works])

    def interrupted() -> Iterator[Answer]:
        answers = drive(launcher, assignment(), LIMITS)
        yield next(answers)
        yield answers.throw(KeyboardInterrupt)  # a generator

    with pytest.raises(KeyboardInterrupt):
        list(interrupted())
    assert launcher.launches[0].stops == 1


def test_an_interrupt_while_waiting_for_the_process_stops_it() -> None:
    def impatient(_: Turn) -> float:
        raise KeyboardInterrupt

    launcher = FakeLauncher([works])
    with pytest.raises(KeyboardInterrupt):
        list(drive(launcher, assignment(), Limits(load_s=1, turn_s=impatient)))
    assert launcher.launches[0].stops == 1


def test_nothing_to_do_starts_nothing() -> None:
    launcher = FakeLauncher([])
    asked = Assignment(**{name: getattr(assignment(), name) for name in Assignment.__slots__} | {"turns": ()})
    assert list(drive(launcher, asked, LIMITS)) == []


def test_a_skip_is_an_answer_like_any_other() -> None:
    shape = skipped(B, PointState.SHAPE_ERROR)
    events = (READING, Began(turn=0), measured(A), Began(turn=1), shape, Began(turn=2), measured(C), Done())
    assert outcomes(FakeLauncher([says(*events)])) == {1: "ok", 2: "shape_error", 4: "ok"}


def test_a_process_that_left_after_an_answer_is_no_death_of_the_next_point() -> None:
    def spent(asked: Assignment) -> tuple[Sequence[Event], Exit]:
        first = asked.turns[0].point
        return [READING, Began(turn=0), skipped(first, PointState.OOM, "no memory")], FINE

    launcher = FakeLauncher([spent, dies_at(B, SEGFAULT), works])
    assert outcomes(launcher) == {1: "oom", 2: "ok", 4: "ok"}
