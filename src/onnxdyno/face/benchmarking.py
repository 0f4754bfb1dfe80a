"""`benchmark(target, *args, **kwargs)`: any callable, measured by the engine that measures models."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any, ParamSpec

from onnxdyno.domain.errors import UsageError
from onnxdyno.domain.text import printable
from onnxdyno.face.fresh import in_fresh_processes
from onnxdyno.face.inprocess import Order, measure_here
from onnxdyno.face.records import Result
from onnxdyno.face.surroundings import this_process

P = ParamSpec("P")
MOST_LAUNCHES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """How to measure: `benchmark.using(batch=8)(decode, image, quality=3)`; all after the target goes to the target.

    `batch` items are processed by one call. `sync` is called inside every reading after the call, to wait for an
    asynchronous device. `budget_s` is for all launches together. `launches`: fresh processes (1 = this process), which
    alone give an interval; the target must then be importable and its arguments plain JSON values.
    Raises `UsageError` where an option is none of these.
    """

    label: str | None = None
    batch: int = 1
    budget_s: float = 10.0
    launches: int = 1
    sync: Callable[[], object] | None = None

    def __post_init__(self) -> None:
        if self.label is not None and not isinstance(self.label, str):
            raise UsageError(f"label is of type {type(self.label).__name__}: expected text.")
        _check_count("batch", self.batch)
        _check_count("launches", self.launches, most=MOST_LAUNCHES)
        is_number = isinstance(self.budget_s, int | float) and not isinstance(self.budget_s, bool)
        if not is_number or not isfinite(self.budget_s) or self.budget_s <= 0:
            raise UsageError(f"budget_s is {_shown(self.budget_s)}: expected a number of seconds above 0.")
        if self.sync is not None and not callable(self.sync):
            raise UsageError(f"sync is {_shown(self.sync)}: expected a callable without arguments.")

    def using(
        self,
        *,
        label: str | None = None,
        batch: int = 1,
        budget_s: float = 10.0,
        launches: int = 1,
        sync: Callable[[], object] | None = None,
    ) -> Benchmark:
        """A benchmark with these options, the others being the defaults."""
        return Benchmark(label=label, batch=batch, budget_s=budget_s, launches=launches, sync=sync)

    def __call__(self, target: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs) -> Result:
        """Measure `target(*args, **kwargs)`. An exception of the target is in the result, with the samples so far.

        Raises `UsageError` for what can be no target: not callable, other arguments than it takes, a coroutine or
        generator function, or with launches, what a fresh process cannot import.
        """
        _check_target(target, args, kwargs)
        if self.launches > 1:
            launched = in_fresh_processes(
                target, args, kwargs, sync=self.sync, budget_s=self.budget_s, launches=self.launches
            )
        else:
            order = Order(
                call=partial(target, *args, **kwargs) if args or kwargs else target,
                sync=self.sync,
                budget_ns=int(self.budget_s * 1e9),
                launches=1,
            )
            launched = (measure_here(order, this_process()),)
        return Result(label=name_of(target) if self.label is None else self.label, batch=self.batch, launches=launched)


def name_of(target: Callable[..., object]) -> str:
    """The target's own name; of a partial, that of what it calls."""
    while isinstance(target, partial):
        target = target.func
    return str(getattr(target, "__qualname__", type(target).__name__))


def _check_count(name: str, value: Any, most: int | None = None) -> None:
    is_count = isinstance(value, int) and not isinstance(value, bool)
    if not is_count or value < 1 or (most is not None and value > most):
        upto = "" if most is None else f" to {most}"
        raise UsageError(f"{name} is {_shown(value)}: expected a whole number from 1{upto}.")


def _check_target(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if not callable(target):
        raise UsageError(f"the target is of type {type(target).__name__}: expected a callable and its arguments.")
    is_lazy = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    if any(check(target) for check in is_lazy):
        raise UsageError(
            f"{printable(name_of(target))} is a coroutine or generator function, whose call does none of its work: "
            "benchmark a function that runs it to its end, e.g. lambda: asyncio.run(f())."
        )
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return  # many built-in callables do not tell; then the call itself does
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise UsageError(
            f"{printable(name_of(target))} does not take these arguments: {printable(str(error))}. "
            "Everything after the target goes to the target; options are given by benchmark.using(batch=…)."
        ) from None


def _shown(value: Any) -> str:
    return printable(repr(value), 80)


benchmark = Benchmark()
"""With the default options: in this process, 10 seconds at most, one item a call."""
