"""What the verdicts say can be gained, each bounded by the ceilings themselves; nothing that gains less than 2 %."""

from collections.abc import Callable, Sequence
from itertools import groupby
from math import ceil, isfinite

from onnxdyno.analysis.limits import Limits, rate_label
from onnxdyno.domain.bounds import Bound
from onnxdyno.domain.ceilings import CeilingKind, Ceilings
from onnxdyno.domain.devices import Device, DeviceKind
from onnxdyno.domain.micros import FLOAT16, FLOAT32, INT8
from onnxdyno.domain.numbers import percent
from onnxdyno.domain.verdicts import Advice, Move, NodeVerdict

Judged = Sequence[tuple[NodeVerdict, Limits | None]]

LEAST_GAIN = 0.02
_MOST_BATCH = 4096
_CUT = {FLOAT32: (0.75, "a quarter"), FLOAT16: (0.5, "half")}
"""Of a type's weights: the share of their bytes that int8 saves, and what it leaves."""


def advise(judged: Judged, ceilings: Ceilings, device: Device) -> tuple[Advice, ...]:
    """The largest possible gain first."""
    found = (
        _raise_batch(judged),
        _int8(judged, ceilings),
        _fuse(judged),
        _more_threads(judged, ceilings, device),
        _keep_on_device(judged),
        _better_kernels(judged),
    )
    kept = [each for each in found if each is not None and each.gain_at_most >= LEAST_GAIN]
    return tuple(sorted(kept, key=lambda each: each.gain_at_most, reverse=True))


def _total_ns(judged: Judged) -> float:
    return float(sum(verdict.self_ns for verdict, _ in judged)) or 1.0


def _spent_ns(judged: Judged, is_of: Callable[[NodeVerdict], bool]) -> float:
    return float(sum(verdict.self_ns for verdict, _ in judged if is_of(verdict)))


def _raise_batch(judged: Judged) -> Advice | None:
    """FLOPs and activations grow with the batch, weights do not: from some batch on arithmetic takes longer."""
    bound = [
        (verdict, limits)
        for verdict, limits in judged
        if limits is not None and verdict.bound is Bound.MEMORY and limits.weight_bytes > limits.moved_bytes / 2
    ]
    ridges = [_ridge(verdict, limits) for verdict, limits in bound]
    finite = [(ridge, pair) for ridge, pair in zip(ridges, bound, strict=True) if ridge is not None]
    if not finite:
        return None
    slowest = max(finite, key=lambda each: each[1][0].self_ns)
    factor = float(min(ceil(slowest[0]), _MOST_BATCH))
    saved = sum(verdict.self_ns * (1 - _per_item(verdict, limits, factor)) for _, (verdict, limits) in finite)
    share = _spent_ns([pair for _, pair in finite], lambda _: True) / _total_ns(judged)
    return Advice(
        move=Move.RAISE_BATCH,
        gain_at_most=saved / _total_ns(judged),
        factor=factor,
        because=f"{percent(share)} of the time reads weights; at {factor:g} times the batch their arithmetic takes as "
        "long",
    )


def _parts_ns(verdict: NodeVerdict, limits: Limits) -> tuple[float, float, float]:
    """(compute, weights, other bytes) in nanoseconds."""
    compute = verdict.compute.value_ns if verdict.compute else 0.0
    memory = verdict.memory.value_ns if verdict.memory else 0.0
    weights = memory * limits.weight_bytes / limits.moved_bytes if limits.moved_bytes else 0.0
    return compute, weights, memory - weights


def _ridge(verdict: NodeVerdict, limits: Limits) -> float | None:
    """The batch, as a multiple, at which compute n = weights + activations n; None where it never is."""
    compute, weights, rest = _parts_ns(verdict, limits)
    return weights / (compute - rest) if compute > rest else None


def _per_item(verdict: NodeVerdict, limits: Limits, factor: float) -> float:
    """Time of an item at so many times the batch over that now."""
    compute, weights, rest = _parts_ns(verdict, limits)
    now = max(compute, weights + rest)
    return max(compute * factor, weights + rest * factor) / factor / now if now else 1.0


def _int8(judged: Judged, ceilings: Ceilings) -> Advice | None:
    """Contractions of floats: arithmetic at the rate that int8 has here, weights at a byte each; the longer stays."""
    saved = spent = 0.0
    gains: dict[str, list[float]] = {}
    for verdict, limits in judged:
        label = rate_label(verdict.found) or ""
        dtype = label.rpartition(" ")[2]
        gain = _rate_gain(label, dtype, ceilings)
        if limits is None or gain is None or verdict.bound not in (Bound.COMPUTE, Bound.MEMORY):
            continue
        compute, weights, rest = _parts_ns(verdict, limits)
        now, then = max(compute, weights + rest), max(compute / gain, weights * (1 - _CUT[dtype][0]) + rest)
        saved += verdict.self_ns * max(0.0, 1 - then / now)
        spent += verdict.self_ns
        gains.setdefault(dtype, []).append(gain)
    if not spent:
        return None
    return Advice(
        move=Move.INT8,
        gain_at_most=saved / _total_ns(judged),
        because=f"{percent(spent / _total_ns(judged))} of the time is contractions that int8 has a rate for here: "
        + ", ".join(_int8_told(dtype, each) for dtype, each in sorted(gains.items())),
    )


def _rate_gain(label: str, dtype: str, ceilings: Ceilings) -> float | None:
    """How many times the rate of these contractions int8 has on this device; None where either was not measured."""
    slow = ceilings.find(CeilingKind.FLOP_RATE, label)
    fast = ceilings.find(CeilingKind.FLOP_RATE, label.replace(dtype, INT8)) if dtype in _CUT else None
    return fast.value / slow.value if slow and fast and slow.value and fast.value else None


def _int8_told(dtype: str, gains: Sequence[float]) -> str:
    least, most = f"{min(gains):.2g}", f"{max(gains):.2g}"
    return f"{least if least == most else f'{least} to {most}'} times that of {dtype}, {_CUT[dtype][1]} of its weights"


def _fuse(judged: Judged) -> Advice | None:
    """All nodes bound by their launch as one, and every run of memory-bound elementwise nodes as one."""
    launches = [verdict for verdict, _ in judged if verdict.bound is Bound.LAUNCH and verdict.launch is not None]
    saved = sum(each.self_ns for each in launches) * (1 - 1 / max(1, len(launches)))
    ordered = sorted(judged, key=lambda pair: (pair[0].found.node.path, pair[0].found.node.index))
    chained = 0
    for is_chain, members in groupby(ordered, key=lambda pair: _is_elementwise(pair[0])):
        chain = [verdict.self_ns for verdict, _ in members]
        if is_chain and len(chain) > 1:
            saved += sum(chain) * (1 - 1 / len(chain))
            chained += len(chain)
    if not saved:
        return None
    told = [f"{len(launches)} nodes work less than their start takes"] if len(launches) > 1 else []
    told += [f"{chained} elementwise nodes in rows are bound by memory"] if chained else []
    return Advice(move=Move.FUSE, gain_at_most=saved / _total_ns(judged), because=", ".join(told))


def _is_elementwise(verdict: NodeVerdict) -> bool:
    work, node = verdict.found.work, verdict.found.node
    if verdict.bound is not Bound.MEMORY or rate_label(verdict.found) is not None or not work.flops:
        return False
    return node.output_shapes in node.input_shapes


def _more_threads(judged: Judged, ceilings: Ceilings, device: Device) -> Advice | None:
    cores = len(device.cores)
    if device.kind is not DeviceKind.CPU or cores <= ceilings.threads:
        return None
    share = _spent_ns(judged, lambda verdict: verdict.bound is Bound.COMPUTE) / _total_ns(judged)
    return Advice(
        move=Move.MORE_THREADS,
        gain_at_most=share * (1 - ceilings.threads / cores),
        factor=float(cores),
        because=f"{percent(share)} of the time is arithmetic on {ceilings.threads} of {cores} cores",
    )


def _keep_on_device(judged: Judged) -> Advice | None:
    share = _spent_ns(judged, lambda each: each.bound in (Bound.COPY, Bound.FALLBACK)) / _total_ns(judged)
    if not share:
        return None
    because = f"{percent(share)} of the time is copies between host and device, or nodes on the CPU"
    return Advice(move=Move.KEEP_ON_DEVICE, gain_at_most=share, because=because)


def _better_kernels(judged: Judged) -> Advice | None:
    """Nodes that take more than twice what the ceilings allow."""
    kernels = [verdict for verdict, _ in judged if verdict.bound is not Bound.COPY]
    slow = [each for each in kernels if each.efficiency is not None and each.efficiency < 1 / 2]
    saved = sum(each.self_ns * (1 - (each.efficiency or 0.0)) for each in slow)
    if not slow or not isfinite(saved):
        return None
    worst = max(slow, key=lambda each: each.self_ns)
    return Advice(
        move=Move.BETTER_KERNELS,
        gain_at_most=saved / _total_ns(judged),
        because=f"{len(slow)} node{'s take' if len(slow) > 1 else ' takes'} more than twice what the ceilings allow; "
        f"{'the longest' if len(slow) > 1 else 'it'} is "
        f"{worst.found.node.op_type} at {percent(worst.efficiency or 0.0)} of them",
    )
