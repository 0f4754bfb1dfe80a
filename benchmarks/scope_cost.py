"""What a scope costs: `python benchmarks/scope_cost.py`. `with timer(name)` against a bare pair of clock calls.

Nanoseconds a scope, and its ratio to the pair that it cannot do without. Aim: at most 1,000 ns a scope. Both in turn,
in rounds far shorter than a neighbour's slice of the core, so that most rounds have none in them.
"""

import asyncio
import time
from collections.abc import Callable
from statistics import median

from onnxdyno.face.scopes import Timer

LOOPS = 200
ROUNDS = 501

timer = Timer()


def bare_pair() -> float:
    """Nanoseconds a turn of two clock calls."""
    clock = time.perf_counter_ns
    opened = clock()
    for _ in range(LOOPS):
        began = clock()
        clock() - began
    return (clock() - opened) / LOOPS


def alone() -> float:
    """Nanoseconds a scope at the top."""
    clock = time.perf_counter_ns
    opened = clock()
    for _ in range(LOOPS):
        with timer("decode"):
            pass
    return (clock() - opened) / LOOPS


def nested() -> float:
    """Nanoseconds a scope within three others."""
    with timer("one"), timer("two"), timer("three"):
        return alone()


def in_a_task() -> float:
    """Nanoseconds a scope in an asyncio task, which has a nesting of its own."""

    async def task() -> float:
        return alone()

    return asyncio.run(task())


def main() -> None:
    ways: dict[str, Callable[[], float]] = {"alone": alone, "nested": nested, "in an asyncio task": in_a_task}
    costs_ns: dict[str, list[float]] = {name: [] for name in ways}
    pairs_ns: list[float] = []
    for turn in range(ROUNDS):
        pairs_ns.append(bare_pair())
        for name in list(ways) if turn % 2 else reversed(ways):
            costs_ns[name].append(ways[name]())
    print(f"bare pair of clock calls     {median(pairs_ns):6.0f} ns")
    for name, taken in costs_ns.items():
        ratio = median(cost / pair for cost, pair in zip(taken, pairs_ns, strict=True))
        print(f"scope, {name:20s}  {median(taken):6.0f} ns   {ratio:5.2f} × the pair   aim <= 1,000 ns")


if __name__ == "__main__":
    main()
