"""Event times and copies over launches, and the reason where there are none."""

from dataclasses import replace

import factories as make
from onnxdyno.analysis.findings import analyse
from onnxdyno.analysis.on_device import with_device_times
from onnxdyno.domain.devices import DeviceKind
from onnxdyno.domain.outcomes import Transfer

POINT = make.point(batch=1)
FINDING = make.point_finding(POINT)


def transfer(*h2d_ns: int, reason: str | None = None) -> Transfer:
    return Transfer(h2d_bytes=8, d2h_bytes=4, h2d_ns=h2d_ns, d2h_ns=h2d_ns[:1], reason=reason)


def test_estimates_are_over_launches() -> None:
    launches = [
        replace(make.measured(POINT), launch=at, device_ns=(base, base + 2, base + 1), transfer=transfer(base, base))
        for at, base in enumerate((100, 110, 120), start=1)
    ]
    found = with_device_times(FINDING, launches, DeviceKind.CUDA)
    assert found.event_ns.value == 111
    assert found.h2d_ns.value == found.d2h_ns.value == 110
    assert found.event_ns.low is not None
    assert found.event_ns.high is not None
    assert found.event_ns.low < 111 < found.event_ns.high


def test_what_was_not_read_has_its_reason() -> None:
    without = [replace(make.measured(POINT), transfer=transfer(reason="no pinned memory."))]
    found = with_device_times(FINDING, without, DeviceKind.CUDA)
    assert found.event_ns.value is None
    assert found.h2d_ns.reason == "no pinned memory."
    elsewhere = with_device_times(FINDING, [make.measured(POINT)], DeviceKind.CUDA)
    assert elsewhere.h2d_ns.value is None
    assert "device" in str(elsewhere.h2d_ns.reason)


def test_a_cpu_has_neither_and_says_why() -> None:
    (found, *_) = analyse(make.benchmark_run((make.measured(POINT),))).points
    for estimate in (found.event_ns, found.h2d_ns, found.d2h_ns):
        assert estimate.value is None
        assert "CPU" in str(estimate.reason)
