"""What a device's own clock and its copies say of a point, over launches."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median

from onnxdyno.analysis.latency import over_launches
from onnxdyno.domain.devices import DeviceKind
from onnxdyno.domain.findings import NO_DEVICE, Estimate, PointFinding
from onnxdyno.domain.outcomes import Measured, Transfer


def with_device_times(finding: PointFinding, measured: Sequence[Measured], kind: DeviceKind) -> PointFinding:
    """The finding with event time and copies, each null with its reason where it was not read."""
    if kind is not DeviceKind.CUDA:
        return replace(finding, event_ns=NO_DEVICE, h2d_ns=NO_DEVICE, d2h_ns=NO_DEVICE)
    if not measured:
        return replace(finding, event_ns=finding.p50_ns, h2d_ns=finding.p50_ns, d2h_ns=finding.p50_ns)
    return replace(
        finding,
        event_ns=_over([each.device_ns for each in measured], "calls of this variant are not timed by events"),
        h2d_ns=_copies(measured, lambda transfer: transfer.h2d_ns),
        d2h_ns=_copies(measured, lambda transfer: transfer.d2h_ns),
    )


def _copies(measured: Sequence[Measured], times_ns: Callable[[Transfer], tuple[int, ...]]) -> Estimate:
    transfers = [each.transfer for each in measured if each.transfer is not None]
    reasons = [transfer.reason for transfer in transfers if transfer.reason is not None]
    why = reasons[0] if reasons else "copies are timed with the variant device"
    return _over([times_ns(transfer) for transfer in transfers], why)


def _over(launches: Sequence[tuple[int, ...]], why_not: str) -> Estimate:
    medians = [median(times_ns) for times_ns in launches if times_ns]
    return over_launches(medians) if medians else Estimate(value=None, reason=why_not)
