"""Cold numbers: files read with and without the page cache, the cold pass, and what is published of them."""

import errno
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import factories
from fakes import FakeCall, FakeModel
from onnxdyno.adapters.files import read_through
from onnxdyno.analysis.cold import NOT_ASKED, OTHERS_FIRST, cold_findings
from onnxdyno.domain.cold import ColdReading, FileReading
from onnxdyno.domain.errors import ModelError, PointError
from onnxdyno.domain.findings import ColdFinding, ColdPhase
from onnxdyno.domain.outcomes import LaunchReading, ModelState, PointState
from onnxdyno.domain.plan import BenchmarkSpec
from onnxdyno.domain.sessions import Optimisation
from onnxdyno.measuring.cold import read_cold
from onnxdyno.ports import BoundRun, LoadedModel
from onnxdyno.reporting import reading_grids
from onnxdyno.storage.rows import cold_rows

P1, P2 = factories.point(batch=1), factories.point(batch=2)


class Cache:
    """A page cache that holds every file or none, on a kernel that drops what it is asked to, or does not."""

    def __init__(self, *, is_full: bool = True, keeps: bool = False, problem: OSError | None = None) -> None:
        self.is_full = is_full
        self.keeps = keeps
        self.problem = problem

    def drop(self, _: int) -> None:
        self.is_full = self.keeps

    def holds(self, _: int, __: int) -> bool:
        if self.problem is not None:
            raise self.problem
        return self.is_full


def ticking() -> Iterator[int]:
    """A clock that moves on by one, two, three … so that no two spans are equal."""
    now_ns, step_ns = 0, 0
    while True:
        step_ns += 1
        now_ns += step_ns
        yield now_ns


def reading(cache: Cache, *paths: Path, most_bytes: int = 1 << 20) -> FileReading:
    clock = ticking()
    return read_through(paths, lambda: next(clock), drop=cache.drop, is_held=cache.holds, most_bytes=most_bytes)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "model.onnx").write_bytes(b"m" * 5000)
    (tmp_path / "weights.bin").write_bytes(b"w" * 100_000)
    return tmp_path / "model.onnx", tmp_path / "weights.bin"


def test_files_are_read_from_the_page_cache_and_from_the_disk(files: tuple[Path, Path]) -> None:
    read = reading(Cache(), *files)
    assert read == FileReading(read_bytes=105_000, was_cached=True, cached_ns=4, uncached_ns=6)


def test_whether_the_cache_was_warm_is_told(files: tuple[Path, Path]) -> None:
    assert reading(Cache(is_full=False), *files).was_cached is False


def test_what_the_kernel_keeps_in_its_cache_is_no_uncached_read(files: tuple[Path, Path]) -> None:
    read = reading(Cache(keeps=True), *files)
    assert read.uncached_ns is None
    assert "kept the file" in (read.reason or "")
    assert read.cached_ns == 4


def test_a_file_system_that_does_not_say_what_is_cached_gives_no_uncached_read(files: tuple[Path, Path]) -> None:
    read = reading(Cache(problem=OSError(errno.EOPNOTSUPP, "Operation not supported")), *files)
    assert (read.uncached_ns, read.was_cached) == (None, None)
    assert "Operation not supported" in (read.reason or "")


def test_only_the_beginning_of_a_large_model_is_read(files: tuple[Path, Path]) -> None:
    assert reading(Cache(), *files, most_bytes=6000).read_bytes == 6000


def test_a_real_file_is_read_through_on_this_kernel(files: tuple[Path, Path]) -> None:
    clock = ticking()
    read = read_through(files, lambda: next(clock))
    assert read.read_bytes == 105_000
    assert (read.uncached_ns is None) == (read.reason is not None)
    assert files[1].read_bytes() == b"w" * 100_000


def test_no_descriptor_is_left_open_where_a_file_is_missing(files: tuple[Path, Path]) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(FileNotFoundError):
        reading(Cache(), files[0], files[1].with_name("gone"))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def read_at_none(model: LoadedModel | ModelError, error: PointError | None = None) -> ColdReading:
    clock = ticking()

    def load() -> LoadedModel:
        if isinstance(model, ModelError):
            raise model
        return model

    def bind(_: LoadedModel) -> BoundRun:
        if error is not None:
            raise error
        return FakeCall({}, lambda _: ())

    return read_cold(P1, Optimisation.NONE, 2, load=load, bind=bind, clock=lambda: next(clock))


def test_a_cold_reading_is_the_session_and_the_first_call() -> None:
    read = read_at_none(FakeModel(lambda _: ()))
    assert (read.session_ns, read.first_run_ns, read.launch, read.optimisation) == (5_000_000, 2, 2, Optimisation.NONE)


def test_a_level_at_which_the_model_is_refused_is_a_reading_with_the_reason() -> None:
    read = read_at_none(ModelError(ModelState.UNSUPPORTED, "no kernel", "Export it anew."))
    assert (read.session_ns, read.first_run_ns) == (None, None)
    assert "no kernel" in (read.reason or "")


def test_a_first_call_that_fails_is_not_a_number() -> None:
    with pytest.raises(PointError):
        read_at_none(FakeModel(lambda _: ()), PointError(PointState.OOM, "no memory"))


def launch(number: int, file: FileReading | None) -> LaunchReading:
    return LaunchReading(launch=number, session_ns=number * 1000, providers=(), assignment=(), runtime=(), file=file)


FILE = FileReading(read_bytes=5000, was_cached=True, cached_ns=10, uncached_ns=None, reason="the kernel kept it")


def found(cold: tuple[ColdReading, ...] = (), *, is_asked: bool = False) -> tuple[ColdFinding, ...]:
    plan = replace(factories.plan((P1, P2)), spec=BenchmarkSpec(cold=is_asked))
    run = factories.benchmark_run(
        (factories.measured(P1), factories.measured(P1, launch=2, first_run_ns=4_000_000), factories.skipped(P2)),
        plan=plan,
        launches=(launch(1, FILE), launch(2, FILE), launch(3, FILE)),
        cold=cold,
    )
    points = (
        factories.point_finding(P1),
        factories.skipped_finding(P2),
    )
    return cold_findings(run, points)


def one(findings: tuple[ColdFinding, ...], phase: ColdPhase, level: Optimisation | None = None) -> ColdFinding:
    return next(each for each in findings if each.phase is phase and each.optimisation is level)


def test_what_users_get_is_published_from_the_launches_with_an_interval() -> None:
    session = one(found(), ColdPhase.SESSION, Optimisation.ALL)
    assert (session.time_ns.value, session.values_ns) == (2000.0, (1000, 2000, 3000))
    assert session.time_ns.low is not None


def test_what_was_not_asked_is_null_and_says_how_to_ask() -> None:
    findings = found()
    assert one(findings, ColdPhase.SESSION, Optimisation.BASIC).time_ns.reason == NOT_ASKED
    assert one(findings, ColdPhase.FIRST_RUN, Optimisation.ALL).time_ns.reason == OTHERS_FIRST


def test_a_read_past_the_page_cache_that_the_kernel_refused_is_null_with_its_reason() -> None:
    cached, uncached = (each for each in found() if each.phase is ColdPhase.FILE_READ)
    assert (cached.time_ns.value, cached.page_cache, cached.read_bytes, cached.was_cached) == (
        10.0,
        "cached",
        5000,
        True,
    )
    assert (uncached.time_ns.value, uncached.time_ns.reason) == (None, "the kernel kept it")


def test_levels_are_published_as_read_and_a_level_without_time_says_so() -> None:
    readings = tuple(
        ColdReading(point=P1, optimisation=Optimisation.NONE, launch=at, session_ns=at * 10, first_run_ns=at)
        for at in (1, 2, 3)
    )
    findings = found(readings, is_asked=True)
    assert one(findings, ColdPhase.SESSION, Optimisation.NONE).time_ns.value == 20.0
    assert one(findings, ColdPhase.FIRST_RUN, Optimisation.NONE).time_ns.value == 2.0
    assert "--budget" in (one(findings, ColdPhase.SESSION, Optimisation.LAYOUT).time_ns.reason or "")


def test_every_measured_shape_has_its_first_call_and_no_other() -> None:
    shapes = [each for each in found() if each.phase is ColdPhase.FIRST_RUN_OF_SHAPE]
    assert [(each.point, each.values_ns) for each in shapes] == [(P1, (3_000_000, 4_000_000))]


def test_every_cold_number_is_a_row_and_a_null_has_a_reason() -> None:
    findings = factories.findings(cold=found())
    rows = cold_rows(factories.benchmark_run(), findings)
    assert len(rows) == len(findings.cold)
    assert all(row.time_ms is not None or row.time_reason for row in rows)
    assert {row.axes for row in rows if row.phase in ("file_read", "session")} == {None}


def test_the_page_shows_what_was_measured_and_why_a_file_read_was_not() -> None:
    shown = reading_grids.cold_grid(factories.findings(cold=found()))
    assert [row[0].text for row in shown.rows] == [
        "cached read of 4.88 KiB",
        "uncached read of 4.88 KiB",
        "session, optimisation all",
    ]
    assert shown.rows[1][1].reason == "the kernel kept it"
