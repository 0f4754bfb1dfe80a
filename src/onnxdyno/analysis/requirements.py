"""Requirement tiers: which device of the catalogue a model needs, and what each entry rests on.

First form: memory is measured, speed on other devices is not. A tier that would need speed abstains.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from onnxdyno.analysis.choices import meets, target_of
from onnxdyno.domain.devices import DeviceKind
from onnxdyno.domain.findings import Choice, PointFinding, Tier
from onnxdyno.domain.numbers import plain
from onnxdyno.domain.plan import BenchmarkPlan
from onnxdyno.hardware.catalogue import find_accelerator, is_supported
from onnxdyno.hardware.records import Accelerator

MARKETS = ("datacenter", "workstation", "desktop")
"""Whose devices are considered: no laptops, no edge boards (their memory is shared with the host)."""

CUDA_MARGIN_BYTES = 1024 * 2**20
"""What ONNX Runtime's CUDA provider holds beside a model: context, cuDNN and cuBLAS.

1,024 MiB is the baseline reported for the provider on Linux in microsoft/onnxruntime#5801. Bare contexts alone are
256–426 MiB (invoke-ai/InvokeAI#9413, unslothai/unsloth-zoo#1053); 650 MiB were seen outside the allocator of
optimum-benchmark's ResNet-50. The largest of these is taken, since a device that is too small is the worse error.
It is added on a GPU too: the baseline of its reading already holds the context (`adapters.cuda.DeviceMemory`).
"""

USABLE_SHARE = 0.9
"""What a driver leaves of the nominal memory, at least: 0.92 of it on a T4 with ECC (see `find_accelerator`)."""

_GIB = 2**30
_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Need:
    """Memory that one point needs on a GPU and how it is known; bytes None has a reason."""

    point: PointFinding
    needed_bytes: int | None
    explanation: str


def tiers(
    points: tuple[PointFinding, ...],
    plan: BenchmarkPlan,
    best_batch: Choice,
    catalogue: Sequence[Accelerator],
    markets: tuple[str, ...] = MARKETS,
) -> tuple[Tier, ...]:
    """Minimum, recommended and optimal, in this order; single devices that the runtime supports.

    Minimum holds the base point (batch 1, or the model's fixed batch); recommended holds the best batch, or the largest
    measured point where there is none; among the devices that hold it the least memory wins, then the lowest launch
    price, then (no price known) the lowest TDP. Optimal needs speed on several devices, so it abstains.
    """
    measured = [
        point
        for point in points
        if point.state.is_measured and point.point.variant is plan.base.variant and point.point.is_plain
    ]
    devices = sorted((each for each in catalogue if each.market in markets and is_supported(each)), key=_order)
    minimum = _minimum(measured, plan, devices)
    recommended = _recommended(measured, plan, best_batch, devices)
    return minimum, _said_if_same(minimum, recommended), _optimal(plan)


def _minimum(measured: list[PointFinding], plan: BenchmarkPlan, devices: list[Accelerator]) -> Tier:
    base = next((point for point in measured if point.point == plan.base), None)
    if base is None:
        return _abstain("minimum", plan, f"the first point, {plan.base.key}, was not measured")
    return _least("minimum", _need(base, plan), devices)


def _recommended(
    measured: list[PointFinding], plan: BenchmarkPlan, best_batch: Choice, devices: list[Accelerator]
) -> Tier:
    wanted = next((point for point in measured if point.point == best_batch.point), None)
    if wanted is None:
        sized = [point for point in measured if point.peak_memory_bytes is not None]
        wanted = max(sized, key=lambda point: point.peak_memory_bytes or 0, default=None)
    if wanted is None:
        return _abstain("recommended", plan, _no_memory_reason(measured))
    need = _need(wanted, plan)
    own = _own_device(plan)
    target_ns = target_of(plan)
    if own is not None and target_ns is not None and meets(wanted, target_ns):
        return _measured_tier(own, need, target_ns)
    return _least("recommended", need, devices)


def _optimal(plan: BenchmarkPlan) -> Tier:
    if _own_device(plan) is None:
        return _abstain("optimal", plan, "needs a measurement or prediction of speed; not available from memory alone")
    return _abstain("optimal", plan, "needs speed on more than one device of the catalogue; this run measured one")


def _measured_tier(own: Accelerator, need: _Need, target_ns: float) -> Tier:
    high_ms, target_ms = (need.point.p50_ns.high or 0.0) / 1e6, target_ns / 1e6
    return Tier(
        tier="recommended",
        device_id=own.id,
        device_name=own.name,
        memory_bytes=own.memory_bytes,
        needed_bytes=need.needed_bytes,
        sizes=need.point.point.sizes,
        basis="measured",
        reason=f"measured on this device: p50 interval up to {plain(high_ms)} ms, target {plain(target_ms)} ms",
    )


def _least(name: str, need: _Need, devices: list[Accelerator]) -> Tier:
    chosen = None
    reason = need.explanation
    if need.needed_bytes is not None:
        needed_bytes = need.needed_bytes
        chosen = next((each for each in devices if needed_bytes <= each.memory_bytes * USABLE_SHARE), None)
        why = (
            f"least supported device that holds it in {USABLE_SHARE:.0%} of its memory"
            if chosen
            else "no single supported device of the catalogue holds it"
        )
        reason = f"rests on memory alone, not on speed: {need.explanation}; {why}"
    return Tier(
        tier=name,
        device_id=chosen.id if chosen else None,
        device_name=chosen.name if chosen else None,
        memory_bytes=chosen.memory_bytes if chosen else None,
        needed_bytes=need.needed_bytes,
        sizes=need.point.point.sizes,
        basis="memory",
        reason=reason,
    )


def _need(point: PointFinding, plan: BenchmarkPlan) -> _Need:
    peak_bytes = point.peak_memory_bytes
    if peak_bytes is None:
        reason = point.peak_memory_reason or "no memory pass was made"
        return _Need(point=point, needed_bytes=None, explanation=f"memory of {point.point.key} is not known: {reason}")
    where = f"on {plan.device.name}" if plan.device.kind is DeviceKind.CUDA else "on the CPU"
    explanation = (
        f"{_mib(peak_bytes)} measured {where} (peak over its baseline) + {_mib(CUDA_MARGIN_BYTES)} margin "
        "for CUDA context and libraries (onnxruntime#5801)"
    )
    return _Need(point=point, needed_bytes=peak_bytes + CUDA_MARGIN_BYTES, explanation=explanation)


def _said_if_same(minimum: Tier, recommended: Tier) -> Tier:
    if recommended.device_id is None or recommended.device_id != minimum.device_id:
        return recommended
    return replace(recommended, reason=f"the same device as the minimum; {recommended.reason}")


def _abstain(name: str, plan: BenchmarkPlan, reason: str) -> Tier:
    return Tier(
        tier=name,
        device_id=None,
        device_name=None,
        memory_bytes=None,
        needed_bytes=None,
        sizes=plan.base.sizes,
        basis="memory",
        reason=reason,
    )


def _own_device(plan: BenchmarkPlan) -> Accelerator | None:
    if plan.device.kind is not DeviceKind.CUDA:
        return None
    return find_accelerator(plan.device.name, plan.device.memory_bytes)


def _no_memory_reason(measured: list[PointFinding]) -> str:
    if not measured:
        return "no point was measured"
    reason = next(
        (point.peak_memory_reason for point in measured if point.peak_memory_reason), "no memory pass was made"
    )
    return f"memory is not known: {reason}"


def _order(accelerator: Accelerator) -> tuple[int, bool, float, str]:
    price_usd, tdp_w = accelerator.launch_price_usd, accelerator.tdp_w
    cost = price_usd if price_usd is not None else (tdp_w if tdp_w is not None else float("inf"))
    return accelerator.memory_bytes, price_usd is None, cost, accelerator.id


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / _GIB:,.2f} GiB" if size_bytes >= 10 * _GIB else f"{size_bytes / _MIB:,.0f} MiB"
