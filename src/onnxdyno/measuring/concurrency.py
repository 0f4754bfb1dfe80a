"""Calls in flight at once, closed loop: each lane makes its next call as soon as its last one has ended."""

from __future__ import annotations

import gc
import threading
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count, cycle

from onnxdyno.measuring.windows import Call, Sample
from onnxdyno.ports import ClockNs


@contextmanager
def lanes(calls: Sequence[Sequence[Call]], *, clock: ClockNs) -> Iterator[Sample]:
    """A sampler over one thread for each sequence of calls; each rotates through its own. The threads end with it.

    A window of `size` calls is shared out call by call, so all lanes are busy until the last calls of a window: those
    run with fewer beside them, which costs at most one call of each window.
    """
    crew = _Crew(len(calls))
    threads = [threading.Thread(target=_lane, args=(crew, cycle(own), clock), daemon=True) for own in calls]
    for thread in threads:
        thread.start()

    def sample(samples_ns: array[int], start: int, size: int) -> tuple[int, int]:
        gc.disable()
        try:
            opened_ns = crew.begin(samples_ns, start, size, clock)
            closed_ns = crew.end(clock)
        finally:
            gc.enable()
        if crew.errors:
            raise crew.errors[0]
        return opened_ns, closed_ns - opened_ns

    try:
        yield sample
    finally:
        crew.dismiss()
        for thread in threads:
            thread.join()


class _Crew:
    """What the lanes share: the window they work on, and two meetings, before it and after it."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._start = threading.Barrier(size + 1)
        self._finish = threading.Barrier(size + 1)
        self.samples_ns: array[int] = array("q")
        self.slots: Iterator[int] = iter(())
        self.end_slot = 0
        self.is_dismissed = False
        self.errors: list[BaseException] = []

    def begin(self, samples_ns: array[int], start: int, size: int, clock: ClockNs) -> int:
        self.samples_ns, self.slots, self.end_slot = samples_ns, count(start), start + size
        opened_ns = clock()
        self._start.wait()
        return opened_ns

    def end(self, clock: ClockNs) -> int:
        self._finish.wait()
        return clock()

    def dismiss(self) -> None:
        self.is_dismissed = True
        self._start.wait()

    def meet_to_start(self) -> None:
        self._start.wait()

    def meet_to_finish(self) -> None:
        self._finish.wait()


def _lane(crew: _Crew, calls: Iterator[Call], clock: ClockNs) -> None:
    while True:
        crew.meet_to_start()
        if crew.is_dismissed:
            return
        samples_ns, slots, end_slot = crew.samples_ns, crew.slots, crew.end_slot
        try:
            while (slot := next(slots)) < end_slot:  # one C call, so no two lanes get the same slot
                call = next(calls)
                began_ns = clock()
                call()
                samples_ns[slot] = clock() - began_ns
        except BaseException as error:  # noqa: BLE001  raised again by the sampler, in the thread that asked
            crew.errors.append(error)
        crew.meet_to_finish()
