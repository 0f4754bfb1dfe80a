"""How every device of the catalogue stands to a load: memory it needs at most, latency with its interval."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from onnxdyno.analysis.prediction import Basis, Prediction, predict, predict_from, predict_memory
from onnxdyno.analysis.requirements.records import Goal, Load, MeasuredOn, Standing
from onnxdyno.domain.findings import Estimate
from onnxdyno.hardware.catalogue import is_supported
from onnxdyno.hardware.lookup import Catalogue
from onnxdyno.hardware.records import Accelerator

PREDICTED, MEASURED = 0.9, 0.95
"""Probability, at least, that a latency is below the upper end of its interval: the two-sided confidence of the
interval. If it misses as often below as above, that end is the 95 % (97.5 %) quantile; this is not relied on."""

_PER_BOARD = "(per GPU)"
"""A row of one GPU of a board that holds several: no device that can be had alone."""
_CONTEXT_BYTES = 1100 * 2**20
_MOST_CONTEXT_BYTES = _CONTEXT_BYTES + 2**30
"""As in `predict_memory`: the most that a context takes, and that with the most workspace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """Memory that a load takes on a GPU: an upper bound and what cannot be avoided; None has its `reason`."""

    least_bytes: int | None = None
    most_bytes: int | None
    reason: str


def candidates(goal: Goal) -> tuple[Accelerator, ...]:
    """Single GPUs of the asked markets that the shipped runtime has machine code for."""
    return tuple(
        each
        for each in goal.catalogue.accelerators
        if each.market in goal.markets and is_supported(each) and not each.name.endswith(_PER_BOARD)
    )


def standings(load: Load, devices: Sequence[Accelerator], goal: Goal) -> tuple[Standing, ...]:
    """One for each device, in their order."""
    ids = [each.id for each in devices]
    profiles = {each.device_id: each.nodes for each in load.measured.values() if each.nodes}
    found: Sequence[Prediction | None] = [None] * len(ids)
    if profiles:
        found = predict_from(profiles, ids, dtype=goal.dtype, catalogue=goal.catalogue)
    elif load.nodes:
        found = predict(load.nodes, None, ids, dtype=goal.dtype, catalogue=goal.catalogue)
    return tuple(
        _standing(load, device, each, load.measured.get(device.id), goal)
        for device, each in zip(devices, found, strict=True)
    )


def _standing(
    load: Load, device: Accelerator, found: Prediction | None, measured: MeasuredOn | None, goal: Goal
) -> Standing:
    memory = needed(load, device, goal.catalogue)
    needed_bytes, memory_reason = memory.most_bytes, memory.reason
    if measured is not None and measured.latency_ns.value is not None:
        return Standing(
            device=device,
            needed_bytes=needed_bytes,
            memory_reason=memory_reason,
            latency_ns=measured.latency_ns,
            basis=Basis.MEASURED.value,
            probability=MEASURED if measured.latency_ns.high is not None else None,
            evidence=measured.evidence,
        )
    if found is None or found.latency_ns is None:
        reason = (found and found.reason) or load.nodes_reason or "nothing to predict it from"
        silent = Estimate(value=None, reason=reason)
        return Standing(device=device, needed_bytes=needed_bytes, memory_reason=memory_reason, latency_ns=silent)
    return Standing(
        device=device,
        needed_bytes=needed_bytes,
        memory_reason=memory_reason,
        latency_ns=Estimate(value=found.latency_ns, low=found.low_ns, high=found.high_ns, reason=found.reason),
        basis=found.basis.value,
        probability=PREDICTED if found.high_ns is not None else None,
        evidence=_evidence(load, found),
    )


def _evidence(load: Load, found: Prediction) -> str:
    if found.source_id is None:
        return "; ".join((load.evidence, *found.notes))
    sources = found.source_id.split(" + ")
    told = [each.evidence for each in load.measured.values() if each.device_id in sources]
    return "; ".join((f"profile of {found.source_id}", *told, *found.notes))


def needed(load: Load, device: Accelerator, catalogue: Catalogue) -> Needed:
    """The memory that the load takes there, and how it is known or why it is not."""
    if device.id in load.ran_out and device.id not in load.measured:
        return Needed(most_bytes=None, reason=f"it ran out of memory in {load.ran_out[device.id]}")
    measured = [each for each in load.measured.values() if each.peak_bytes is not None]
    own = next((each for each in measured if each.device_id == device.id), measured[0] if measured else None)
    activation_bytes = load.activation_bytes
    if own is None and activation_bytes is None:
        return _by_host(load)
    found = predict_memory(
        device.id,
        weights_bytes=load.weights_bytes,
        activation_bytes=activation_bytes or 0,
        measured_bytes=None if own is None else (own.peak_bytes or 0) + _CONTEXT_BYTES,
        context_bytes=None if own is None else _CONTEXT_BYTES,
        arena_grows_as_requested=own is not None and own.device_id == device.id,
        catalogue=catalogue,
    )
    if own is not None:
        once_more = "" if own.device_id == device.id else " and one more doubling of its arena"
        measured_text = f"{_mib(own.peak_bytes or 0)} over the context measured on {own.device_id}{once_more}"
        return Needed(
            least_bytes=found.low_bytes,
            most_bytes=found.high_bytes,
            reason=f"upper bound from {measured_text} + {_mib(_CONTEXT_BYTES)} context",
        )
    by_host = _by_host(load)
    parts = f"{_mib(load.weights_bytes)} weights and {_mib(activation_bytes or 0)} live activations"
    if by_host.most_bytes is not None and by_host.most_bytes > found.high_bytes:
        return replace(by_host, least_bytes=found.low_bytes)
    return Needed(
        least_bytes=found.low_bytes,
        most_bytes=found.high_bytes,
        reason=f"upper bound from {parts}: 4 × both + {_mib(_MOST_CONTEXT_BYTES)} context and workspace",
    )


def _by_host(load: Load) -> Needed:
    if load.host_peak_bytes is None:
        reason = f"memory is not known: {load.activation_reason or 'live activations were not counted'}"
        return Needed(most_bytes=None, reason=reason)
    text = f"upper bound from {_mib(load.host_peak_bytes)} measured on the CPU + {_mib(_MOST_CONTEXT_BYTES)}"
    return Needed(most_bytes=load.host_peak_bytes + _MOST_CONTEXT_BYTES, reason=f"{text} context and workspace")


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:,.1f} MiB"
