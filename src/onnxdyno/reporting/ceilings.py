"""Ceilings as JSON and as a table. Schema: docs/schema/calibrate.schema.json."""

from collections.abc import Sequence

from onnxdyno.domain.ceilings import Ceiling, CeilingKey, CeilingKind, Ceilings
from onnxdyno.domain.micros import PINNED
from onnxdyno.reporting import units
from onnxdyno.reporting.documents import FORMAT, Document
from onnxdyno.reporting.grid import Cell, Column, Grid

_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_UNITS = {
    "flop_per_s": "FLOP/s",
    "elements_per_s": "elements/s",
    "bytes_per_s": "B/s",
}


def ceilings_document(found: Ceilings) -> Document:
    """Every ceiling with its interval over launches; a null has its reason."""
    return {
        "format": FORMAT,
        "device_id": found.device_id,
        "device_class": found.device_class,
        "threads": found.threads,
        "fingerprint_sha256": found.fingerprint_sha256,
        "runtime_version": found.runtime_version,
        "ceilings": [_entry(each) for each in found.entries],
    }


def ceilings_grid(found: Ceilings) -> Grid:
    """One row per ceiling."""
    columns = (
        Column(title="kind"),
        Column(title="of"),
        Column(title="working set", is_number=True),
        Column(title="ceiling", is_number=True),
        Column(title="95 % from", is_number=True),
        Column(title="to", is_number=True),
    )
    rows = tuple(
        (
            Cell(text=each.kind.value),
            Cell(text=each.label),
            Cell(text="" if each.working_bytes is None else units.size(each.working_bytes)),
            *(Cell(text=rate(each.kind, value), reason=each.reason) for value in (each.value, each.low, each.high)),
        )
        for each in found.entries
    )
    threads = f"{found.threads} thread{'s' if found.threads > 1 else ''}"
    caption = f"{found.device_class}, {threads}, onnxruntime {found.runtime_version}"
    return Grid(title="Measured ceilings", columns=columns, rows=rows, caption=caption)


def reasons(found: Ceilings) -> list[str]:
    """Why ceilings are missing, a line each."""
    return [f"{_name(each.key)}: {each.reason}" for each in found.entries if each.value is None]


def measured_now(keys: Sequence[CeilingKey]) -> list[str]:
    """What stored ceilings lacked and was measured in this call, in one line; none if nothing was."""
    if not keys:
        return []
    return [
        f"measured now, as what was stored lacked {'it' if len(keys) == 1 else 'them'}: {', '.join(map(_name, keys))}"
    ]


def _name(key: CeilingKey) -> str:
    kind, label, working_bytes = key
    what = f"{kind.value} {label}" if label == PINNED else label
    return what if working_bytes is None else f"{what} {units.size(working_bytes)}"


def rate(kind: CeilingKind, value: float | None) -> str:
    """`51.2 GFLOP/s`, `12.1 GB/s` (10^9), `1,430 ns/node`."""
    if value is None:
        return units.MISSING
    if kind is CeilingKind.DISPATCH:
        return f"{value:,.0f} ns/node"
    size, prefix = next(((size, prefix) for size, prefix in _SCALES if value >= size), (1.0, ""))
    return f"{value / size:.3g} {prefix}{_UNITS[kind.unit]}"


def _entry(each: Ceiling) -> Document:
    values = {"value": each.value, "low": each.low, "high": each.high}
    return {
        "kind": each.kind.value,
        "label": each.label,
        "unit": each.kind.unit,
        "working_bytes": each.working_bytes,
        **{name: None if value is None else float(f"{value:.8g}") for name, value in values.items()},
        "is_lasting": each.is_lasting,
        "reasons": {name: each.reason or "unknown" for name, value in values.items() if value is None},
    }
