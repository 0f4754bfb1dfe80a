"""The least memory: bisection with a truth that is known, bounds by a cgroup, and where there is none."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from factories import cpu_device, gpu_device, image_signature, memory_reading, origin, plan, point, skipped
from fakes import FINE, FakeLauncher
from onnxdyno.adapters.cgroups import CgroupBounds
from onnxdyno.adapters.host import memory_cgroup, own_cgroup_peak_bytes
from onnxdyno.domain.assignments import Assignment, Began, Done, Event
from onnxdyno.domain.devices import Device
from onnxdyno.domain.outcomes import ArenaReading, MinimumMemory, PointState
from onnxdyno.launching.minimum import find_minimum, least
from onnxdyno.launching.passes import Bench, Outside, Passes
from onnxdyno.ports import Exit, Launch, Launcher, MemoryBounds
from onnxdyno.storage.progress import MemoryLedger

BASE = point(batch=1, height=32, width=32)


@pytest.mark.parametrize("truth", [1, 999, 1_000_000, 7_654_321])
@pytest.mark.parametrize("start", [1, 1_000_000, 50_000_000])
def test_bisection_finds_a_limit_that_fits_within_two_percent_of_the_least(truth: int, start: int) -> None:
    tried: list[int] = []

    def fits(limit: int) -> bool:
        tried.append(limit)
        return limit >= truth

    found = least(fits, start)
    if truth > 4 * start:
        assert found is None
    else:
        assert found is not None
        assert truth <= found <= max(truth + 1, truth / 0.98)
        assert found in tried
        assert len(tried) <= 40


@dataclass
class Kernel:
    """A machine whose processes need so much, in all and in an arena that ignores limits below `reserved`."""

    process_bytes: int = 60_000_000
    arena_bytes: int = 5_000_000
    reserved_bytes: int = 0
    trouble: str | None = None
    stranger_below_bytes: int = 0
    """Somebody else is on the device while limits below this are tried."""
    limit_bytes: int | None = None
    bounded_to: list[int] = field(default_factory=list)

    def start(self, device: Device, assignment: bytes) -> Launch:
        return FakeLauncher([self.work]).start(device, assignment)

    def work(self, asked: Assignment) -> tuple[list[Event | bytes], Exit]:
        return [Began(turn=0), self.answer(asked), Done()], FINE

    def answer(self, asked: Assignment) -> Event:
        if self.limit_bytes is not None and self.limit_bytes < self.process_bytes:
            return skipped(BASE, PointState.OOM, "killed")
        limit = asked.recipe.arena_limit_bytes
        if limit is not None and limit < self.stranger_below_bytes:
            return skipped(BASE, PointState.FOREIGN_TENANT, "process 4242 was there")
        if limit is not None and self.reserved_bytes <= limit < self.arena_bytes:
            return skipped(BASE, PointState.OOM, "the arena is full")
        return ArenaReading(point=BASE, peak_bytes=1, held_bytes=self.arena_bytes, runs=5)

    def problem(self) -> str | None:
        return self.trouble

    @contextmanager
    def bounded(self, limit_bytes: int) -> Iterator[Launcher]:
        self.bounded_to.append(limit_bytes)
        self.limit_bytes = limit_bytes
        try:
            yield self
        finally:
            self.limit_bytes = None


_BOUNDS: type[MemoryBounds] = Kernel


def found(kernel: Kernel, device: Device | None = None) -> MinimumMemory:
    planned = plan((BASE,), device=device or cpu_device())
    outside = Outside(
        launcher=kernel,
        ledger=MemoryLedger(),
        clock=lambda: 0,
        tell=lambda _: None,
        memory_limit_bytes=lambda: None,
        bounds=kernel,
    )
    passes = Passes(bench=Bench(origin=origin(), signature=image_signature(), plan=planned), outside=outside)
    (minimum,) = find_minimum(passes, memory_reading(BASE, 20_000_000, baseline_bytes=50_000_000))
    return minimum


def test_the_process_and_its_arena_each_have_a_least_memory() -> None:
    kernel = Kernel()
    minimum = found(kernel)
    assert minimum.process_bytes is not None
    assert minimum.arena_bytes is not None
    assert 60_000_000 <= minimum.process_bytes <= 61_300_000
    assert 5_000_000 <= minimum.arena_bytes <= 5_110_000
    assert kernel.bounded_to[0] == 70_000_000
    assert kernel.limit_bytes is None


def test_a_limit_that_the_arena_does_not_keep_to_does_not_fit() -> None:
    """Below what it reserved for weights the runtime takes as much as without a limit (1.31, ResNet-50)."""
    minimum = found(Kernel(reserved_bytes=4_000_000))
    assert minimum.arena_bytes is not None
    assert minimum.arena_bytes >= 5_000_000


def test_a_search_beside_somebody_else_finds_no_minimum_rather_than_a_large_one() -> None:
    minimum = found(Kernel(stranger_below_bytes=4_000_000))
    assert (minimum.arena_bytes, minimum.arena_reason) == (None, "foreign_tenant: process 4242 was there")
    assert minimum.process_bytes is not None


def test_where_no_process_can_be_bounded_its_minimum_is_null_with_the_reason() -> None:
    minimum = found(Kernel(trouble="the memory controller is not delegated"))
    assert (minimum.process_bytes, minimum.process_reason) == (None, "the memory controller is not delegated")
    assert minimum.arena_bytes is not None


def test_a_gpu_is_in_no_memory_cgroup() -> None:
    assert "GPU" in (found(Kernel(), gpu_device()).process_reason or "")


def joined(_: Path) -> Launcher:
    raise AssertionError("nothing is started here")


def test_a_kernel_without_a_memory_controller_is_a_reason_and_leaves_nothing_behind(tmp_path: Path) -> None:
    assert "not delegated" in (CgroupBounds(tmp_path, joined).problem() or "")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_is_removed_and_what_a_living_one_uses_is_not(tmp_path: Path) -> None:
    for pid in (2**22 + 1, os.getppid()):
        (tmp_path / f"onnxdyno-{pid}").mkdir()
    CgroupBounds(tmp_path, joined).problem()
    assert [each.name for each in tmp_path.iterdir()] == [f"onnxdyno-{os.getppid()}"]


def test_a_child_that_would_escape_the_limits_above_it_is_not_made(tmp_path: Path) -> None:
    (tmp_path / "memory.use_hierarchy").write_text("0\n")
    assert "escape" in (CgroupBounds(tmp_path, joined).problem() or "")


def test_a_folder_that_cannot_be_written_is_a_reason(tmp_path: Path) -> None:
    assert "can be made" in (CgroupBounds(tmp_path / "gone", joined).problem() or "")
    assert "can be seen" in (CgroupBounds(None, joined).problem() or "")


def cgroup(tmp_path: Path, members: str) -> tuple[Path, Path]:
    root, proc = tmp_path / "cgroup", tmp_path / "proc"
    (root / "own").mkdir(parents=True)
    (proc / "self").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text("0::/own\n")
    (root / "own" / "cgroup.procs").write_text(members)
    (root / "own" / "memory.peak").write_text("123456\n")
    return root, proc


def test_the_peak_of_a_cgroup_is_the_processes_own_only_where_nobody_else_is_in_it(tmp_path: Path) -> None:
    assert own_cgroup_peak_bytes(*cgroup(tmp_path / "alone", f"{os.getpid()}\n")) == (123456, None)
    value, reason = own_cgroup_peak_bytes(*cgroup(tmp_path / "shared", f"{os.getpid()}\n1\n"))
    assert value is None
    assert "1 others" in (reason or "")


def test_the_own_cgroup_is_the_one_that_names_this_process(tmp_path: Path) -> None:
    root, proc = cgroup(tmp_path / "mine", f"{os.getpid()}\n")
    assert memory_cgroup(root, proc) == root / "own"
    assert memory_cgroup(*cgroup(tmp_path / "other", "1\n")) is None
