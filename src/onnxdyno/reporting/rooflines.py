"""A model against its ceilings, as JSON and as tables. Schema: docs/schema/roofline.schema.json."""

from math import isfinite

from onnxdyno.domain.axes import describe
from onnxdyno.domain.ceilings import CeilingKind, Ceilings
from onnxdyno.domain.numbers import percent
from onnxdyno.domain.verdicts import Advice, Move, NodeVerdict, Roofline, Span
from onnxdyno.reporting import units
from onnxdyno.reporting.ceilings import ceilings_document, rate
from onnxdyno.reporting.documents import FORMAT, Document
from onnxdyno.reporting.grid import Cell, Column, Grid, node_name

MOST_NODES = 50
_SHOWN_NODES = 15
_LEAST_TOLD = 0.005
_MOVES = {
    Move.RAISE_BATCH: "raise the batch to {factor:g} times this",
    Move.INT8: "quantise to int8",
    Move.FUSE: "fuse nodes",
    Move.MORE_THREADS: "use {factor:g} threads",
    Move.KEEP_ON_DEVICE: "keep all nodes on the device",
    Move.BETTER_KERNELS: "look for better kernels",
}


def roofline_document(name: str, found: Roofline, ceilings: Ceilings) -> Document:
    """The verdict of a model at one point, its nodes slowest first, and the ceilings behind it."""
    return {
        "format": FORMAT,
        "model": name,
        "axes": dict(found.point.sizes),
        "variant": found.point.variant.value,
        "bound": found.bound and found.bound.value,
        "margin": _number(found.margin),
        "reason": found.reason,
        "shares": {bound.value: _number(share) for bound, share in found.shares},
        "unjudged_share": _number(found.unjudged_share),
        "unexplained_share": _number(found.unexplained_share),
        "is_timed": found.is_timed,
        "untimed_reason": found.untimed_reason,
        "coverage": _number(found.coverage),
        "advice": [_advice(each) for each in found.advice],
        "nodes_total": len(found.nodes),
        "nodes": [_node(each, _share(each, found), found.untimed_reason) for each in found.nodes[:MOST_NODES]],
        "ceilings": ceilings_document(ceilings),
    }


def verdict_line(found: Roofline) -> str:
    """`bound by memory, 3.1 times ahead of the next: memory 71 %, compute 23 %`."""
    if found.bound is None:
        return f"no verdict: {found.reason}"
    told = [(bound.value, share) for bound, share in found.shares]
    told += [("not judged", found.unjudged_share), ("not explained", found.unexplained_share)]
    shares = ", ".join(f"{name} {percent(share)}" for name, share in told if share >= _LEAST_TOLD)
    ahead = ""
    if found.margin is not None and isfinite(found.margin):
        ahead = f", {found.margin:.3g} times the next"
    return f"{found.bound.value}{ahead}: {shares} {_of_what(found)}"


def _of_what(found: Roofline) -> str:
    if found.is_timed:
        return "of the time"
    if found.coverage is not None:
        return f"of the call without the profiler, by the ceilings alone; {found.untimed_reason}"
    return "of the least that the ceilings allow, as no kernel was timed"


def advice_lines(found: Roofline) -> list[str]:
    """What to try, the largest possible gain first."""
    return [
        f"{_MOVES[each.move].format(factor=each.factor or 0)}: saves at most {percent(each.gain_at_most)} of an "
        f"item's time ({each.because})"
        for each in found.advice
    ]


def roofline_grid(name: str, found: Roofline) -> Grid:
    """The slowest nodes with what bounds them."""
    unit = units.latency_unit([each.self_ns for each in found.nodes[:_SHOWN_NODES]])
    columns = (
        Column(title="share", is_number=True),
        Column(title=f"self {unit.name}", is_number=True),
        Column(title="operator"),
        Column(title="bound"),
        Column(title="margin", is_number=True),
        Column(title="of ceiling", is_number=True),
        Column(title="FLOP/byte", is_number=True),
        Column(title="rate", is_number=True, is_minor=True),
        Column(title="moved", is_number=True, is_minor=True),
        Column(title="node", is_minor=True),
    )
    rows = tuple(_row(each, _share(each, found), unit, found.untimed_reason) for each in found.nodes[:_SHOWN_NODES])
    caption = f"{name} at {describe(found.point.sizes)}; {verdict_line(found)}"
    return Grid(title="Roofline", columns=columns, rows=rows, caption=caption)


def _share(each: NodeVerdict, found: Roofline) -> float:
    """Of the time of all nodes, as `Roofline.shares`; on a GPU another one than of the time to start them."""
    return (1 - found.unexplained_share) * each.self_ns / (sum(other.self_ns for other in found.nodes) or 1)


def _row(each: NodeVerdict, share: float, unit: units.Unit, untimed: str | None) -> tuple[Cell, ...]:
    node, why = each.found.node, each.reason or untimed or "nothing was compared"
    margin = units.MISSING if each.margin is None else f"{each.margin:.2g}" if isfinite(each.margin) else "∞"
    intensity = each.intensity_flop_per_byte
    return (
        Cell(text=units.percent(share)),
        Cell(text=units.number(each.took_ns, unit), reason=untimed),
        Cell(text=node.op_type),
        Cell(text=units.MISSING if each.bound is None else each.bound.value, reason=why),
        Cell(text=margin, reason=why),
        Cell(text=units.percent(each.efficiency), reason=why),
        Cell(text=units.MISSING if intensity is None else f"{intensity:.3g}", reason=why),
        Cell(text=rate(CeilingKind.FLOP_RATE, each.achieved_flop_per_s), reason=why),
        Cell(text=rate(CeilingKind.BANDWIDTH, each.achieved_bytes_per_s), reason=why),
        Cell(text=node_name(node)),
    )


def _node(each: NodeVerdict, share: float, untimed: str | None) -> Document:
    node = each.found.node
    took: Document = {"self_ms": None if each.took_ns is None else _number(each.took_ns / 1e6)}
    values: Document = {
        "bound": each.bound and each.bound.value,
        "margin": _number(each.margin),
        "intensity_flop_per_byte": _number(each.intensity_flop_per_byte),
        "compute_ms": _ms(each.compute),
        "memory_ms": _ms(each.memory),
        "launch_ms": _ms(each.launch),
        "achieved_flop_per_s": _number(each.achieved_flop_per_s),
        "achieved_bytes_per_s": _number(each.achieved_bytes_per_s),
        "efficiency": _number(each.efficiency),
    }
    datasheet: Document = {
        "datasheet_compute_share": _number(each.datasheet_compute_share),
        "datasheet_memory_share": _number(each.datasheet_memory_share),
    }
    why, unknown = (
        each.reason or untimed or "nothing to compare, or nothing to divide by",
        "the catalogue does not know it for this device",
    )
    return {
        "path": node.path,
        "index": node.index,
        "name": node.name,
        "op_type": node.op_type,
        **took,
        "share": _number(share),
        **values,
        **datasheet,
        "reasons": {key: why for key, value in values.items() if value is None}
        | {key: unknown for key, value in datasheet.items() if value is None}
        | {key: untimed or "unknown" for key, value in took.items() if value is None},
    }


def _advice(each: Advice) -> Document:
    return {
        "move": each.move.value,
        "gain_at_most": _number(each.gain_at_most),
        "factor": each.factor,
        "because": each.because,
    }


def _ms(span: Span | None) -> float | None:
    return None if span is None else _number(span.value_ns / 1e6)


def _number(value: float | None) -> float | None:
    return None if value is None or not isfinite(value) else float(f"{value:.8g}")
