"""Findings as rows of text for people: the table artifact of a run and the terminal."""

from onnxdyno.domain.axes import describe
from onnxdyno.domain.findings import Estimate, Findings, PointFinding
from onnxdyno.domain.text import printable

NS_PER_MS = 1e6
BYTES_PER_MIB = 2**20
NOTHING = "–"


def point_rows(findings: Findings) -> tuple[dict[str, str], ...]:
    """One row per point, in the plan's order; a missing number is a dash and its reason stands beside it."""
    return tuple(_row(finding) for finding in findings.points)


def _row(finding: PointFinding) -> dict[str, str]:
    memory = finding.peak_memory_bytes
    return {
        "point": printable(describe(finding.point.sizes)),
        "variant": finding.point.variant.value,
        "state": finding.state.value,
        "p50 ms": _scaled(finding.p50_ns, 1 / NS_PER_MS),
        "p50 95 % interval": _interval(finding.p50_ns, 1 / NS_PER_MS),
        "p90 ms": _scaled(finding.p90_ns, 1 / NS_PER_MS),
        "p99 ms": _scaled(finding.p99_ns, 1 / NS_PER_MS),
        "items/s": _scaled(finding.throughput_items_per_s, 1.0),
        "peak MiB": NOTHING if memory is None else _digits(memory / BYTES_PER_MIB),
        "n": str(finding.n),
        "note": printable(_note(finding), most=120),
    }


def _note(finding: PointFinding) -> str:
    flags = ", ".join(flag.value for flag in finding.flags)
    return "; ".join(part for part in (flags, finding.reason) if part)


def _scaled(estimate: Estimate, factor: float) -> str:
    return NOTHING if estimate.value is None else _digits(estimate.value * factor)


def _interval(estimate: Estimate, factor: float) -> str:
    if estimate.low is None or estimate.high is None:
        return NOTHING
    return f"{_digits(estimate.low * factor)}–{_digits(estimate.high * factor)}"


def _digits(value: float) -> str:
    """Four significant digits, never an exponent."""
    decimals = next((places for places, least in ((0, 1000.0), (1, 100.0), (2, 10.0), (3, 1.0)) if value >= least), 4)
    return f"{value:.{decimals}f}"
