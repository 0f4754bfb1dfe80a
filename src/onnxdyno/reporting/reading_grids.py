"""The tables of memory and of what comes before the second call, as plain values like those of `grid`."""

from onnxdyno.domain.cost import Count
from onnxdyno.domain.findings import ColdFinding, ColdPhase, Findings, MemoryFinding
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.reporting import points as layout
from onnxdyno.reporting import units
from onnxdyno.reporting.grid import Cell, Column, Grid, with_interval


def memory_grid(run: BenchmarkRun, findings: Findings) -> Grid:
    """Memory of the points that were read in more than one way."""
    shown = [(each, each.memory) for each in findings.points if each.memory is not None and each.memory.processes > 1]
    groups = layout.axis_groups(run.signature, [each.point for each in findings.points])
    unit = units.memory_unit([memory.peak_bytes.value for _, memory in shown])
    names = ("peak", "loading", "running", "other arena", "arena held", "predicted")
    minor = ("loading", "running")
    rows = tuple(
        (
            Cell(text=layout.brief(each.point, run.plan.base, groups)),
            *(_bytes(count, unit) for count in _counts(memory)),
            Cell(text=units.percent(memory.predicted_error.value), reason=memory.predicted_error.reason),
        )
        for each, memory in shown
    )
    columns = (
        Column(title="point"),
        *(Column(title=f"{name} {unit.name}", is_number=True, is_minor=name in minor) for name in names),
        Column(title="prediction off by", is_number=True, is_minor=True),
    )
    return Grid(title="Memory", columns=columns, rows=rows, caption=_minimum_caption(findings))


def _counts(memory: MemoryFinding) -> tuple[Count, ...]:
    return (
        memory.peak_bytes,
        memory.load_peak_bytes,
        memory.run_peak_bytes,
        memory.same_as_requested_peak_bytes,
        memory.arena_held_bytes,
        memory.predicted_bytes,
    )


def _bytes(count: Count, unit: units.Unit) -> Cell:
    return Cell(text=units.number(count.value, unit, 3), reason=count.reason)


def _minimum_caption(findings: Findings) -> str:
    """The least memory of the first point, where it was looked for."""
    memory = next(
        (each.memory for each in findings.points if each.memory and each.memory.arena_minimum_bytes.value), None
    )
    if memory is None:
        return ""
    process = memory.process_minimum_bytes
    whole = units.size(process.value) if process.value is not None else f"not found ({process.reason})"
    return f"least that runs: arena alone {units.size(memory.arena_minimum_bytes.value)}, whole process {whole}"


def cold_grid(findings: Findings) -> Grid:
    """What comes before the second call: only what was measured, and what users get; shapes stand with their points."""
    shown = [each for each in findings.cold if each.phase is not ColdPhase.FIRST_RUN_OF_SHAPE and _is_shown(each)]
    unit = units.latency_unit([each.time_ns.value for each in shown])
    rows = tuple((Cell(text=_cold_name(each)), with_interval(each.time_ns, unit)) for each in shown)
    columns = (Column(title="cold, in fresh processes"), Column(title=f"time {unit.name}", is_number=True))
    return Grid(title="Before the second call", columns=columns, rows=rows)


def _is_shown(cold: ColdFinding) -> bool:
    return cold.time_ns.value is not None or cold.phase is ColdPhase.FILE_READ


def _cold_name(cold: ColdFinding) -> str:
    match cold.phase:
        case ColdPhase.FILE_READ:
            return f"{cold.page_cache} read of {units.size(cold.read_bytes)}"
        case ColdPhase.SESSION:
            return f"session, optimisation {cold.optimisation}"
        case ColdPhase.FIRST_RUN | ColdPhase.FIRST_RUN_OF_SHAPE:
            return f"first call, optimisation {cold.optimisation}"
