"""Predictions for other devices beside what a run measured: as JSON, as a table, and the command that repeats them."""

import re
import shlex
from typing import Any

from onnxdyno.domain.axes import Role, describe
from onnxdyno.domain.findings import OtherDevices, PredictedOn
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.reporting import units
from onnxdyno.reporting.grid import Cell, Column, Grid

TITLE = "On other devices"
_NS_PER_MS = 1e6
_FITS = {True: "yes", False: "no", None: "not sure"}
_SHARE = re.compile(r"^\d+% of the time")


def others_document(found: OtherDevices) -> dict[str, Any]:
    """Every device; a null has its reason. Schema: `other_devices` in docs/schema/bench.schema.json."""
    return {
        "axes": dict(found.sizes),
        "dtype": found.dtype,
        "evidence": found.evidence,
        "reason": found.reason,
        "predictions": [_document(each) for each in found.predictions],
    }


def others_grid(found: OtherDevices) -> Grid:
    """One row per device: memory, latency with its interval, and what both rest on."""
    unit = units.latency_unit([each.latency_ns.high for each in found.predictions])
    columns = (
        Column(title="id"),
        Column(title="device", is_minor=True),
        Column(title="has GiB", is_number=True, is_minor=True),
        Column(title="needs GiB", is_number=True),
        Column(title="fits", is_minor=True),
        Column(title=f"a call {unit.name}", is_number=True),
        Column(title=f"{_confidence(found)} from", is_number=True),
        Column(title="to", is_number=True),
        Column(title="rests on"),
        Column(title="catalogue", is_minor=True),
    )
    rows = tuple(_row(each, unit) for each in found.predictions)
    return Grid(title=TITLE, columns=columns, rows=rows, caption=_caption(found))


def others_lines(run: BenchmarkRun, found: OtherDevices, results_uri: str | None) -> list[tuple[str, str]]:
    """What to know beside the table, with its label; the last is the command that gives the same again."""
    if not found.predictions:
        return [("nothing", found.reason or "no device was asked")]
    told = [("from", found.evidence)]
    for ids, notes in _notes(found):
        is_all = len(ids) == len(found.predictions)
        whose = "all" if is_all else f"{len(ids)} of {len(found.predictions)}"
        told.append((whose, "; ".join(notes) + ("" if is_all else f" ({', '.join(ids)})")))
    told.append(
        ("catalogue", "`onnxdyno hardware ID` has memory and peaks of a device, how sure they are and their source")
    )
    return [*told, ("again", _command(run, found, results_uri))]


def _row(each: PredictedOn, unit: units.Unit) -> tuple[Cell, ...]:
    latency = each.latency_ns
    numbers = (
        Cell(text=units.number(latency.value, unit, 3), reason=latency.reason if latency.value is None else None),
        *(
            Cell(text=units.number(end, unit, 3), reason=latency.reason if end is None else None)
            for end in (latency.low, latency.high)
        ),
    )
    return (
        Cell(text=each.device_id),
        Cell(text=each.device_name),
        Cell(text=units.number(each.device_memory_bytes, units.GIB, 3)),
        Cell(text=_needs(each), reason=each.memory_reason if each.needed_bytes is None else None),
        Cell(text=_FITS[each.fits]),
        *numbers,
        Cell(text=each.basis or units.MISSING, reason=latency.reason if each.basis is None else None),
        Cell(text=each.device_confidence),
    )


def _needs(each: PredictedOn) -> str:
    """`0.26 to 2.14`, or the upper bound alone where no lower one is known."""
    if each.needed_bytes is None:
        return units.MISSING
    most = units.number(each.needed_bytes, units.GIB, 3)
    if each.least_needed_bytes is None:
        return f"up to {most}"
    return f"{units.number(each.least_needed_bytes, units.GIB, 2)} to {most}"


def _confidence(found: OtherDevices) -> str:
    shares = {each.confidence for each in found.predictions if each.confidence is not None}
    return f"{100 * min(shares, default=0.9):.0f} %"


def _caption(found: OtherDevices) -> str:
    """What holds for all rows; they have one source, whose profile it is or arithmetic."""
    sources = {each.source_id for each in found.predictions}
    profiles = ", ".join(sorted(each for each in sources if each is not None))
    source = f"the profile of {profiles}" if profiles else "arithmetic alone, from no device's times"
    return f"predicted by {source}, not measured: {describe(found.sizes)}, {found.dtype or 'unknown precision'}"


def _notes(found: OtherDevices) -> list[tuple[tuple[str, ...], list[str]]]:
    """Devices and what is noted of all of them; alike but for its name or a percentage, they are one."""
    whose: dict[str, list[str]] = {}
    for each in found.predictions:
        for note in each.notes if each.basis is not None else ():
            told = _SHARE.sub("part of the time", note.replace(f" of {each.device_id}", ""))
            whose.setdefault(told, []).append(each.device_id)
    grouped: dict[tuple[str, ...], list[str]] = {}
    for note, ids in whose.items():
        grouped.setdefault(tuple(ids), []).append(note)
    return list(grouped.items())


def _command(run: BenchmarkRun, found: OtherDevices, results_uri: str | None) -> str:
    """From the stored run where it is known where, else from the file, whose arithmetic is the same."""
    origin, sizes = run.origin, dict(found.sizes)
    by_role = {axis.role: sizes[axis.name] for axis in run.signature.axes if axis.name in sizes}
    said = ["onnxdyno", "predict"]
    if results_uri is not None:
        said += ["--run", origin.run_id, "--results", results_uri]
    else:
        said.append(f"{origin.source_uri.removeprefix('file:')}/{origin.source_key}")
    if Role.BATCH in by_role:
        said += ["--batch", str(by_role[Role.BATCH])]
    if Role.HEIGHT in by_role and Role.WIDTH in by_role:
        said += ["--resolution", f"{by_role[Role.HEIGHT]}x{by_role[Role.WIDTH]}"]
    if Role.SEQUENCE in by_role:
        said += ["--sequence", str(by_role[Role.SEQUENCE])]
    for each in found.predictions:
        said += ["--to", each.device_id]
    return shlex.join(said)


def _document(each: PredictedOn) -> dict[str, Any]:
    latency = each.latency_ns
    value_ms, low_ms, high_ms = (_ms(end) for end in (latency.value, latency.low, latency.high))
    interval = None if low_ms is None or high_ms is None else [low_ms, high_ms]
    untold = latency.reason or "not known"
    unsure = "the upper bound does not fit, the lower does" if each.needed_bytes is not None else each.memory_reason
    nulls = {
        "latency_ms": (value_ms, untold),
        "latency_interval_ms": (interval, untold),
        "confidence": (each.confidence, untold),
        "basis": (each.basis, untold),
        "source_id": (each.source_id, "by arithmetic alone"),
        "least_needed_bytes": (each.least_needed_bytes, each.memory_reason),
        "needed_bytes": (each.needed_bytes, each.memory_reason),
        "fits": (each.fits, unsure),
    }
    return {
        "device_id": each.device_id,
        "device_name": each.device_name,
        "device_memory_bytes": each.device_memory_bytes,
        "device_source": each.device_source,
        "device_confidence": each.device_confidence,
        **{name: value for name, (value, _) in nulls.items()},
        "memory_reason": each.memory_reason,
        "notes": list(each.notes),
        "reasons": {name: why for name, (value, why) in nulls.items() if value is None},
    }


def _ms(value_ns: float | None) -> float | None:
    return None if value_ns is None else float(f"{value_ns / _NS_PER_MS:.8g}")
