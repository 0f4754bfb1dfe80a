"""Cold numbers over fresh processes: the file, sessions and first calls by optimisation level, first calls by shape."""

from collections.abc import Iterable, Sequence

from onnxdyno.analysis.latency import over_launches
from onnxdyno.domain.cold import ColdReading, FileReading
from onnxdyno.domain.findings import ColdFinding, ColdPhase, Estimate, PointFinding
from onnxdyno.domain.outcomes import Measured
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.domain.sessions import Optimisation

NOT_ASKED = "measured on request only: --cold"
OTHERS_FIRST = "a launch calls its points in an order of its own, so its first call is of any shape; --cold measures it"


def cold_findings(run: BenchmarkRun, points: Sequence[PointFinding]) -> tuple[ColdFinding, ...]:
    """Every cold number that a run can have; what was not measured is null with the reason."""
    return (*_files(run), *_sessions(run), *_first_runs(run), *_shapes(run, points))


def _files(run: BenchmarkRun) -> Iterable[ColdFinding]:
    readings = [launch.file for launch in run.launches if launch.file is not None]
    uncached = [reading.uncached_ns for reading in readings if reading.uncached_ns is not None]
    why = next((reading.reason for reading in readings if reading.reason), None) or "the files were not read"
    yield _file_read("cached", [reading.cached_ns for reading in readings], readings, why)
    yield _file_read("uncached", uncached, readings, why)


def _file_read(page_cache: str, values_ns: list[int], readings: Sequence[FileReading], why: str) -> ColdFinding:
    return ColdFinding(
        phase=ColdPhase.FILE_READ,
        time_ns=_estimate(values_ns, why),
        values_ns=tuple(values_ns),
        page_cache=page_cache,
        read_bytes=readings[0].read_bytes if readings else None,
        was_cached=readings[0].was_cached if readings else None,
    )


def _sessions(run: BenchmarkRun) -> Iterable[ColdFinding]:
    """At the level that users get, the launches' own sessions."""
    for level in Optimisation:
        if level is Optimisation.ALL:
            values_ns = [launch.session_ns for launch in run.launches]
            why = "no launch got a session"
        else:
            readings = _at(run, level)
            values_ns = [reading.session_ns for reading in readings if reading.session_ns is not None]
            why = _why_none(run, readings)
        yield ColdFinding(
            phase=ColdPhase.SESSION, time_ns=_estimate(values_ns, why), values_ns=tuple(values_ns), optimisation=level
        )


def _first_runs(run: BenchmarkRun) -> Iterable[ColdFinding]:
    """The first call of a fresh process, which also starts its threads and fills its arena; at the base point."""
    for level in Optimisation:
        readings = _at(run, level)
        values_ns = [reading.first_run_ns for reading in readings if reading.first_run_ns is not None]
        why = OTHERS_FIRST if level is Optimisation.ALL and not run.plan.spec.cold else _why_none(run, readings)
        yield ColdFinding(
            phase=ColdPhase.FIRST_RUN,
            time_ns=_estimate(values_ns, why),
            values_ns=tuple(values_ns),
            optimisation=level,
            point=run.plan.base,
        )


def _shapes(run: BenchmarkRun, points: Sequence[PointFinding]) -> Iterable[ColdFinding]:
    """The first call of each shape within a launch, which made its session before."""
    for finding in points:
        if not finding.state.is_measured:
            continue
        values_ns = [
            each.first_run_ns for each in run.outcomes if isinstance(each, Measured) and each.point == finding.point
        ]
        yield ColdFinding(
            phase=ColdPhase.FIRST_RUN_OF_SHAPE,
            time_ns=finding.first_run_ns,
            values_ns=tuple(values_ns),
            optimisation=Optimisation.ALL,
            point=finding.point,
        )


def _at(run: BenchmarkRun, level: Optimisation) -> list[ColdReading]:
    return [reading for reading in run.cold if reading.optimisation is level]


def _why_none(run: BenchmarkRun, readings: Sequence[ColdReading]) -> str:
    if not run.plan.spec.cold:
        return NOT_ASKED
    told = next((reading.reason for reading in readings if reading.reason), None)
    return told or "the budget's share for cold numbers was used up before; raise --budget"


def _estimate(values_ns: Sequence[int], why: str) -> Estimate:
    return over_launches(values_ns) if values_ns else Estimate(value=None, reason=why)
