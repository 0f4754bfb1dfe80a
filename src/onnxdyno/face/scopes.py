"""`timer("decode")`: where the time of one's own code goes, by nested scopes, at well under a microsecond each.

A scope's row is its path: `decode` within `request` is another row than `decode` alone. Each thread and each asyncio
task has its own nesting; rows of all of them are added up.
"""

from __future__ import annotations

import inspect
import threading
import time
from asyncio import current_task
from asyncio.events import _get_running_loop  # None, not an exception, where no loop runs: asked twice a microsecond
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from types import TracebackType
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary, ref

from onnxdyno.domain.errors import UsageError
from onnxdyno.ports import ClockNs

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeReading:
    """All scopes that ended at one path, outermost name first. Times in nanoseconds, of the clock on the wall.

    `self_ns` is `total_ns` less what scopes directly within took. `raised` of the `count` ended in an exception. `lost`
    ended in another order than they began (a scope around a generator's `yield`) and are in no other figure.
    """

    path: tuple[str, ...]
    count: int
    raised: int
    lost: int
    total_ns: int
    self_ns: int


class _Record:
    """One row of one thread. Only that thread writes it."""

    __slots__ = ("children", "count", "lost", "name", "raised", "self_ns", "total_ns")

    def __init__(self, name: str) -> None:
        self.name = name
        self.children: dict[str, _Record] = {}
        self.count = self.raised = self.lost = self.total_ns = self.self_ns = 0

    def child(self, name: str) -> _Record:
        """A new row below this one."""
        if not isinstance(name, str):
            raise UsageError(f"a scope is named by a string, not by {type(name).__name__}: timer('decode').")
        return self.children.setdefault(name, _Record(name))


class _Frame:
    """An open scope as those within it see it; by itself, the ground on which the outermost stand."""

    __slots__ = ("inner_ns", "record")

    def __init__(self, record: _Record) -> None:
        self.record = record
        self.inner_ns = 0


class _Strand:
    """One thread, or one task of a thread: its innermost open scope."""

    __slots__ = ("here",)

    def __init__(self, root: _Record) -> None:
        self.here = _Frame(root)


class _Tasks:
    """The strands of one thread's asyncio tasks; that of the task which asked last is at hand."""

    __slots__ = ("_all", "_root", "last_strand", "last_task")

    def __init__(self, root: _Record) -> None:
        self._root = root
        self._all: WeakKeyDictionary[Any, _Strand] = WeakKeyDictionary()
        self.last_task: Callable[[], Any] = lambda: None
        self.last_strand = _Strand(root)

    def strand_of(self, task: Any) -> _Strand:
        """Its strand; made when it first asks, gone with it."""
        strand = self._all.get(task)
        if strand is None:
            strand = self._all[task] = _Strand(self._root)
        self.last_task, self.last_strand = ref(task), strand
        return strand


class _PerThread(threading.local):
    """What each thread has of its own; made when a thread first asks."""

    def __init__(self, register: Callable[[_Record], None]) -> None:
        root = _Record("")
        self.strand = _Strand(root)
        self.tasks = _Tasks(root)
        register(root)


class Scope(_Frame):
    """One passage through a named scope, `with timer(name):`; or a decorator, each call then being a passage."""

    __slots__ = ("_began_ns", "_name", "_parent", "_strand", "_timer")

    def __init__(self, timer: Timer, name: str) -> None:
        self._timer = timer
        self._name = name
        self._strand: _Strand | None = None

    def __enter__(self) -> None:
        """Begin. Raises `UsageError` if this very object is open already."""
        if self._strand is not None:
            raise UsageError(f"this scope {self._name!r} is open already: call timer({self._name!r}) for each `with`.")
        timer, name = self._timer, self._name
        loop = _get_running_loop()
        if loop is None or (task := current_task(loop)) is None:
            strand = timer.per_thread.strand
        else:
            tasks = timer.per_thread.tasks
            strand = tasks.last_strand if tasks.last_task() is task else tasks.strand_of(task)
        self._parent = parent = strand.here
        self.record = parent.record.children.get(name) or parent.record.child(name)
        self.inner_ns = 0
        self._strand = strand
        strand.here = self
        self._began_ns = timer.clock()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End; an exception passes through and is counted."""
        taken_ns = self._timer.clock() - self._began_ns
        strand = self._strand
        self._strand = None
        if strand is None or strand.here is not self:
            self._end_out_of_order(strand)
            return
        strand.here = parent = self._parent
        parent.inner_ns += taken_ns
        record = self.record
        record.total_ns += taken_ns
        record.self_ns += taken_ns - self.inner_ns
        record.count += 1
        if kind is not None:
            record.raised += 1

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        """Every call of `function` as a passage. A coroutine function's passage lasts until it is done.

        Raises `UsageError` for a generator function: its call returns before its body begins.
        """
        timer, name = self._timer, self._name
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise UsageError(f"timer({name!r}) cannot decorate a generator: put `with timer({name!r}):` in its loop.")
        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def awaited(*args: P.args, **kwargs: P.kwargs) -> Any:
                with Scope(timer, name):
                    return await function(*args, **kwargs)

            return awaited  # type: ignore[return-value]  # as the function that it wraps: T is its coroutine

        @wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> T:
            with Scope(timer, name):
                return function(*args, **kwargs)

        return called

    def _end_out_of_order(self, strand: _Strand | None) -> None:
        """Scopes that began within are still open: they hang on the parent from now on, and this one is lost."""
        frame = strand.here if strand is not None else None
        while isinstance(frame, Scope):
            if frame._parent is self:
                frame._parent = self._parent
                self.record.lost += 1
                return
            frame = frame._parent


class Timer:
    """Scopes by name, and what they took. Safe to use from any number of threads and asyncio tasks."""

    def __init__(self, clock: ClockNs = time.perf_counter_ns) -> None:
        self.clock = clock
        self._lock = threading.Lock()
        self._roots: list[tuple[threading.Thread, _Record]] = []
        self._ended: _Rows = {}
        self._forgotten: _Rows = {}
        self.per_thread = _PerThread(self._register)

    def __call__(self, name: str) -> Scope:
        """A scope to enter, or to decorate a function with."""
        return Scope(self, name)

    def report(self) -> tuple[ScopeReading, ...]:
        """Every path that a scope has ended at since the last reset; parents before children, the longest first.

        Of other threads that are at work, the passage that ends just now may be counted in part.
        """
        with self._lock:
            rows = _less(self._collect(), self._forgotten)
        readings = [
            ScopeReading(path=path, count=row[0], raised=row[1], lost=row[2], total_ns=row[3], self_ns=row[4])
            for path, row in rows.items()
        ]
        return _parents_first(readings)

    def reset(self) -> None:
        """Forget what has ended so far. A scope that is open now counts in full when it ends."""
        with self._lock:
            self._forgotten = self._collect()

    def table(self) -> str:
        """The report as Markdown."""
        from onnxdyno.face.tables import scope_table

        return scope_table(self.report())

    def _register(self, root: _Record) -> None:
        """Take in a new thread; rows of threads that have ended are added up, so that threads may come and go."""
        with self._lock:
            for thread, record in self._roots:
                if not thread.is_alive():
                    _add(record, self._ended)
            self._roots = [each for each in self._roots if each[0].is_alive()]
            self._roots.append((threading.current_thread(), root))

    def _collect(self) -> _Rows:
        rows = {path: list(row) for path, row in self._ended.items()}
        for _, root in self._roots:
            _add(root, rows)
        return rows


_Rows = dict[tuple[str, ...], list[int]]


def _add(root: _Record, rows: _Rows) -> None:
    """Add the rows of one thread; not recursive, since scopes may be nested as deep as Python goes."""
    waiting: list[tuple[tuple[str, ...], _Record]] = [((), root)]
    while waiting:
        above, record = waiting.pop()
        for child in tuple(record.children.values()):
            path = (*above, child.name)
            row = rows.setdefault(path, [0, 0, 0, 0, 0])
            for at, value in enumerate((child.count, child.raised, child.lost, child.total_ns, child.self_ns)):
                row[at] += value
            waiting.append((path, child))


def _less(rows: _Rows, forgotten: _Rows) -> _Rows:
    nothing = [0, 0, 0, 0, 0]
    left = {
        path: [now - then for now, then in zip(row, forgotten.get(path, nothing), strict=True)]
        for path, row in rows.items()
    }
    return {path: row for path, row in left.items() if row[0] or row[2]}


def _parents_first(readings: list[ScopeReading]) -> tuple[ScopeReading, ...]:
    """A path's place is that of each of its parents in turn, among which the longest comes first."""
    total_ns = {each.path: each.total_ns for each in readings}

    def place(reading: ScopeReading) -> list[tuple[int, str]]:
        parts = [reading.path[: depth + 1] for depth in range(len(reading.path))]
        return [(-total_ns.get(part, 0), part[-1]) for part in parts]

    return tuple(sorted(readings, key=place))


timer = Timer()
"""The timer of the whole process."""
