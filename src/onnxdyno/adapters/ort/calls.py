"""One bound call as the clock sees it, and the variant of it that users write: host arrays in and out."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from onnxdyno.domain.errors import PointError
from onnxdyno.domain.outcomes import PointState
from onnxdyno.measuring.messages import judge_call


def translate(error: Exception) -> PointError:
    """A failed call as the state of its point."""
    text = f"out of memory: {error}" if isinstance(error, MemoryError) else str(error)
    problem = judge_call(text)
    return PointError(problem.state, problem.reason, problem.remedy, is_lasting=problem.is_lasting)


class OrtCall:
    """One bound call."""

    def __init__(
        self,
        call: Callable[[], Any],
        read: Callable[[], Sequence[tuple[str, Any]]],
        *,
        settle: Callable[[], Any] | None = None,
        by_events: Callable[[int], tuple[int, ...]] | None = None,
    ) -> None:
        """`settle` goes between two timed calls, off the clock; `by_events` times calls by events of the device."""
        self._call = call
        self._read = read
        self._by_events = by_events
        self.settle = settle

    @property
    def raw(self) -> Callable[[], Any]:
        """The bare call, for the timed loop: no attribute look-ups, and errors of the runtime come untranslated."""
        return self._call

    def __call__(self) -> None:
        """One inference. Raises `PointError`."""
        try:
            self._call()
        except Exception as error:  # its exceptions have no common base class
            raise translate(error) from error

    def device_ns(self, count: int) -> tuple[int, ...]:
        """Device time of `count` more calls; none without events. Raises `PointError`."""
        if self._by_events is None:
            return ()
        try:
            return self._by_events(count)
        except Exception as error:  # its exceptions have no common base class
            raise translate(error) from error

    def outputs(self) -> Sequence[tuple[str, Any]]:
        """Name and value of each output of the last call. Raises `PointError` if they cannot be brought to the host."""
        try:
            return self._read()
        except Exception as error:  # its exceptions have no common base class
            raise translate(error) from error

    @classmethod
    def host(cls, session: Any, feeds: dict[str, Any]) -> "OrtCall":
        """Host arrays in and out through the public `run`: what a user's own call costs.

        Outputs are let go at once, and `outputs` makes one more call: keeping those of the last call during the next
        one cost 2.5 % of SqueezeNet's time (seen with 1.31; benchmarks/loop_cost.py).
        """
        names = [output.name for output in session.get_outputs()]
        call = partial(session.run, names, feeds)
        bound = cls(call, lambda: list(zip(names, call(), strict=True)))
        bound()
        return bound


def refuse_foreign_types(feeds: dict[str, Any]) -> None:
    """Raises `PointError` (unsupported) for types that numpy has from elsewhere (bfloat16, float8, int4)."""
    for name, value in feeds.items():
        if isinstance(value, np.ndarray) and value.dtype.kind == "V":
            reason = f"input {name!r} is {value.dtype}, which the runtime does not take from numpy."
            raise PointError(PointState.UNSUPPORTED, reason, "Export the model with inputs of float32 or float16.")
