"""`bench_table`: units named, a dash for what is missing, VRAM only with CUDA, and no foreign text unescaped."""

from dataclasses import replace
from typing import Any

import pytest

from onnxdyno.domain.errors import UsageError
from onnxdyno.domain.outcomes import PointState
from onnxdyno.face.memory import Peak
from onnxdyno.face.places import Place
from onnxdyno.face.records import Failed, Launched, Result
from onnxdyno.face.tables import bench_table
from onnxdyno.measuring.timing import Timed

NO_DRIVER = Peak(value_bytes=None, reason="no CUDA driver was loaded in this process before the first call")


def launch(p50_ns: int = 2_000_000, count: int = 400, **changes: Any) -> Launched:
    timed = Timed(
        state=PointState.OK,
        reason=None,
        first_run_ns=p50_ns,
        warm_up_ns=(p50_ns,),
        samples_ns=(p50_ns,) * count,
        excluded=(),
        busy_ns=p50_ns * count,
        runs=count,
    )
    plain = Launched(
        place=Place(name="Test CPU", is_cuda=False), ram=Peak(value_bytes=3 * 2**20), vram=NO_DRIVER, timed=timed
    )
    return replace(plain, **changes)


def on_cuda() -> Launched:
    return launch(place=Place(name="cuda:0", is_cuda=True), vram=Peak(value_bytes=5 * 2**20))


def result(*launches: Launched, label: str = "work", batch: int = 1) -> Result:
    return Result(label=label, batch=batch, launches=launches)


def cells(table: str) -> list[dict[str, str]]:
    """Each row by column title."""
    lines = [line for line in table.splitlines() if line.startswith("|")]
    titles, _, *rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [dict(zip(titles, row, strict=True)) for row in rows]


def test_latency_memory_and_throughput_stand_under_their_units() -> None:
    (row,) = cells(bench_table([result(launch(), batch=8)]))
    assert (row["p50 (ms)"], row["p99 (ms)"], row["peak RAM (MiB)"]) == ("2.000", "2.000", "3.000")
    assert row["items/s"] == "4,000"
    assert (row["batch"], row["n"], row["launches"], row["state"]) == ("8", "400", "1", "ok")


def test_the_interval_stands_beside_its_value() -> None:
    (row,) = cells(bench_table([result(launch(2_000_000), launch(2_010_000), launch(2_020_000))]))
    assert row["p50 (ms)"].startswith("2.010 ± 0.0")


def test_vram_has_a_column_only_where_a_cuda_device_took_part() -> None:
    assert "VRAM" not in bench_table([result(launch())])
    table = bench_table([result(launch(), label="host"), result(on_cuda(), label="gpu")])
    host, gpu = cells(table)
    assert (host["peak VRAM (MiB)"], gpu["peak VRAM (MiB)"]) == ("–", "5.000")
    assert gpu["device"] == "cuda:0"


def test_what_is_missing_is_a_dash_with_its_reason_below() -> None:
    few = result(launch(count=30), label="few")
    failed = launch(
        timed=None,
        ram=Peak(value_bytes=None, reason="not read"),
        failed=Failed(state=PointState.MODEL_ERROR, reason="the target raised ValueError: no."),
    )
    table = bench_table([few, result(failed, label="failed")])
    first, second = cells(table)
    assert (first["p90 (ms)"], first["p99 (ms)"]) == ("–", "–")
    assert [second[name] for name in ("p50 (ms)", "p90 (ms)", "p99 (ms)", "items/s", "peak RAM (MiB)")] == ["–"] * 5
    assert "30 samples are too few" in table
    assert "- failed: model\\_error: the target raised ValueError: no." in table


def test_a_device_that_cannot_be_read_is_unknown_and_says_why() -> None:
    place = Place(name="unknown", is_cuda=False, reason="libcuda is loaded in this process")
    table = bench_table([result(launch(place=place))])
    assert cells(table)[0]["device"] == "unknown"
    assert "libcuda is loaded in this process" in table


def test_launches_that_ran_on_different_devices_have_no_common_name() -> None:
    got = result(launch(), on_cuda())
    assert got.device == "unknown"
    assert "Test CPU, cuda:0" in (got.place.reason or "")
    assert got.has_cuda


def test_hostile_labels_reach_no_page() -> None:
    label = "<img src=x onerror=alert(1)> | `x` \x1b[31m\n# title [a](http://b) \u202e"
    row, note = (line for line in bench_table([result(launch(), label=label)]).splitlines() if "img" in line)
    for line in (row, note):
        assert not set(line) & {"<", "\x1b", "\u202e"}
        assert "`x`" not in line
        assert "[a](" not in line
    assert row.replace("\\|", "").count("|") == 12


def test_only_results_are_rendered() -> None:
    with pytest.raises(UsageError, match=r"bench_table\(\[result\]\)"):
        bench_table(result(launch()))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="something else"):
        bench_table(["x"])  # type: ignore[list-item]
    assert cells(bench_table([])) == []
