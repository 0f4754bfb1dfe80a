"""Peak memory of calls over what was there before, in a run of its own that no clock watches."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from onnxdyno.domain.errors import DeviceError
from onnxdyno.measuring.memory import MemoryGauge

_EVERY_S = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """The most over the baseline, in bytes; None has a reason."""

    value_bytes: int | None
    reason: str | None = None


class Polled:
    """A gauge that keeps no peak of its own, asked every millisecond while calls run: a floor of the true peak."""

    def __init__(self, gauge: MemoryGauge) -> None:
        self._gauge = gauge
        self._most_bytes = 0
        self._problem: DeviceError | None = None

    def used_bytes(self) -> int:
        """Now."""
        used_bytes = self._gauge.used_bytes()
        self._most_bytes = max(self._most_bytes, used_bytes)
        return used_bytes

    def peak_bytes(self) -> int:
        """The most that was seen since `reset`. Raises `DeviceError` if the gauge failed while it was watched."""
        if self._problem is not None:
            raise self._problem
        return max(self._most_bytes, self._gauge.peak_bytes())

    def reset(self) -> None:
        """Forget what was seen."""
        self._gauge.reset()
        self._most_bytes = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Ask from another thread until the block ends."""
        is_over = threading.Event()

        def watch() -> None:
            try:
                while not is_over.is_set():
                    self.used_bytes()
                    is_over.wait(_EVERY_S)
            except DeviceError as error:
                self._problem = error

        thread = threading.Thread(target=watch, name="onnxdyno-memory", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()


def peak_over_baseline(act: Callable[[], None], gauge: MemoryGauge) -> Peak:
    """Do `act` and see how far memory rose above what was in use before. What `act` raises passes through.

    Null where the gauge cannot be read or its peak not be reset; `act` is done all the same.
    """
    gc.collect()
    try:
        gauge.reset()
        baseline_bytes = gauge.used_bytes()
    except (OSError, DeviceError) as error:
        act()
        return _unread(error)
    act()
    try:
        return Peak(value_bytes=max(0, gauge.peak_bytes() - baseline_bytes))
    except (OSError, DeviceError) as error:
        return _unread(error)


def _unread(error: Exception) -> Peak:
    return Peak(value_bytes=None, reason=f"the peak cannot be read: {error}")
