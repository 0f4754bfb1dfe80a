"""A profile and measured ceilings -> what bounds each node and the model. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from onnxdyno.analysis.advice import advise
from onnxdyno.analysis.limits import Limits, copy_limit, limits_of, rate_label
from onnxdyno.analysis.nodes import device_times
from onnxdyno.domain.bounds import Bound
from onnxdyno.domain.ceilings import Ceilings, fingerprint_sha256
from onnxdyno.domain.devices import Device, DeviceKind
from onnxdyno.domain.findings import NodeFinding, ProfileFinding
from onnxdyno.domain.numbers import percent
from onnxdyno.domain.operators import COPY_OPS
from onnxdyno.domain.verdicts import NodeVerdict, Roofline, Span

_HOLDS_GRAPHS = frozenset({"Loop", "If", "Scan", "SequenceMap"})
_LANES = 16
"""Elements that one thread of a CPU works on at once, roughly: below as many for each thread, threads idle."""
_IDLE = 0.5
MOST_COVERAGE = 2.0
"""Times of nodes over the whole call without the profiler: above it more of them is the profiler's than the model's.

Of 20 real and 57 micro-models those with work in their nodes show 0.96 to 1.5, those of microsecond nodes 3 to 13.
"""
_STARTS_ALONE = "this profile tells how long nodes took to start, not how long they ran"
_UNEXPLAINED = 0.25
"""Of what the ceilings allow: below it a kernel is so slow that the nearer limit may not be what holds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Datasheet:
    """Theoretical peaks of a device of the catalogue; of contractions in one type by its name, `float16`."""

    flop_per_s: float | None = None
    bytes_per_s: float | None = None
    contractions: tuple[tuple[str, float | None], ...] = ()

    def peak(self, label: str | None) -> float | None:
        """What bounds a node with this `rate_label`: of a contraction the peak of its type, else the plain one."""
        by_dtype = dict(self.contractions)
        dtype = "" if label is None else label.rpartition(" ")[2]
        return by_dtype.get(dtype, self.flop_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stand:
    """By what a node is judged."""

    ceilings: Ceilings
    device: Device
    threads: int
    weight_bytes: int


def why_not(ceilings: Ceilings, device: Device, threads: int) -> str | None:
    """Why these ceilings say nothing of a profile of this device with so many threads; None if they do."""
    if ceilings.device_class != device.device_class or ceilings.device_id != device.id:
        return f"the profile is of {device.device_class}, the ceilings are of {ceilings.device_class}"
    if ceilings.threads != threads:
        return f"the profile ran with {threads} threads, the ceilings with {ceilings.threads}"
    if ceilings.fingerprint_sha256 != fingerprint_sha256(device, threads):
        return "the device's fingerprint is another one than when its ceilings were measured: calibrate again"
    return None


def judge(
    profile: ProfileFinding,
    ceilings: Ceilings,
    device: Device,
    threads: int,
    *,
    weight_bytes: int = 0,
    datasheet: Datasheet | None = None,
) -> Roofline:
    """Verdicts of every node and of the model; none, with a reason, where the ceilings are of something else."""
    refused = why_not(ceilings, device, threads)
    if refused is None and not profile.nodes:
        refused = "the profile has no nodes"
    if refused is not None:
        return Roofline(point=profile.point, bound=None, margin=None, reason=refused)
    times_ns = device_times([each.node for each in profile.nodes])
    coverage = _coverage(profile, times_ns)
    doubt = _doubt(coverage)
    if doubt is not None:
        times_ns = (None,) * len(times_ns)
    pairs = [
        _judged(each, took_ns, _Stand(ceilings=ceilings, device=device, threads=threads, weight_bytes=weight_bytes))
        for each, took_ns in zip(profile.nodes, times_ns, strict=True)
    ]
    if device.kind is not DeviceKind.CPU or doubt is not None:  # the profile has them by other times than these
        pairs.sort(key=lambda pair: pair[0].self_ns, reverse=True)
    nodes = tuple(_with_datasheet(verdict, limits, datasheet or Datasheet()) for verdict, limits in pairs)
    whole_ns = 0.0 if doubt is None else _unprofiled_ns(profile)
    shares, unjudged = _shares(nodes, whole_ns)
    unexplained = 0.0 if doubt is None else max(0.0, 1 - sum(share for _, share in shares) - unjudged)
    profilers = 1 - 1 / coverage if doubt is None and coverage is not None and coverage > 1 else 0.0
    bound, margin, reason = _whole(shares, unjudged, unexplained + profilers)
    if doubt is not None and bound in (None, Bound.BALANCED):
        bound, margin = _all_launch(nodes)
        reason = f"{doubt}; the least that the ceilings allow is {percent(1 - unexplained)} of that call"
    judged = [(verdict, limits) for verdict, (_, limits) in zip(nodes, pairs, strict=True)]
    return Roofline(
        point=profile.point,
        bound=bound,
        margin=margin,
        reason=reason if bound in (None, Bound.BALANCED) else None,
        shares=shares,
        unjudged_share=unjudged,
        nodes=nodes,
        is_timed=None not in times_ns,
        untimed_reason=doubt or (_STARTS_ALONE if None in times_ns else None),
        unexplained_share=unexplained,
        coverage=coverage,
        advice=() if doubt is not None else advise(judged, ceilings, device),
    )


def _unprofiled_ns(profile: ProfileFinding) -> float:
    """The median call without the profiler; 0 where there is none."""
    return sum(each.node.self_ns for each in profile.nodes) / profile.coverage if profile.coverage else 0.0


def _coverage(profile: ProfileFinding, times_ns: Sequence[int | None]) -> float | None:
    """What nodes took over the call without the profiler; None where either was not measured."""
    unprofiled_ns = _unprofiled_ns(profile)
    known = [each for each in times_ns if each is not None]
    return sum(known) / unprofiled_ns if unprofiled_ns and len(known) == len(times_ns) else None


def _doubt(coverage: float | None) -> str | None:
    """Why times of nodes say nothing of the call as users make it; None if they do, or nobody knows."""
    if coverage is None or coverage <= MOST_COVERAGE:
        return None
    return (
        f"with the profiler on its nodes took {coverage:.2g} times as long as the whole call without it: beyond "
        f"{MOST_COVERAGE:g} times their times are not believed, and no gain is told from them"
    )


def _all_launch(nodes: Sequence[NodeVerdict]) -> tuple[Bound | None, float | None]:
    """Where each node works less than its start takes, what else the call takes is no arithmetic and no traffic."""
    return (Bound.LAUNCH, float("inf")) if {each.bound for each in nodes} == {Bound.LAUNCH} else (None, None)


def _judged(found: NodeFinding, took_ns: int | None, stand: _Stand) -> tuple[NodeVerdict, Limits | None]:
    verdict = NodeVerdict(found=found, bound=_by_nature(found, stand.device), took_ns=took_ns)
    if verdict.bound is Bound.COPY:
        return _copied(verdict, copy_limit(found, stand.ceilings)), None
    if verdict.bound is not None:
        return verdict, None
    if found.work.flops is None and found.work.read_bytes is None:
        return replace(verdict, reason=found.work.reason or "its FLOPs are not known"), None
    limits = limits_of(found, stand.ceilings, stand.weight_bytes)
    compute, memory, launch = limits.compute, limits.memory, limits.launch
    if compute is None or memory is None or launch is None:
        missing = "compute" if compute is None else "memory" if memory is None else "dispatch"
        return replace(verdict, reason=f"no ceiling of {missing} was measured for it"), limits
    bound, margin = _compared({Bound.COMPUTE: compute, Bound.MEMORY: memory, Bound.LAUNCH: launch})
    allowed_ns = max(compute.value_ns, memory.value_ns) + launch.value_ns
    efficiency = allowed_ns / took_ns if took_ns else None
    if bound is not Bound.LAUNCH and _is_idle(found, stand.threads, efficiency, stand.device):
        bound = Bound.OCCUPANCY
    reason = None
    if bound in (Bound.COMPUTE, Bound.MEMORY) and efficiency and efficiency < min(_UNEXPLAINED, 1 / margin):
        bound = Bound.BALANCED
        reason = f"it takes {1 / efficiency:.2g} times what the ceilings allow, more than lies between them"
    flops = found.work.flops
    verdict = replace(
        verdict,
        bound=bound,
        margin=margin,
        reason=reason,
        compute=compute,
        memory=memory,
        launch=launch,
        intensity_flop_per_byte=flops / limits.moved_bytes if flops is not None and limits.moved_bytes else None,
        achieved_flop_per_s=flops / took_ns * 1e9 if flops is not None and took_ns else None,
        achieved_bytes_per_s=limits.moved_bytes / took_ns * 1e9 if took_ns else None,
        efficiency=efficiency,
    )
    return verdict, limits


def _copied(verdict: NodeVerdict, least: Span | None) -> NodeVerdict:
    """A copy with what the link allows; it computes nothing, and its submission is in that rate."""
    if least is None:
        return verdict
    took_ns, size = verdict.took_ns, verdict.found.node.output_bytes
    nothing = Span(value_ns=0.0, low_ns=0.0, high_ns=0.0)
    return replace(
        verdict,
        compute=nothing,
        memory=least,
        launch=nothing,
        achieved_bytes_per_s=size / took_ns * 1e9 if took_ns and size else None,
        efficiency=least.value_ns / took_ns if took_ns else None,
    )


def _by_nature(found: NodeFinding, device: Device) -> Bound | None:
    """What needs no ceiling: copies, nodes of the CPU in a GPU's session, and the work of running inner graphs."""
    node = found.node
    if node.op_type in COPY_OPS:
        return Bound.COPY
    if device.kind is not DeviceKind.CPU and node.provider.startswith("CPU"):
        return Bound.FALLBACK
    return Bound.LAUNCH if node.op_type in _HOLDS_GRAPHS else None


def _compared(limits: dict[Bound, Span]) -> tuple[Bound, float]:
    """The longest and its ratio to the second; balanced where the second could be the longest."""
    first, second, *_ = sorted(limits, key=lambda bound: limits[bound].value_ns, reverse=True)
    one, other = limits[first], limits[second]
    margin = one.value_ns / other.value_ns if other.value_ns else float("inf")
    return (first if one.low_ns > other.high_ns else Bound.BALANCED), margin


def _is_idle(found: NodeFinding, threads: int, efficiency: float | None, device: Device) -> bool:
    """Whether a node has too few elements for the threads, and shows it. Of a GPU's lanes nothing is known here."""
    if device.kind is not DeviceKind.CPU or threads < 2 or efficiency is None or not found.node.output_bytes:
        return False
    return found.node.output_bytes / 4 < threads * _LANES and efficiency < _IDLE


def _with_datasheet(verdict: NodeVerdict, limits: Limits | None, datasheet: Datasheet) -> NodeVerdict:
    if limits is None:
        return verdict
    flop_per_s, bytes_per_s = verdict.achieved_flop_per_s, verdict.achieved_bytes_per_s
    peak = datasheet.peak(rate_label(verdict.found))
    return replace(
        verdict,
        datasheet_compute_share=flop_per_s / peak if flop_per_s is not None and peak else None,
        datasheet_memory_share=bytes_per_s / datasheet.bytes_per_s
        if bytes_per_s is not None and datasheet.bytes_per_s
        else None,
    )


def _shares(nodes: Sequence[NodeVerdict], whole_ns: float) -> tuple[tuple[tuple[Bound, float], ...], float]:
    """Of the time of all nodes, or of the whole call where that is longer."""
    total = max(sum(each.self_ns for each in nodes), whole_ns) or 1
    by_bound: dict[Bound | None, int] = defaultdict(int)
    for each in nodes:
        by_bound[each.bound] += each.self_ns
    told = [(bound, spent / total) for bound, spent in by_bound.items() if bound is not None]
    return tuple(sorted(told, key=lambda pair: pair[1], reverse=True)), by_bound[None] / total


def _whole(
    shares: Sequence[tuple[Bound, float]], unjudged: float, unknown: float
) -> tuple[Bound | None, float | None, str | None]:
    """The bound of most of the time, if it stays so wherever balanced and unjudged nodes and the `unknown` belong."""
    sure = [pair for pair in shares if pair[0] is not Bound.BALANCED]
    open_share = unjudged + unknown + sum(share for bound, share in shares if bound is Bound.BALANCED)
    if not sure:
        if unjudged > open_share / 2:
            return None, None, "the FLOPs and bytes of its nodes are not known"
        return Bound.BALANCED, None, None
    (first, most), second = sure[0], sure[1][1] if len(sure) > 1 else 0.0
    margin = most / second if second else float("inf")
    if most > second + open_share:
        return first, margin, None
    if unjudged > open_share / 2:
        return None, None, f"{percent(unjudged)} of the time is spent in nodes whose FLOPs are not known"
    return Bound.BALANCED, margin, None
