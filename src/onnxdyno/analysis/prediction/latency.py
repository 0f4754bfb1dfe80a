"""The latency of a whole model on other devices, from its node profile on one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, hypot, log

import numpy as np

from onnxdyno.analysis.prediction.calibration import Calibration, shipped_calibration
from onnxdyno.analysis.prediction.ceilings import Ceilings, ceilings
from onnxdyno.analysis.prediction.conformal import difficulty, half_width
from onnxdyno.analysis.prediction.physics import Floats, Nodes, columns
from onnxdyno.analysis.prediction.records import Basis, Bound, Prediction, ProfileNode, Relation
from onnxdyno.analysis.prediction.transfer import Parts, project, see
from onnxdyno.domain.errors import SpecError
from onnxdyno.domain.text import printable
from onnxdyno.hardware.lookup import AnyDevice, Catalogue, shipped
from onnxdyno.hardware.records import Accelerator, CpuModel

CONFIDENCE = 0.9

_ACROSS_KINDS = log(4.0)
"""Between a CPU and a GPU neither kernels nor fusions are the same: a range of four either way, from no calibration."""
_BETWEEN_CPUS = log(2.0)
_BETWEEN_RUNS = 0.05
"""90 % half-width from one profile of a device to the next; a prior: launches of one model differed by 2.6 to 5 %."""
_MOST = 1e24
"""Of one node, in any unit: beyond it a sum could leave what a float holds."""
_HULL_SLACK = 0.05
_UNCHECKED = log(1.3)
"""Of time in operators that no public profile of ours has, convolutions above all; a prior."""
_NOTED_SHARE = 0.1
_NEW_GPU = 0.145
"""90 % half-width of what one more GPU is off by as a whole, beyond the range of those that the method was checked on.

Of the four, large models are off by 0, 3, 10 and -3 % in the mean: Student's t with 3 degrees × 0.055 × sqrt(1 + 1/4).
Chosen after the errors of all four had been seen: their own coverage is not fully out of sample (docs/prediction.md).
It grows with how many factors of e a target lies outside their range, beyond the first.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """From where, to where, by what."""

    source: AnyDevice | None
    target: AnyDevice
    dtype: str
    known: Catalogue
    numbers: Calibration


def predict(
    nodes: Sequence[ProfileNode],
    source_id: str | None,
    target_ids: Sequence[str],
    *,
    dtype: str = "fp32",
    catalogue: Catalogue | None = None,
    calibration: Calibration | None = None,
) -> tuple[Prediction, ...]:
    """The total latency of these nodes on each target, with a 90 % interval and what it rests on.

    `nodes`: one entry per node of the profile measured on `source_id`; with `source_id` None their latencies are not
    used and the prediction is by arithmetic alone. Ids are those of the catalogue; a name or an NVML name will do.
    `dtype` is what contractions run in: fp32 (CUDA cores, TF32 off), tf32, fp16, bf16, int8. Raises `SpecError`: no
    nodes, an unknown device or dtype, a number that is not one, a source on which a node, or all of them, took no time.
    """
    known = shipped() if catalogue is None else catalogue
    numbers = shipped_calibration() if calibration is None else calibration
    source = None if source_id is None else known.find(source_id)
    profile = _profile(nodes, source)
    return tuple(
        _one(profile, _Asked(source=source, target=known.find(each), dtype=dtype, known=known, numbers=numbers))
        for each in target_ids
    )


def relation(source: Accelerator, target: Accelerator) -> Relation:
    """Same compute capability; else near when at most one major number apart (Volta and Turing are both 7)."""
    if source.compute_capability == target.compute_capability:
        return Relation.SAME
    apart = abs(source.compute_capability[0] - target.compute_capability[0])
    return Relation.NEAR if apart <= 1 else Relation.FAR


def _profile(nodes: Sequence[ProfileNode], source: AnyDevice | None) -> Nodes:
    if not nodes:
        raise SpecError("the profile has no nodes. Give at least one.")
    profile = columns(nodes)
    _refuse_odd(nodes, "flops", profile.flops)
    _refuse_odd(nodes, "bytes", profile.bytes)
    if source is None:
        return profile.unmeasured()
    if any(node.latency_ns is None for node in nodes):
        raise SpecError(f"a node of the profile from {source.id} has no latency. Measure it, or give no source.")
    _refuse_odd(nodes, "latency_ns", profile.latency_ns)
    if not profile.latency_ns.any():
        raise SpecError(f"no node of the profile from {source.id} took any time. Measure it, or give no source.")
    return profile


def _refuse_odd(nodes: Sequence[ProfileNode], field: str, values: Floats) -> None:
    odd = np.flatnonzero(~((values >= 0) & (values <= _MOST)))
    if odd.size:
        node = nodes[odd[0]]
        raise SpecError(
            f"node {odd[0]} ({printable(node.kind, 40)!r}): expected {field} from 0 to {_MOST:g}, "
            f"found {getattr(node, field)!r}. Correct it."
        )


def _one(profile: Nodes, asked: _Asked) -> Prediction:
    source, target = asked.source, asked.target
    there = ceilings(target, asked.dtype, asked.known)
    here = there if source is None else ceilings(source, asked.dtype, asked.known)
    if source is not None and source.id == target.id:
        return _measured(profile, asked)
    if there is None or here is None:
        lacking = target if there is None or source is None else source
        return _nothing(asked, f"the peak of {lacking.id} for {asked.dtype} is not known")
    if here.is_gpu != there.is_gpu:
        return _range(profile, asked, there)
    seen = see(profile, here, asked.numbers)
    parts = project(seen, here, there, asked.numbers, is_alike=_is_alike(asked))
    notes = [*_notes(there, asked)]
    if (untimed := _untimed_share(profile)) > _NOTED_SHARE:
        notes.append(f"nodes with {untimed:.0%} of the FLOPs or bytes took no time on {here.device_id}: not measured?")
    if seen.impossible_share > _NOTED_SHARE:
        notes.append(f"nodes ran faster than {asked.dtype} allows on {here.device_id}: another dtype?")
    if parts.unchecked_share > _NOTED_SHARE:
        notes.append(f"{parts.unchecked_share:.0%} of the time is in operators that the method was not checked on")
    return replace(_stated(parts, asked, there), notes=tuple(notes))


def _untimed_share(profile: Nodes) -> float:
    """Of the FLOPs or the bytes, the larger: in nodes whose latency is 0."""
    untimed = profile.latency_ns == 0
    sums = [(float(of[untimed].sum()), float(of.sum())) for of in (profile.flops, profile.bytes)]
    return max((part / whole for part, whole in sums if whole > 0), default=0.0)


def _stated(parts: Parts, asked: _Asked, there: Ceilings) -> Prediction:
    total_ns = float(parts.total_ns.sum())
    launch, compute, memory = _shares(parts, total_ns)
    bound = Bound.LAUNCH if launch > 0.5 else Bound.GPU
    between = _between(asked)
    own = (
        half_width(asked.numbers.quantiles, between or Relation.FAR, bound, difficulty(parts.idle_share))
        if there.is_gpu
        else _BETWEEN_CPUS
    )
    is_inside = _is_inside(there, asked) and parts.unchecked_share <= _NOTED_SHARE
    new = 0.0 if is_inside else _NEW_GPU * max(1.0, _beyond(there, asked))
    reach = hypot(own, there.spread(compute, memory), new, _UNCHECKED * parts.unchecked_share)
    return replace(
        _nothing(asked, None),
        latency_ns=total_ns,
        low_ns=total_ns * exp(-reach),
        high_ns=total_ns * exp(reach),
        basis=Basis.INTERPOLATED if is_inside else Basis.EXTRAPOLATED,
        relation=between,
        bound=bound,
        compute_share=compute,
        memory_share=memory,
        launch_share=launch,
    )


def _range(profile: Nodes, asked: _Asked, there: Ceilings) -> Prediction:
    """Between a CPU and a GPU: a range by the target's own arithmetic; the measured times say nothing about it."""
    parts = project(see(profile.unmeasured(), there, asked.numbers), there, there, asked.numbers)
    total_ns = float(parts.total_ns.sum())
    _, compute, memory = _shares(parts, total_ns)
    reach = hypot(_ACROSS_KINDS, there.spread(compute, memory))
    return replace(
        _nothing(asked, "between a CPU and a GPU only a range can be said"),
        low_ns=total_ns * exp(-reach),
        high_ns=total_ns * exp(reach),
        notes=_notes(there, asked),
    )


def _measured(profile: Nodes, asked: _Asked) -> Prediction:
    total_ns = float(profile.latency_ns.sum())
    return replace(
        _nothing(asked, "the sum of the profile itself: nothing was predicted"),
        latency_ns=total_ns,
        low_ns=total_ns * exp(-_BETWEEN_RUNS),
        high_ns=total_ns * exp(_BETWEEN_RUNS),
        basis=Basis.MEASURED,
        relation=Relation.SAME,
        notes=("the profile's own sum; that another profile is within 5 % of it is a prior",),
    )


def _nothing(asked: _Asked, reason: str | None) -> Prediction:
    return Prediction(
        target_id=asked.target.id,
        source_id=None if asked.source is None else asked.source.id,
        dtype=asked.dtype,
        latency_ns=None,
        low_ns=None,
        high_ns=None,
        confidence=CONFIDENCE,
        basis=Basis.EXTRAPOLATED,
        relation=None,
        bound=None,
        compute_share=None,
        memory_share=None,
        launch_share=None,
        reason=reason,
    )


def _is_alike(asked: _Asked) -> bool:
    """Whether both run the same machine code: GPUs of one compute capability, CPUs of one microarchitecture."""
    source, target = asked.source, asked.target
    if isinstance(source, CpuModel) and isinstance(target, CpuModel):
        return source.microarchitecture == target.microarchitecture
    return _between(asked) is Relation.SAME


def _between(asked: _Asked) -> Relation | None:
    if isinstance(asked.source, Accelerator) and isinstance(asked.target, Accelerator):
        return relation(asked.source, asked.target)
    return None


def _shares(parts: Parts, total_ns: float) -> tuple[float, float, float]:
    """Of the predicted time: launches, arithmetic, traffic."""
    if total_ns <= 0:
        return 1.0, 0.0, 0.0
    work_ns = parts.total_ns - parts.floor_ns
    launch = float(parts.floor_ns.sum()) / total_ns
    compute = float(work_ns[parts.is_compute].sum()) / total_ns
    return launch, compute, max(1.0 - launch - compute, 0.0)


def _is_inside(there: Ceilings, asked: _Asked) -> bool:
    """fp32, on an architecture that the method was checked on, with measured ceilings within those of its GPUs."""
    is_known = isinstance(asked.target, Accelerator) and asked.target.architecture in asked.numbers.architectures
    is_asked = asked.source is not None and asked.dtype == "fp32"
    return is_known and is_asked and there.is_measured and _beyond(there, asked) == 0


def _beyond(there: Ceilings, asked: _Asked) -> float:
    """How far the target's rates lie outside those of the GPUs that the method was checked on, as a logarithm."""
    if asked.numbers.hull is None:
        return 0.0
    least, most = asked.numbers.hull
    rates = (there.flop_per_s, there.bytes_per_s)
    distances = [max(log(low / rate), log(rate / high)) for low, rate, high in zip(least, rates, most, strict=True)]
    return max((each for each in distances if each > _HULL_SLACK), default=0.0)


def _notes(there: Ceilings, asked: _Asked) -> tuple[str, ...]:
    notes = []
    if asked.source is None:
        notes.append("no profile: by arithmetic alone")
    if there.compute_spread > 0:
        notes.append(f"the sustained {asked.dtype} rate of {there.device_id} is estimated, not measured")
    if there.memory_spread > 0:
        notes.append(f"the sustained bandwidth of {there.device_id} is estimated, not measured")
    if not there.is_gpu:
        notes.append("a CPU: all cores, and no calibration behind the interval")
    return tuple(notes)
