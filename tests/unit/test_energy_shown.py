"""Energy in what people read: a column where any point has some, of an item or of a call, else nothing."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

import factories as make
from onnxdyno.analysis import analyse
from onnxdyno.domain.findings import Findings
from onnxdyno.domain.outcomes import Measured
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.domain.telemetry import Energy
from onnxdyno.reporting import documents, grid, html, markdown, terminal, units

POINTS = tuple(make.point(batch=size, height=32, width=32) for size in (1, 4))


def launches(*energies: tuple[float | None, int]) -> tuple[Measured, ...]:
    """Two launches of each point: (millijoules, calls)."""
    return tuple(
        make.measured(
            point,
            launch=launch,
            energy=Energy(energy_mj=mj, runs=runs, source="nvml", reason=None if mj else "NVML: Not Supported"),
        )
        for point, (mj, runs) in zip(POINTS, energies, strict=False)
        for launch in (1, 2)
    )


def run_of(*energies: tuple[float | None, int], gpu: bool = True) -> BenchmarkRun:
    plan = make.plan(POINTS, device=make.gpu_device() if gpu else make.cpu_device())
    return make.benchmark_run(launches(*energies), plan=plan, profiles=())


def pages(run: BenchmarkRun, found: Findings) -> tuple[str, str, str]:
    stream = io.StringIO()
    Console(file=stream, width=120, force_terminal=False, color_system=None).print(terminal.bench(run, found))
    return stream.getvalue(), markdown.summary(run, found), html.page(run, found)


def test_energy_of_an_item_is_a_column_with_its_unit_wherever_points_are_shown() -> None:
    run = run_of((1234.0, 10), (1000.0, 10))
    found = analyse(run)
    rows = grid.as_texts(grid.points_grid(run, found))
    assert [row["mJ/item"] for row in rows] == ["123.4", "25.00"]
    for page in pages(run, found):
        assert "mJ/item" in page
        assert "123.4" in page


def test_a_point_without_energy_beside_others_is_a_dash_with_the_reason() -> None:
    run = run_of((1234.0, 10), (None, 10))
    found = analyse(run)
    table = grid.points_grid(run, found)
    place = [column.title for column in table.columns].index("mJ/item")
    cell = table.rows[1][place]
    assert (cell.text, cell.reason) == (units.MISSING, "NVML: Not Supported")
    assert "NVML: Not Supported" in markdown.summary(run, found)


def test_where_no_energy_was_read_there_is_no_column_and_the_document_has_the_reason() -> None:
    run = run_of((None, 10), (None, 10))
    found = analyse(run)
    assert not any("J/" in column.title for column in grid.points_grid(run, found).columns)
    for point in documents.bench_document(run, found)["points"]:
        assert point["energy_per_call_mj"] is None
        assert point["reasons"]["energy_per_call_mj"] == "NVML: Not Supported"
        assert point["reasons"]["energy_per_item_mj"] == "NVML: Not Supported"
    assert "idle power" not in markdown.summary(run, found)


def test_where_items_cannot_be_counted_energy_is_of_a_call() -> None:
    run = run_of((1234.0, 10), (5000.0, 10))
    outcomes = tuple(
        replace(each, outputs=("float32[1,10]",)) if isinstance(each, Measured) else each for each in run.outcomes
    )
    run = replace(run, outcomes=outcomes)
    found = analyse(run)
    collapsed = next(each for each in found.points if each.point == POINTS[1])
    assert collapsed.items is None
    assert collapsed.energy_per_call_mj.value == 500.0
    rows = grid.as_texts(grid.points_grid(run, found))
    assert rows[1]["mJ/call"] == "500.0"
    assert rows[1]["mJ/item"] == units.MISSING


def test_energy_of_a_call_is_that_of_its_items_together_with_its_interval() -> None:
    point = documents.bench_document(run := run_of((1234.0, 10), (1000.0, 10)), analyse(run))["points"][1]
    assert point["energy_per_call_mj"] == pytest.approx(4 * point["energy_per_item_mj"])
    assert point["energy_per_call_ci_mj"] == pytest.approx([100.0, 100.0])


def test_a_column_of_large_energies_is_in_joules() -> None:
    run = run_of((123_400.0, 10), (100_000.0, 10))
    rows = grid.as_texts(grid.points_grid(run, analyse(run)))
    assert [row["J/item"] for row in rows] == ["12.34", "2.500"]


@pytest.mark.parametrize(("gpu", "whose"), [(True, "whole GPU"), (False, "all CPU packages")])
def test_the_page_says_whose_energy_it_is(gpu: bool, whose: str) -> None:
    run = run_of((1234.0, 10), (1000.0, 10), gpu=gpu)
    assert whose in markdown.summary(run, analyse(run))
