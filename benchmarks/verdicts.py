"""Verdicts against interventions: `python benchmarks/verdicts.py [--only WORD]`. Exit 1 below 95 % right.

The label of a micro-model is what its time follows when FLOPs, bytes or nodes are changed, by least squares over the
logarithms; or, where FLOPs and bytes grow together, whether it gets faster when its bytes lie in a nearer cache. Our
own ceilings have no part in it. A time that follows neither or both within the noise has no label, and is told apart.
"""

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks import verdict_models as make
from benchmarks.verdict_models import Case, Made
from onnxdyno import app as house
from onnxdyno import planning
from onnxdyno.adapters.ort import OrtRuntime
from onnxdyno.analysis.nodes import profile_finding
from onnxdyno.analysis.roofline import judge
from onnxdyno.domain.bounds import Bound
from onnxdyno.domain.ceilings import Ceilings
from onnxdyno.domain.devices import Device
from onnxdyno.domain.plan import BenchmarkSpec, Point, Variant
from onnxdyno.domain.runs import Progress
from onnxdyno.domain.sessions import AS_USERS_GET_IT
from onnxdyno.domain.verdicts import Roofline
from onnxdyno.graphs.cost import cost_at
from onnxdyno.graphs.matching import match
from onnxdyno.graphs.signature import signature_of
from onnxdyno.measuring.profiling import summarise

AIM = 0.95
ROUNDS, ROUND_NS, MOST_NS = 9, 8_000_000, 1_500_000_000
FOLLOWS, AHEAD = 0.55, 0.25
"""How much of a change the time must follow for a label, and by how much more than of any other change."""
NEARER_MEMORY, NEARER_NOT = 0.7, 0.85
"""Time in the nearer cache over time as it was: below the first the bytes bound it, above the second they do not."""
RUNS = 5
KIB = 2**10

Call = Callable[[], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What the time follows (None: neither, or both), with how much of each change it followed."""

    bound: Bound | None
    told: str


def products() -> list[Case]:
    """Products of matrices; four changes of one tell arithmetic, weights and nodes apart."""
    shapes = [(128, 1024, 1024), (256, 768, 768), (128, 512, 4096), (64, 1024, 2048), (256, 512, 2048)]
    found = [_product(f"gemm {m}x{k}x{n}", m, k, n) for m, k, n in shapes]
    vectors = [(1, 4096, 4096), (1, 4096, 5504), (1, 4096, 11008), (2, 4096, 4096), (1, 2048, 8192)]
    found += [_product(f"gemv {m}x{k}x{n}", m, k, n) for m, k, n in vectors]
    found += [_product("int8 gemm 256x1024x1024", 256, 1024, 1024, dtype=np.uint8)]
    found += [_product("int8 gemm 128x512x2048", 128, 512, 2048, dtype=np.uint8)]
    return found


def _product(name: str, rows: int, inner: int, columns: int, **changes: Any) -> Case:
    whole = partial(make.product, rows, inner, columns, **changes)
    return Case(
        name=name,
        base=whole,
        variants=(
            partial(make.product, 2 * rows, inner, columns, **changes),
            partial(make.product, rows, inner, 2 * columns, **changes),
            partial(whole, parts=2),
            *((partial(make.product, rows // 2, inner, 2 * columns, **changes),) if rows > 1 else ()),
        ),
    )


def convolutions() -> list[Case]:
    """Convolutions: the kernel changes FLOPs alone, the channels both."""
    found = [
        Case(
            name=f"conv 3x3 {channels}ch {side}px",
            base=partial(make.conv, channels, channels, side),
            variants=(
                partial(make.conv, channels, channels, side, (1, 3)),
                partial(make.conv, channels, channels, 2 * side),
                partial(make.conv, channels, channels, side, parts=2),
            ),
        )
        for channels, side in ((64, 56), (128, 28), (256, 14))
    ]
    found += [
        Case(
            name=f"conv 1x1 {channels}ch {side}px",
            base=partial(make.conv, channels, channels, side, (1, 1)),
            variants=(
                partial(make.conv, channels, 2 * channels, side, (1, 1)),
                partial(make.conv, channels, channels, side, (1, 2)),
                partial(make.conv, channels, channels, side, (1, 1), parts=2),
            ),
        )
        for channels, side in ((256, 28), (512, 14))
    ]
    found += [
        Case(
            name=f"depthwise 3x3 {channels}ch {side}px",
            base=partial(make.conv, channels, channels, side, groups=channels),
            variants=(
                partial(make.conv, channels, channels, side, (3, 6), groups=channels),
                partial(make.conv, 2 * channels, 2 * channels, side, groups=2 * channels),
            ),
        )
        for channels, side in ((64, 56), (128, 28))
    ]
    found += [
        Case(
            name=f"{op} {kernel[0]}x{kernel[1]}",
            base=partial(make.pool, op, 64, 56, kernel),
            variants=(
                partial(make.pool, op, 64, 56, (kernel[0], 2 * kernel[1])),
                partial(make.pool, op, 128, 56, kernel),
            ),
        )
        for op, kernel in (("MaxPool", (3, 3)), ("AveragePool", (3, 3)), ("MaxPool", (5, 5)))
    ]
    return found


def operators() -> list[Case]:
    """One operator over data beyond every cache, and the same elements held in the nearest that a node fits in."""
    far, near = (8192, 1024), (64, 1024)
    ops = "Exp Erf Tanh Sigmoid Gelu Pow Sin Log Softmax LayerNormalization Sqrt Relu Neg ReduceMean Add".split()
    found = [
        Case(
            name=f"{op} beyond the caches",
            base=partial(make.unary, op, *far),
            nearer=partial(make.unary, op, *near, calls=far[0] // near[0]),
        )
        for op in ops
    ]
    slow = [
        Case(
            name=f"{op} in the cache",
            base=partial(make.unary, op, 128, 1024),
            nearer=partial(make.unary, op, 4, 1024, calls=32),
        )
        for op in ("Pow", "Sin", "Log", "Gelu", "LayerNormalization")
    ]
    return found + slow


def copies() -> list[Case]:
    """No FLOPs at all: what is left are bytes and nodes."""
    return [
        Case(
            name=f"{op} {rows}x{width}",
            base=partial(make.mover, op, rows, width),
            variants=(partial(make.mover, op, 2 * rows, width), partial(make.mover, op, rows, width, parts=2)),
        )
        for op, rows, width in (
            ("Transpose", 2048, 2048),
            ("Concat", 2048, 2048),
            ("Identity", 4096, 2048),
            ("Gather", 100_000, 64),
            ("Pad", 4096, 2048),
            ("Tile", 2048, 2048),
        )
    ]


def small() -> list[Case]:
    """Many nodes with hardly any work."""
    mixed = ("Add", "Relu", "Mul", "Sigmoid")
    found = [
        Case(
            name=f"{count} tiny nodes of {elements}",
            base=partial(make.chain, count, elements, ops),
            variants=(
                partial(make.chain, count, 2 * elements, ops),
                partial(make.chain, 2 * count, elements, ops),
            ),
        )
        for count, elements, ops in ((1000, 1, ("Add",)), (1000, 16, ("Add", "Mul")), (400, 8, mixed))
    ]
    found += [
        Case(
            name="200 products of 1x8x8",
            base=partial(make.products_chain, 200, 1, 8),
            variants=(partial(make.products_chain, 200, 2, 8), partial(make.products_chain, 400, 1, 8)),
        ),
        Case(
            name="Loop of 300 additions",
            base=partial(make.loop, 300, 16),
            variants=(partial(make.loop, 300, 32), partial(make.loop, 600, 16)),
        ),
        Case(
            name="LSTM 32x1x256",
            base=partial(make.lstm, 32, 1, 256),
            variants=(partial(make.lstm, 32, 2, 256), partial(make.lstm, 64, 1, 256)),
        ),
        Case(
            name="LSTM 32x16x256",
            base=partial(make.lstm, 32, 16, 256),
            variants=(partial(make.lstm, 32, 32, 256), partial(make.lstm, 64, 16, 256)),
        ),
        Case(
            name="batched product 64x64",
            base=partial(make.batched, 32, 64, 64, 64),
            variants=(partial(make.batched, 32, 64, 128, 64), partial(make.batched, 64, 64, 64, 64)),
        ),
        Case(
            name="batched product 128x128",
            base=partial(make.batched, 8, 128, 128, 128),
            variants=(partial(make.batched, 8, 128, 256, 128), partial(make.batched, 16, 128, 128, 128)),
        ),
    ]
    return found


def cases() -> list[Case]:
    """All of them."""
    return [*products(), *convolutions(), *operators(), *copies(), *small()]


def label_of(case: Case, base_ns: float, others_ns: Sequence[float], nearer_ns: float | None, call_ns: float) -> Label:
    """What the time follows; the cost of a call itself is taken off first."""
    base_ns = max(base_ns - call_ns, 1.0)
    if case.nearer is not None and nearer_ns is not None:
        ratio = max(nearer_ns - call_ns * case.nearer().calls, 1.0) / base_ns
        near = Bound.MEMORY if ratio < NEARER_MEMORY else Bound.COMPUTE if ratio > NEARER_NOT else None
        return Label(bound=near, told=f"nearer x{ratio:.2f}")
    base, others = case.base(), [each() for each in case.variants]
    columns = {
        Bound.COMPUTE: [_log(each.flops, base.flops) for each in others],
        Bound.MEMORY: [_log(each.moved_bytes, base.moved_bytes) for each in others],
        Bound.LAUNCH: [_log(each.starts, base.starts) for each in others],
    }
    moved = {bound: column for bound, column in columns.items() if any(abs(each) > 0.05 for each in column)}
    seen = [_log(max(each_ns - call_ns, 1.0), base_ns) for each_ns in others_ns]
    matrix = np.array(list(moved.values())).T
    is_one = np.linalg.matrix_rank(matrix, tol=0.3) < len(moved)
    if is_one and Bound.COMPUTE in moved:  # FLOPs and bytes moved together: a time that follows them follows both
        moved.pop(Bound.COMPUTE)
        matrix = np.array(list(moved.values())).T
    solved, *_ = np.linalg.lstsq(matrix, np.array(seen), rcond=None)
    by_bound = dict(zip(moved, map(float, solved), strict=True))
    first, *rest = sorted(by_bound, key=lambda bound: by_bound[bound], reverse=True)
    second = by_bound[rest[0]] if rest else 0.0
    is_both = is_one and first is Bound.MEMORY and any(each.flops for each in others)
    is_clear = not is_both and by_bound[first] >= FOLLOWS and by_bound[first] >= second + AHEAD
    told = " ".join(f"{bound.value} {value:+.2f}" for bound, value in by_bound.items())
    return Label(bound=first if is_clear else None, told=told)


def _log(value: float, base: float) -> float:
    return math.log2(value / base) if value > 0 and base > 0 else 0.0


def clocked(calls: Sequence[Call]) -> list[float]:
    """The lower quartile of each call's CPU times, all of them in turn, so that a neighbour meets all alike.

    One thread computes, so its CPU time is the call's time without what other processes took of the core.
    """
    times: list[list[int]] = [[] for _ in calls]
    began = time.perf_counter_ns()
    for call in calls:
        call()
    for at in range(ROUNDS):
        for call, samples in zip(calls, times, strict=True):
            until = time.perf_counter_ns() + ROUND_NS
            while True:
                start = time.thread_time_ns()
                call()
                samples.append(time.thread_time_ns() - start)
                if time.perf_counter_ns() >= until:
                    break
        if at >= 2 and time.perf_counter_ns() - began > MOST_NS:
            break
    return [float(np.quantile(samples, 0.25)) for samples in times]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """Where micro-models run: this process, one thread."""

    device: Device
    ceilings: Ceilings
    folder: Path
    runtime: OrtRuntime
    kept: list[Any] = field(default_factory=list)

    def call(self, made: Made) -> Call:
        """A call of the model with everything bound."""
        path = self.folder / "model.onnx"
        onnx.save(made.model, str(path))
        bound = self.runtime.load(path, self.device, 1).bind(made.feeds, Variant.DEVICE)
        self.kept.append(bound)  # it keeps its inputs alive; the bare call does not
        return bound.raw

    def verdict(self, made: Made, unprofiled_ns: float) -> Roofline:
        """Ours: a profile against the ceilings, beside what the call takes without the profiler."""
        path = self.folder / "model.onnx"
        onnx.save(made.model, str(path))
        recipe = replace(AS_USERS_GET_IT, profile_prefix=str(self.folder / "profile"))
        loaded = self.runtime.load(path, self.device, 1, recipe)
        call = loaded.bind(made.feeds, Variant.DEVICE)
        for _ in range(1 + RUNS):
            call()
        written = loaded.end_profile()
        if written is None:
            raise RuntimeError("the runtime wrote no profile")
        point = Point(sizes=(), variant=Variant.DEVICE)
        profile = summarise(written, point, keep_runs=RUNS)
        written.unlink()
        signature = signature_of(made.model)
        work = match(made.model, cost_at(made.model, signature, ()), profile.nodes)
        finding = profile_finding(profile, None, self.device, work)
        finding = replace(finding, coverage=sum(each.self_ns for each in profile.nodes) / unprofiled_ns)
        return judge(finding, self.ceilings, self.device, 1, weight_bytes=signature.weight_bytes)


def tried(case: Case, stand: Stand, call_ns: float) -> tuple[Label, Roofline]:
    """Label and verdict of one case."""
    base = case.base()
    calls = [stand.call(base), *(stand.call(each()) for each in case.variants)]
    nearer = case.nearer() if case.nearer is not None else None
    if nearer is not None:
        calls.append(stand.call(nearer))
    base_ns, *others_ns = clocked(calls)
    nearer_ns = others_ns.pop() * nearer.calls if nearer is not None else None
    stand.kept.clear()
    label = label_of(case, base_ns, others_ns, nearer_ns, call_ns)
    return label, stand.verdict(base, base_ns)


def compare(chosen: Sequence[Case], stand: Stand) -> tuple[int, int]:
    """Print a line for each case; (right, labelled)."""
    (call_ns,) = clocked([stand.call(make.chain(1, 1))])
    right = labelled = balanced = 0
    for case in chosen:
        label, found = tried(case, stand, call_ns)
        is_right = label.bound is not None and found.bound is label.bound
        is_open = label.bound is not None and found.bound in (None, Bound.BALANCED)
        labelled += label.bound is not None and not is_open
        right += is_right
        balanced += is_open
        mark = "no label" if label.bound is None else "right" if is_right else "abstained" if is_open else "WRONG"
        said = found.bound.value if found.bound is not None else f"none ({found.reason})"
        label_name = label.bound.value if label.bound is not None else "-"
        margin = f"{found.margin:.2g}" if found.margin is not None else "-"
        sys.stdout.write(f"{case.name:32} {label_name:8} {said:9} {margin:>8}  {mark:9} {label.told}\n")
    sys.stdout.write(
        f"{right} of {labelled} right; {len(chosen) - labelled - balanced} of {len(chosen)} have no label, "
        f"{balanced} with a label were abstained from\n"
    )
    return right, labelled


def standing(folder: Path) -> Stand:
    """This machine's CPU with one thread, calibrated if it was not."""
    device = replace(planning.with_factors(house.device(), BenchmarkSpec()), threads=1)
    ceilings = house.calibrate(device, threads=1, tell=_tell)
    return Stand(device=device, ceilings=ceilings, folder=folder, runtime=OrtRuntime())


def _tell(step: Progress) -> None:
    if step.done % 20 == 0:
        sys.stderr.write(f"{step.done}/{step.total} {step.text}\n")


def main() -> int:
    """0 if enough verdicts are right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a word in the names of the cases")
    chosen = [case for case in cases() if parser.parse_args().only in case.name]
    with tempfile.TemporaryDirectory() as folder:
        right, labelled = compare(chosen, standing(Path(folder)))
    return 0 if labelled and right >= AIM * labelled else 1


if __name__ == "__main__":
    sys.exit(main())
