"""The largest image that a device is shown to process at a target's rate."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from onnxdyno.analysis.requirements.records import Goal, Load, Standing
from onnxdyno.analysis.requirements.standings import standings
from onnxdyno.domain.axes import describe
from onnxdyno.domain.findings import Estimate
from onnxdyno.domain.numbers import plain
from onnxdyno.hardware.records import Accelerator


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolutionAnswer:
    """The sizes, and the latency there on the device; `load` None has a reason."""

    device_id: str
    load: Load | None
    latency_ns: Estimate
    reason: str


def largest_resolution(loads: Sequence[Load], device: Accelerator, goal: Goal) -> ResolutionAnswer:
    """Of loads at several sizes with the same batch, the largest that fits and meets the target with its far end."""
    target = goal.target
    stand = [(load, standings(load, (device,), goal)[0]) for load in sorted(loads, key=_extent)]
    meeting = [pair for pair in stand if target is not None and pair[1].holds and pair[1].meets(target.most_ns)]
    if target is None or not meeting:
        why = "no target was given" if target is None else f"no size is shown to meet {target.asked}"
        told = f"; the smallest, {describe(stand[0][0].sizes)}, {_shown(stand[0][1])}" if stand else ""
        return ResolutionAnswer(
            device_id=device.id, load=None, latency_ns=Estimate(value=None, reason=why), reason=why + told
        )
    load, standing = meeting[-1]
    larger = [pair for pair in stand if _extent(pair[0]) > _extent(load)]
    beyond = f"the next, {describe(larger[0][0].sizes)}, {_shown(larger[0][1])}" if larger else "the largest tried"
    reason = f"largest of {len(stand)} sizes that meets {target.asked}: {_shown(standing)}; {beyond}"
    return ResolutionAnswer(device_id=device.id, load=load, latency_ns=standing.latency_ns, reason=reason)


def _extent(load: Load) -> int:
    return prod(size for _, size in load.sizes)


def _shown(standing: Standing) -> str:
    if not standing.holds:
        return "does not fit"
    latency = standing.latency_ns
    if latency.value is None:
        return f"has no latency ({latency.reason})"
    end = "" if latency.high is None else f", up to {plain(latency.high / 1e6)} ms"
    return f"takes {plain(latency.value / 1e6)} ms{end} ({standing.basis})"
