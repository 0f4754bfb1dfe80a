"""Memory of a point from every process that read it, the prediction beside it, and what says so."""

from dataclasses import replace
from typing import Any

import factories
from onnxdyno.analysis import analyse
from onnxdyno.analysis.memory import memory_findings
from onnxdyno.domain.cost import Count
from onnxdyno.domain.findings import MemoryFinding
from onnxdyno.domain.outcomes import ArenaReading, MemoryBeside, MinimumMemory
from onnxdyno.domain.plan import Variant
from onnxdyno.reporting import markdown, reading_grids
from onnxdyno.storage.rows import memory_rows

P1 = factories.point(batch=1, height=32, width=32)
READING = factories.memory_reading(P1, 300, baseline_bytes=80, load_peak_bytes=300, run_peak_bytes=200)
COST = factories.cost(
    P1.sizes,
    weight_bytes=100,
    activation_peak_bytes=Count(value=50),
    input_bytes=Count(value=10),
    output_bytes=Count(value=4),
)
BESIDE = MemoryBeside(point=P1, same_as_requested_peak_bytes=250, arena_reason="not asked", processes=1)


def run_of(**changes: Any) -> Any:
    values = {"memory": (READING,), "costs": (COST,), "beside": (BESIDE,), "profiles": ()} | changes
    return factories.benchmark_run((factories.measured(P1),), **values)


def found(**changes: Any) -> MemoryFinding:
    run = run_of(**changes)
    return memory_findings(run)[run.memory[0].point]


def test_the_prediction_stands_beside_what_running_took_with_its_error() -> None:
    memory = found()
    assert memory.predicted_bytes.value == 100 + 50 + 10
    assert memory.predicted_error.value == 160 / 200 - 1
    assert (memory.load_peak_bytes.value, memory.run_peak_bytes.value, memory.peak_bytes.value) == (300, 200, 300)


def test_host_values_are_copied_on_the_way_out_and_not_on_the_way_in() -> None:
    point = replace(P1, variant=Variant.E2E)
    assert found(memory=(replace(READING, point=point),)).predicted_bytes.value == 100 + 50 + 4


def test_what_arithmetic_does_not_know_is_predicted_by_nobody() -> None:
    memory = found(costs=(replace(COST, activation_peak_bytes=Count(value=None, reason="depends on data")),))
    assert (memory.predicted_bytes.value, memory.predicted_error.value) == (None, None)
    assert memory.reasons["predicted_error"] == "depends on data"


def test_the_arenas_own_figure_comes_from_its_process_else_from_the_profile() -> None:
    arena = ArenaReading(point=P1, peak_bytes=70, held_bytes=90, runs=5)
    profile = factories.profile(P1, arena_peak_bytes=60, arena_held_bytes=80)
    both = found(beside=(replace(BESIDE, arena=arena),), profiles=(profile,))
    assert (both.arena_peak_bytes.value, both.arena_held_bytes.value, both.residual_bytes.value) == (70, 90, 110)
    assert found(profiles=(profile,)).arena_held_bytes.value == 80
    assert found().reasons["arena_held_bytes"] == "not asked"


def test_an_arena_that_held_more_than_was_touched_leaves_no_residual() -> None:
    profile = factories.profile(P1, arena_peak_bytes=60, arena_held_bytes=900)
    assert "touched" in found(profiles=(profile,)).reasons["residual_bytes"]


def on_gpu(**changes: Any) -> MemoryFinding:
    plan = factories.plan((P1,), device=factories.gpu_device())
    profile = factories.profile(P1, arena_peak_bytes=60, arena_held_bytes=150)
    return found(plan=plan, profiles=(profile,), memory=(replace(READING, **changes),))


def test_on_a_gpu_the_context_is_what_was_in_use_with_it_and_not_before() -> None:
    memory = on_gpu(baseline_bytes=1000, device_before_bytes=400)
    assert memory.context_bytes.value == 600
    assert memory.residual_bytes.value == 200 + 600 - 150


def test_where_the_driver_does_not_tell_there_is_neither_context_nor_residual() -> None:
    memory = on_gpu(device_before_reason="NVML: Not Supported")
    assert memory.reasons["context_bytes"] == "NVML: Not Supported"
    assert "NVML: Not Supported" in memory.reasons["residual_bytes"]
    assert "context_bytes" in found().reasons


def test_a_reading_of_an_older_version_has_its_peak_and_says_what_it_lacks() -> None:
    memory = found(memory=(factories.memory_reading(P1, 300),))
    assert memory.peak_bytes.value == 300
    assert "older version" in memory.reasons["run_peak_bytes"]


def test_a_minimum_is_published_where_it_was_looked_for() -> None:
    minimum = MinimumMemory(
        point=P1, arena_bytes=77, arena_reason=None, process_bytes=None, process_reason="no cgroup", processes=9
    )
    memory = found(minima=(minimum,))
    assert (memory.arena_minimum_bytes.value, memory.reasons["process_minimum_bytes"]) == (77, "no cgroup")
    assert memory.processes == 1 + 1 + 9
    assert "--true-minimum" in found().reasons["arena_minimum_bytes"]


def test_every_null_of_a_row_has_its_reason_and_every_number_none() -> None:
    run = run_of()
    (row,) = memory_rows(run, analyse(run))
    values = {name: getattr(row, name) for name in MemoryFinding.__slots__ if name != "processes"}
    assert {name for name, value in values.items() if value is None} == set(dict(row.reasons))
    assert row.processes == 2


def test_the_page_has_a_table_of_memory_with_the_least_that_runs() -> None:
    minimum = MinimumMemory(
        point=P1, arena_bytes=2**20, arena_reason=None, process_bytes=None, process_reason="no cgroup", processes=9
    )
    run = run_of(minima=(minimum,))
    findings = analyse(run)
    table = reading_grids.memory_grid(run, findings)
    assert "arena alone 1.00 MiB, whole process not found (no cgroup)" in table.caption
    assert len(table.rows) == 1
    assert "## Memory" in markdown.summary(run, findings)
