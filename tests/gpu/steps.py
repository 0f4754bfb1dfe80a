"""One step of `run_all.sh` a process: `python tests/gpu/steps.py NAME`. Rows: state, name, what was seen.

States: OK, FAIL, NONE (there is no GPU, or what the step needs did not come along).
"""

import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from onnxdyno.adapters import host
from onnxdyno.adapters.nvml import GpuProbe, GpuSampler
from onnxdyno.adapters.processes import DeviceLock, ProcessLauncher
from onnxdyno.domain.assignments import Assignment, Pass, Turn
from onnxdyno.domain.axes import axis_sizes
from onnxdyno.domain.ceilings import Ceiling, CeilingKind, Ceilings, fingerprint_sha256
from onnxdyno.domain.devices import Device
from onnxdyno.domain.micros import PINNED, micros
from onnxdyno.domain.outcomes import LaunchReading, Measured, MemoryReading, PointState, Profile, Skipped
from onnxdyno.domain.plan import BenchmarkSpec, Point, Protocol, Variant
from onnxdyno.domain.sessions import CudnnSearch, SessionRecipe
from onnxdyno.domain.telemetry import event_names
from onnxdyno.graphs.reading import load
from onnxdyno.graphs.signature import read_signature
from onnxdyno.launching.ceilings import measure_ceilings
from onnxdyno.launching.driving import Answer, Limits, drive
from onnxdyno.launching.telemetry import occupied
from onnxdyno.planning import expand

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cases"
LIBRARIES = ("libcublas.so.13", "libcublasLt.so.13", "libcurand.so.10", "libcufft.so.12", "libcudnn.so.9")
"""What the CUDA provider of onnxruntime-gpu 1.31 links, or loads when it needs it."""
TURN_NS = 2_500_000_000
TENANT = (
    "import sys, time; from cuda.bindings import runtime as cuda; "
    "print(int(cuda.cudaMalloc(1 << 30)[0]), flush=True); time.sleep(30)"
)

Row = tuple[str, str]


class NotHere(Exception):
    """What the step needs is not on this machine."""


def first_gpu() -> Device:
    """The first GPU, and this process pinned to it."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        raise NotHere(f"no NVIDIA driver: {error}") from error
    (cpu,) = host.CpuProbe("1.31.1").devices()
    gpus = GpuProbe("1.31.1", cores=cpu.cores, threads=cpu.threads, slug=host.slug).devices()
    if not gpus:
        raise NotHere("the driver lists no GPU")
    os.environ["CUDA_VISIBLE_DEVICES"] = gpus[0].id
    return gpus[0]


def packages() -> Iterator[Row]:
    import onnxruntime
    from cuda import bindings

    providers = onnxruntime.get_available_providers()
    seen = f"onnxruntime {onnxruntime.__version__}, cuda.bindings {bindings.__version__}"
    is_right = "CUDAExecutionProvider" in providers and onnxruntime.__version__.startswith("1.31")
    yield ("OK" if is_right else "FAIL"), f"{seen}; {', '.join(providers)}"


def libraries() -> Iterator[Row]:
    first_gpu()
    missing = []
    for name in LIBRARIES:
        try:
            ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            missing.append(name)
    yield ("FAIL", f"not found: {', '.join(missing)}") if missing else ("OK", ", ".join(LIBRARIES))


def devices() -> Iterator[Row]:
    gpu = first_gpu()
    unread = [fact.name for fact in gpu.fingerprint if fact.value is None]
    yield (
        "OK",
        f"{gpu.name} {gpu.id} cc {gpu.compute_capability} {(gpu.memory_bytes or 0) / 2**30:.0f} GiB {gpu.device_class}",
    )
    yield "OK", f"{len(gpu.fingerprint)} facts, unread: {', '.join(unread) or 'none'}"


def identity() -> Iterator[Row]:
    gpu = first_gpu()
    from onnxdyno.adapters.cuda import CudaGpu

    found = CudaGpu().identity()
    yield ("OK" if found == gpu.id else "FAIL"), f"CUDA says {found}"


def contract() -> Iterator[Row]:
    first_gpu()
    import cuda_contract
    from onnxdyno.adapters.cuda import CudaGpu

    for check in (cuda_contract.check_gpu, cuda_contract.check_stream, cuda_contract.check_copies):
        check(CudaGpu())
    yield "OK", "identity, streams, events and copies as on the fake bindings"


def copies() -> Iterator[Row]:
    first_gpu()
    from onnxdyno.adapters.cuda import CudaGpu

    seen = []
    for size in (1 << 16, 1 << 20, 1 << 26):
        transfer = CudaGpu().copy(size, size, count=20, clock=time.perf_counter_ns)
        if transfer.reason is not None:
            yield "FAIL", transfer.reason
            return
        there, back = median(transfer.h2d_ns), median(transfer.d2h_ns)
        seen.append(
            f"{size >> 10} KiB {there / 1e3:.0f}/{back / 1e3:.0f} us ({size / there:.1f}/{size / back:.1f} GB/s)"
        )
    yield "OK", "h2d/d2h " + ", ".join(seen)


def ceilings() -> Iterator[Row]:
    """The copies of a calibration, as `onnxdyno calibrate` measures them where all else stands."""
    gpu = first_gpu()
    known = [each for each in micros(gpu.kind) if each.label != PINNED]
    stands = (
        Ceiling(kind=each.kind, label=each.label, value=None, working_bytes=each.working_bytes, is_lasting=True)
        for each in known
    )
    standing = Ceilings(
        device_id=gpu.id,
        device_class=gpu.device_class,
        threads=gpu.threads,
        fingerprint_sha256=fingerprint_sha256(gpu, gpu.threads),
        runtime_version="",
        entries=tuple(stands),
    )
    with tempfile.TemporaryDirectory() as locks, DeviceLock(Path(locks), gpu, 30, print) as lock:
        found = measure_ceilings(
            gpu,
            gpu.threads,
            cache_bytes=(),
            runtime_version="",
            launcher=ProcessLauncher(lock, host.oom_kills),
            memory_limit_bytes=None,
            tell=lambda _: None,
            sampler=GpuSampler(host.is_descendant),
            standing=standing,
        )
    for kind in (CeilingKind.H2D, CeilingKind.D2H):
        entries = [each for each in found.entries if each.kind is kind]
        lost = next((each.reason for each in entries if each.value is None), None)
        seen = ", ".join(
            f"{(each.working_bytes or 0) >> 10} KiB {each.value / 1e9:.3g} "
            f"({(each.low or 0) / 1e9:.3g} to {(each.high or 0) / 1e9:.3g})"
            for each in entries
            if each.value is not None
        )
        yield ("FAIL", f"{kind.value}: {lost}") if lost else ("OK", f"{kind.value} GB/s {seen}")


def telemetry() -> Iterator[Row]:
    gpu = first_gpu()
    recording = GpuSampler(host.is_descendant).record(gpu)
    sample, last_ns = None, -1
    for _ in range(8):
        sample = recording.wait_past(last_ns, 5) or sample
        last_ns = sample.t_ns if sample else -1
    recording.stop()
    if sample is None or sample.is_lost:
        yield "FAIL", "no reading came"
        return
    count = len(recording.samples())
    events = "?" if sample.clock_events is None else "+".join(event_names(sample.clock_events)) or "none"
    yield "OK", f"{count} readings: {sample.sm_clock_mhz} MHz {sample.power_mw} mW {sample.temperature_c} C, {events}"
    unread = "; ".join(f"{name}: {why}" for name, why in sample.reasons)
    yield "OK", f"energy {sample.energy_mj} mJ, tenants {sample.tenants}, unread: {unread or 'none'}"


def models() -> dict[str, Path]:
    """Models by name: a case of ours, a CNN of the package onnx, YOLOv8n if it came along (`make demo`)."""
    import onnx

    light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_resnet50.onnx"
    found = {"unet": CASES / "unet_multiple_of_8.onnx", "resnet50": light}
    yolo = next((path for folder in ("demo", ".gpu") for path in (ROOT / folder).rglob("*320n.onnx")), None)
    return found | ({"320n": yolo} if yolo else {})


def asked(gpu: Device, path: Path, kind: Pass, **changes: Any) -> Assignment:
    """An assignment at the model's base sizes, batch 1 and 320 × 320 where it has such axes."""

    spec = BenchmarkSpec(batches=(1,), resolutions_px=((320, 320),))
    plan = expand(spec, read_signature(path), load(path), gpu)
    variants = (
        (Variant.DEVICE, Variant.E2E, Variant.ENQUEUE, Variant.GRAPH) if kind is Pass.TIMING else (Variant.DEVICE,)
    )
    values: dict[str, Any] = {
        "kind": kind,
        "launch": 1,
        "launches": 1,
        "model_path": str(path),
        "device": gpu,
        "threads": gpu.threads,
        "recipes": plan.recipes,
        "turns": tuple(Turn(point=replace(plan.base, variant=variant), budget_ns=TURN_NS) for variant in variants),
        "seed": 0,
        "protocol": Protocol(),
    }
    return Assignment(**(values | changes))


def answers(gpu: Device, assignment: Assignment) -> list[Answer]:

    with tempfile.TemporaryDirectory() as locks, DeviceLock(Path(locks), gpu, 30, print) as lock:
        limits = Limits(load_s=60, turn_s=lambda _: 30)
        return list(drive(ProcessLauncher(lock, host.oom_kills), assignment, limits))


def timing(name: str) -> Iterator[Row]:
    gpu = first_gpu()
    path = models().get(name)
    if path is None:
        raise NotHere("the model did not come along")
    for answer in answers(gpu, asked(gpu, path, Pass.TIMING)):
        match answer:
            case Measured():
                events = f"{median(answer.device_ns) / 1e3:.0f}" if answer.device_ns else "-"
                flags = f" {','.join(answer.flags)}" if answer.flags else ""
                moved = answer.transfer
                copied = f" h2d {median(moved.h2d_ns) / 1e3:.0f} us" if moved and moved.h2d_ns else ""
                clock = f" no SM clock: {answer.device_clock_reason}" if answer.device_clock_reason else ""
                yield (
                    "OK",
                    (
                        f"{answer.point.variant:8} p50 {median(answer.samples_ns) / 1e3:.0f} us, events {events} us, "
                        f"n {len(answer.samples_ns)}, {answer.state}{flags}, "
                        f"first {answer.first_run_ns / 1e6:.0f} ms{copied}{clock}"
                    ),
                )
            case Skipped():
                is_lawful = answer.state is PointState.NOT_APPLICABLE
                yield ("OK" if is_lawful else "FAIL"), f"{answer.point.variant:8} {answer.state}: {answer.reason}"


def memory(name: str) -> Iterator[Row]:
    gpu = first_gpu()
    for answer in answers(gpu, asked(gpu, models()[name], Pass.MEMORY)):
        if isinstance(answer, MemoryReading):
            is_read = answer.peak_bytes is not None and answer.peak_bytes > 0
            own = answer.process_reason or f"{(answer.process_bytes or 0) / 2**20:.0f} MiB"
            yield (
                ("OK" if is_read else "FAIL"),
                f"peak {(answer.peak_bytes or 0) / 2**20:.0f} MiB {answer.reason or ''}; this process by NVML: {own}",
            )


def profile(name: str) -> Iterator[Row]:
    gpu = first_gpu()
    for answer in answers(gpu, asked(gpu, models()[name], Pass.PROFILE)):
        if isinstance(answer, Skipped):
            yield "FAIL", answer.reason
        elif isinstance(answer, Profile):
            on_gpu = sum(node.provider.startswith("CUDA") for node in answer.nodes)
            linked = sum(node.kernel_ns is not None for node in answer.nodes)
            seen = f"{len(answer.nodes)} nodes, {on_gpu} on CUDA, {linked} with kernels; {answer.kernels_reason or ''}"
            yield ("OK" if on_gpu else "FAIL"), seen


def search() -> Iterator[Row]:
    gpu = first_gpu()
    for way in (CudnnSearch.EXHAUSTIVE, CudnnSearch.HEURISTIC):
        whole = asked(gpu, models()["resnet50"], Pass.TIMING, recipe=SessionRecipe(cudnn_search=way))
        seen = answers(gpu, replace(whole, turns=whole.turns[:1]))
        reading = next(each for each in seen if isinstance(each, LaunchReading))
        told = dict(reading.runtime).get("CUDAExecutionProvider.cudnn_conv_algo_search")
        measured = next(each for each in seen if isinstance(each, Measured))
        yield (
            ("OK" if told == way else "FAIL"),
            (
                f"{told}: session {reading.session_ns / 1e6:.0f} ms, first run {measured.first_run_ns / 1e6:.0f} ms, "
                f"p50 {median(measured.samples_ns) / 1e3:.0f} us"
            ),
        )


def tenant() -> Iterator[Row]:
    gpu = first_gpu()
    point = Point(sizes=axis_sizes({"batch": 1}), variant=Variant.DEVICE)
    stranger = subprocess.Popen([sys.executable, "-c", TENANT], stdout=subprocess.PIPE, text=True)
    try:
        took = (stranger.stdout.readline() if stranger.stdout else "").strip()
        seen = occupied(gpu, (point,), Protocol(), GpuSampler(lambda _: False))
    finally:
        stranger.kill()
        stranger.wait(10)
    yield ("OK" if seen else "FAIL"), f"(took 1 GiB: {took}) {seen[0].reason if seen else 'was not seen'}"
    after = occupied(gpu, (point,), Protocol(), GpuSampler(lambda _: False))
    yield ("FAIL" if after else "OK"), f"after it ended: {after[0].reason if after else 'the device is free'}"


STEPS: dict[str, Callable[[], Iterator[Row]]] = {
    "packages": packages,
    "libraries": libraries,
    "devices": devices,
    "identity": identity,
    "contract": contract,
    "copies": copies,
    "ceilings": ceilings,
    "telemetry": telemetry,
    "timing-unet": lambda: timing("unet"),
    "timing-resnet50": lambda: timing("resnet50"),
    "timing-320n": lambda: timing("320n"),
    "memory-resnet50": lambda: memory("resnet50"),
    "profile-resnet50": lambda: profile("resnet50"),
    "cudnn-search": search,
    "tenant": tenant,
}


def main(name: str) -> None:
    try:
        rows = iter(STEPS[name]())
        for state, seen in rows:
            say(state, name, seen)
    except NotHere as reason:
        say("NONE", name, str(reason))
    except Exception as error:  # noqa: BLE001  a step that breaks is a row of the table
        say("FAIL", name, f"{type(error).__name__}: {error}")


def say(state: str, name: str, seen: str) -> None:
    print(f"{state:4} {name:17} {' '.join(seen.split())[:180]}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1]) if len(sys.argv) > 1 else print("\n".join(STEPS))
