"""Results of benchmarks and scopes as Markdown tables. Every name in them is foreign text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onnxdyno.domain.errors import UsageError
from onnxdyno.face.records import Result
from onnxdyno.face.scopes import ScopeReading
from onnxdyno.reporting import safe, units
from onnxdyno.reporting.units import ITEMS_PER_S, Unit


def bench_table(results: Iterable[Result]) -> str:
    """One row a result: latency in the unit of the column, throughput in items/s, peak memory over its baseline.

    A column for VRAM only where a CUDA device took part. What is missing is a dash; why is said below the table.
    Raises `UsageError` for anything that is no result.
    """
    if isinstance(results, Result) or not isinstance(results, Iterable):
        raise UsageError("bench_table takes a list of results: bench_table([result]).")
    rows = list(results)
    if any(not isinstance(each, Result) for each in rows):
        raise UsageError("bench_table takes what benchmark(...) gave back, and something else is among the results.")
    has_cuda = any(each.has_cuda for each in rows)
    latency = units.latency_unit(estimate.value for each in rows for estimate in (each.p50_ns, each.p99_ns))
    memory = units.memory_unit(each.ram.value_bytes for each in rows)
    titles = ["target", "device", "batch", "state", "n", "launches"]
    titles += [f"{name} ({latency.name})" for name in ("p50", "p90", "p99")]
    titles += [ITEMS_PER_S.name, f"peak RAM ({memory.name})"]
    titles += [f"peak VRAM ({memory.name})"] if has_cuda else []
    body = [_row(each, latency, memory, has_cuda) for each in rows]
    return _table(titles, body, texts=2) + _notes(rows)


def scope_table(readings: Sequence[ScopeReading]) -> str:
    """One row a path, indented by its depth; total and self time in the unit of the column."""
    unit = units.latency_unit(each.total_ns for each in readings)
    titles = ["scope", "count", "raised", f"total ({unit.name})", f"self ({unit.name})", "mean (µs)"]
    body = []
    for each in readings:
        mean_ns = each.total_ns / each.count if each.count else None
        name = "&nbsp;&nbsp;" * (len(each.path) - 1) + safe.markdown(each.path[-1], 80)
        numbers = (units.number(each.total_ns, unit), units.number(each.self_ns, unit))
        body.append([name, f"{each.count:,}", f"{each.raised:,}", *numbers, units.number(mean_ns, units.MICROSECONDS)])
    lost = sum(each.lost for each in readings)
    note = f"\nScopes that ended in another order than they began, and are in no figure: {lost:,}.\n" if lost else ""
    return _table(titles, body, texts=1) + note


def _row(result: Result, latency: Unit, memory: Unit, has_cuda: bool) -> list[str]:
    cells = [
        safe.markdown(result.label, 80) or units.MISSING,
        safe.markdown(result.device, 80),
        f"{result.batch:,}",
        result.state.value,
        f"{result.n:,}",
        f"{len(result.launches)}",
        units.with_interval(result.p50_ns, latency),
        units.with_interval(result.p90_ns, latency),
        units.with_interval(result.p99_ns, latency),
        units.with_interval(result.throughput_items_per_s, ITEMS_PER_S),
        units.number(result.ram.value_bytes, memory),
    ]
    return cells + ([units.number(result.vram.value_bytes, memory)] if has_cuda else [])


def _table(titles: Sequence[str], body: Sequence[Sequence[str]], *, texts: int) -> str:
    """The first `texts` columns are text, the others numbers."""
    ruler = [":---" if at < texts else "---:" for at in range(len(titles))]
    return "".join(f"| {' | '.join(line)} |\n" for line in (titles, ruler, *body))


def _notes(results: Sequence[Result]) -> str:
    """Each reason once, with the targets it is of."""
    targets: dict[str, list[str]] = {}
    for result in results:
        for reason in _reasons(result):
            targets.setdefault(reason, []).append(result.label)
    lines = [
        f"- {safe.markdown(', '.join(dict.fromkeys(of)), 200)}: {safe.markdown(why)}" for why, of in targets.items()
    ]
    return "\n" + "\n".join(lines) + "\n" if lines else ""


def _reasons(result: Result) -> list[str]:
    reasons = [f"{result.state.value}: {result.reason}" if result.reason else None]
    if result.state.is_measured:
        tails = (result.p90_ns, result.p99_ns)
        reasons += [result.p50_ns.reason, *(each.reason for each in tails if each.value is None)]
        reasons += [f"device {result.device}: {result.place.reason}" if result.place.reason else None]
        reasons += [f"peak RAM: {result.ram.reason}" if result.ram.reason else None]
        reasons += [f"peak VRAM: {result.vram.reason}" if result.has_cuda and result.vram.reason else None]
    return [reason for reason in reasons if reason]
