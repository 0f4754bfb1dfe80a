"""Scopes on a clock that only the test moves: every time is exact."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from onnxdyno.domain.errors import UsageError
from onnxdyno.face.scopes import ScopeReading, Timer


@dataclass
class Clock:
    now_ns: int = 0

    def __call__(self) -> int:
        return self.now_ns

    def passes(self, ns: int) -> None:
        self.now_ns += ns


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def timer(clock: Clock) -> Timer:
    return Timer(clock)


def rows(timer: Timer) -> dict[str, tuple[int, int, int]]:
    """Count, total and self time by path."""
    return {"/".join(each.path): (each.count, each.total_ns, each.self_ns) for each in timer.report()}


def test_self_time_is_total_less_what_is_directly_within(timer: Timer, clock: Clock) -> None:
    with timer("request"):
        clock.passes(5)
        for _ in range(3):
            with timer("decode"):
                clock.passes(10)
                with timer("huffman"):
                    clock.passes(100)
        clock.passes(7)
    assert rows(timer) == {
        "request": (1, 342, 12),
        "request/decode": (3, 330, 30),
        "request/decode/huffman": (3, 300, 300),
    }


def test_one_name_in_two_places_is_two_rows(timer: Timer, clock: Clock) -> None:
    with timer("copy"):
        clock.passes(1)
    with timer("request"), timer("copy"):
        clock.passes(20)
    assert rows(timer) == {"request": (1, 20, 0), "request/copy": (1, 20, 20), "copy": (1, 1, 1)}


def test_recursion_counts_no_time_twice_in_a_row(timer: Timer, clock: Clock) -> None:
    @timer("walk")
    def walk(depth: int) -> None:
        clock.passes(10)
        if depth:
            walk(depth - 1)

    walk(2)
    assert rows(timer) == {"walk": (1, 30, 10), "walk/walk": (1, 20, 10), "walk/walk/walk": (1, 10, 10)}


def test_a_report_puts_parents_first_and_the_longest_before_others(timer: Timer, clock: Clock) -> None:
    for outer, ns in (("short", 1), ("long", 50), ("middle", 9)):
        with timer(outer), timer("within"):
            clock.passes(ns)
    assert list(rows(timer)) == ["long", "long/within", "middle", "middle/within", "short", "short/within"]


def test_an_exception_passes_through_and_is_counted(timer: Timer, clock: Clock) -> None:
    def decode() -> None:
        with timer("decode"):
            clock.passes(4)
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        decode()
    with timer("decode"):
        clock.passes(6)
    (reading,) = timer.report()
    assert (reading.count, reading.raised, reading.total_ns) == (2, 1, 10)


def test_a_decorated_function_is_itself_with_a_scope_around_each_call(timer: Timer, clock: Clock) -> None:
    @timer("add")
    def add(one: int, *, other: int = 1) -> int:
        """Adds."""
        clock.passes(3)
        return one + other

    assert (add(1), add(1, other=5)) == (2, 6)
    assert (add.__name__, add.__doc__) == ("add", "Adds.")
    assert rows(timer) == {"add": (2, 6, 6)}


def test_a_coroutine_function_is_timed_until_it_is_done(timer: Timer, clock: Clock) -> None:
    @timer("fetch")
    async def fetch() -> int:
        clock.passes(5)
        await asyncio.sleep(0)
        clock.passes(6)
        return 3

    assert asyncio.run(fetch()) == 3
    assert rows(timer) == {"fetch": (1, 11, 11)}


def test_a_generator_cannot_be_decorated(timer: Timer) -> None:
    def numbers() -> Iterator[int]:
        yield 1

    with pytest.raises(UsageError, match="generator"):
        timer("numbers")(numbers)


def test_tasks_that_take_turns_do_not_nest_in_one_another(timer: Timer, clock: Clock) -> None:
    async def work(name: str, mine: asyncio.Event, other: asyncio.Event) -> None:
        with timer(name):
            clock.passes(1)
            other.set()
            await mine.wait()
            with timer("within"):
                clock.passes(10)
            other.set()

    async def both() -> None:
        one, two = asyncio.Event(), asyncio.Event()
        with timer("all"):
            await asyncio.gather(work("a", one, two), work("b", two, one))

    asyncio.run(both())
    seen = rows(timer)
    assert set(seen) == {"all", "a", "a/within", "b", "b/within"}
    assert seen["all"] == (1, 22, 22)
    assert all(own >= 0 for _, _, own in seen.values())


def test_each_thread_has_its_own_nesting_and_all_are_added_up(timer: Timer) -> None:
    threads, turns = 8, 500
    gate = threading.Barrier(threads)

    def work(name: str) -> None:
        gate.wait()
        for _ in range(turns):
            with timer(name), timer("within"):
                pass

    started = [threading.Thread(target=work, args=(f"part{at % 2}",)) for at in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    counts = {path: count for path, (count, _, _) in rows(timer).items()}
    half = threads // 2 * turns
    assert counts == {"part0": half, "part0/within": half, "part1": half, "part1/within": half}


def test_threads_that_come_and_go_leave_their_counts_and_nothing_else(timer: Timer) -> None:
    def once() -> None:
        with timer("once"):
            pass

    for _ in range(50):
        thread = threading.Thread(target=once)
        thread.start()
        thread.join()
    assert rows(timer)["once"][0] == 50
    assert len(timer._roots) <= 2


def test_after_a_reset_only_what_ends_later_is_reported(timer: Timer, clock: Clock) -> None:
    with timer("before"):
        clock.passes(3)
    with timer("open"):
        clock.passes(1)
        with timer("within"):
            clock.passes(1)
        timer.reset()
        assert timer.report() == ()
        clock.passes(5)
    assert rows(timer) == {"open": (1, 7, 6)}


def test_scopes_that_end_in_another_order_are_lost_and_spoil_no_other_figure(timer: Timer, clock: Clock) -> None:
    def numbers() -> Iterator[int]:
        with timer("generator"):
            clock.passes(2)
            yield 1

    with timer("all"):
        turns = numbers()
        next(turns)
        with timer("body"):
            clock.passes(10)
            with contextlib.suppress(StopIteration):
                next(turns)
            clock.passes(30)
    assert rows(timer)["all"] == (1, 42, 2)
    lost = [each for each in timer.report() if each.lost]
    assert [(each.path, each.count, each.lost, each.total_ns) for each in lost] == [(("all", "generator"), 0, 1, 0)]
    assert "in no figure: 1." in timer.table()
    with timer("after"):
        clock.passes(1)
    assert rows(timer)["after"] == (1, 1, 1)


def test_one_scope_object_serves_again_but_not_within_itself(timer: Timer, clock: Clock) -> None:
    scope = timer("decode")
    for _ in range(2):
        with scope:
            clock.passes(1)
    assert rows(timer) == {"decode": (2, 2, 2)}
    with scope, pytest.raises(UsageError, match="open already"):
        scope.__enter__()
    assert rows(timer)["decode"][0] == 3


def test_a_scope_is_named_by_text(timer: Timer) -> None:
    with pytest.raises(UsageError, match="not by int"):
        timer(3).__enter__()  # type: ignore[arg-type]
    assert timer.report() == ()


def test_hostile_names_are_harmless_in_the_table(timer: Timer, clock: Clock) -> None:
    with timer("<script>|\x1b[31m\nnext"):
        clock.passes(1)
    line = timer.table().splitlines()[-1]
    assert "<script>" not in line
    assert "\x1b" not in line
    assert line.replace("\\|", "").count("|") == 7


def test_the_table_names_its_units(timer: Timer, clock: Clock) -> None:
    with timer("slow"):
        clock.passes(2_000_000)
    assert timer.table().splitlines()[0] == "| scope | count | raised | total (ms) | self (ms) | mean (µs) |"
    assert isinstance(timer.report()[0], ScopeReading)
