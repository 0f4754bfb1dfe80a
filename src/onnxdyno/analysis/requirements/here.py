"""The device that a run measured on against the target: measured evidence, of that device and of no other."""

from dataclasses import replace

from onnxdyno.analysis.requirements.records import Target
from onnxdyno.domain.findings import Estimate, MeasuredHere
from onnxdyno.domain.numbers import plain


def against(target: Target | None, found: MeasuredHere) -> MeasuredHere:
    """The same with what its interval shows of the target."""
    meets, reason = _shown(target, found.latency_ns)
    caveat = "" if found.state in (None, "ok") else f"; the point is {found.state}"
    return replace(found, meets=meets, reason=reason + caveat)


def _shown(target: Target | None, latency: Estimate) -> tuple[bool | None, str]:
    value, low, high = latency.value, latency.low, latency.high
    if value is None:
        return None, f"not measured here: {latency.reason or 'no latency'}"
    took = f"p50 {_ms(value)}"
    if target is None:
        return None, f"{took}; no target was given"
    asked = target.told
    if low is None or high is None:
        return None, f"not shown to meet or miss {asked}: {took} has no interval ({latency.reason or 'one launch'})"
    if high <= target.most_ns:
        return True, f"meets {asked}: {took}, up to {_ms(high)}"
    if low > target.most_ns:
        return False, f"does not meet {asked}: {took}, at least {_ms(low)}"
    return None, f"not shown to meet or miss {asked}: {took}, between {_ms(low)} and {_ms(high)}"


def _ms(value_ns: float) -> str:
    return f"{plain(value_ns / 1e6)} ms"
