"""Energy counters of CPU packages, read from recorded trees of powercap and of the perf event."""

import os
import struct
from pathlib import Path

import pytest

from onnxdyno.adapters import rapl
from onnxdyno.adapters.rapl import package_energy


def zone(root: Path, name: str, energy_uj: int, called: str, range_uj: int = 1_000_000) -> Path:
    folder = root / name
    folder.mkdir()
    for file, text in (("name", called), ("energy_uj", energy_uj), ("max_energy_range_uj", range_uj)):
        (folder / file).write_text(f"{text}\n")
    return folder


def test_packages_are_added_up_and_what_lies_within_or_around_them_is_not(tmp_path: Path) -> None:
    first = zone(tmp_path, "intel-rapl:0", 500, "package-0")
    second = zone(tmp_path, "intel-rapl:1", 10, "package-1")
    core = zone(tmp_path, "intel-rapl:0:0", 1, "core")
    psys = zone(tmp_path, "intel-rapl:2", 1, "psys")
    meter = package_energy(tmp_path, tmp_path / "none")
    assert meter.read_uj is not None
    assert meter.read_uj() == 0
    for folder, now in ((first, 700), (second, 60), (core, 999), (psys, 999)):
        (folder / "energy_uj").write_text(str(now))
    assert meter.read_uj() == 250


def test_a_counter_that_starts_again_goes_on(tmp_path: Path) -> None:
    folder = zone(tmp_path, "intel-rapl:0", 999_000, "package-0")
    read_uj = package_energy(tmp_path, tmp_path / "none").read_uj
    assert read_uj is not None
    (folder / "energy_uj").write_text("500")
    assert read_uj() == 1_500
    (folder / "energy_uj").write_text("700")
    assert read_uj() == 1_700


def test_a_counter_that_goes_away_gives_none(tmp_path: Path) -> None:
    folder = zone(tmp_path, "intel-rapl:0", 5, "package-0")
    read_uj = package_energy(tmp_path, tmp_path / "none").read_uj
    assert read_uj is not None
    (folder / "energy_uj").unlink()
    assert read_uj() is None


def test_a_machine_without_counters_says_what_is_missing(tmp_path: Path) -> None:
    meter = package_energy(tmp_path / "powercap", tmp_path / "perf")
    assert meter.read_uj is None
    assert meter.reason is not None
    assert "powercap" in meter.reason
    assert "energy-pkg" in meter.reason


def test_the_perf_event_is_read_in_the_unit_that_its_scale_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "events").mkdir()
    for file, text in (
        ("type", "14"), ("cpumask", "0,8"), ("events/energy-pkg", "event=0x02"),
        ("events/energy-pkg.scale", "2.3283064365386962890625e-10"),
    ):  # fmt: skip
        (tmp_path / file).write_text(f"{text}\n")
    asked: list[tuple[int, int, int]] = []

    def opened(kind: int, config: int, cpu: int) -> int:
        asked.append((kind, config, cpu))
        counter = tmp_path / f"cpu{cpu}"
        counter.write_bytes(struct.pack("Q", 2**32))  # a joule by that scale
        return os.open(counter, os.O_RDONLY)

    monkeypatch.setattr(rapl, "open_event", opened)
    read_uj = package_energy(tmp_path / "none", tmp_path).read_uj
    assert asked == [(14, 2, 0), (14, 2, 8)]
    assert read_uj is not None
    assert read_uj() == 2_000_000
    assert read_uj() is None, "the recorded counter has one reading"


def test_an_event_that_may_not_be_opened_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "events").mkdir()
    for file, text in (
        ("type", "14"),
        ("cpumask", "0"),
        ("events/energy-pkg", "event=0x02"),
        ("events/energy-pkg.scale", "1"),
    ):
        (tmp_path / file).write_text(text)

    def refused(kind: int, config: int, cpu: int) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(rapl, "open_event", refused)
    meter = package_energy(tmp_path / "none", tmp_path)
    assert meter.read_uj is None
    assert "Permission denied" in (meter.reason or "")
