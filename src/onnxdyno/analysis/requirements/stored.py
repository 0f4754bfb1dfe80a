"""Stored runs as what was measured: rows of the published tables, by column name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from onnxdyno.analysis.requirements.arithmetic import nodes_at
from onnxdyno.analysis.requirements.asking import dtype_of
from onnxdyno.analysis.requirements.here import against
from onnxdyno.analysis.requirements.of_run import timed_nodes
from onnxdyno.analysis.requirements.records import Load, MeasuredOn, Target
from onnxdyno.domain.axes import AxisSizes, axis_sizes, describe
from onnxdyno.domain.cost import NodeWork, PointWork
from onnxdyno.domain.errors import SpecError
from onnxdyno.domain.findings import Estimate, MeasuredHere, NodeFinding
from onnxdyno.domain.outcomes import NodeTiming, PointState
from onnxdyno.domain.text import printable
from onnxdyno.hardware.catalogue import find_accelerator, find_cpu

_NS = 1e6
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """The rows of one run, of its first variant, one call at a time: `points` carry numbers, `unmeasured` none.

    `work` is the arithmetic of its points; runs of older versions have none in their tables.
    """

    run: Row
    points: tuple[Row, ...]
    nodes: tuple[Row, ...]
    unmeasured: tuple[Row, ...] = ()
    work: tuple[PointWork, ...] = ()

    @property
    def name(self) -> str:
        """As it is cited."""
        return f"run {self.run['run_id']}"

    @property
    def gpu_id(self) -> str | None:
        """The catalogue's id of its GPU; None for a CPU, or a GPU that is not known exactly."""
        if self.run["device_kind"] != "cuda":
            return None
        found = find_accelerator(self.run["device_name"], self.run["device_memory_bytes"])
        return None if found is None else found.id

    def work_at(self, sizes: AxisSizes) -> PointWork | None:
        """What one call there computes and moves, as far as it was stored."""
        return next((each for each in self.work if each.sizes == sizes), None)

    @property
    def counted(self) -> tuple[Row, ...]:
        """Points without numbers whose arithmetic is known."""
        known = {each.sizes for each in self.work if each.classes}
        return tuple(row for row in self.unmeasured if sizes_of(row) in known)


def sizes_of(row: Row) -> AxisSizes:
    """Axes of a row; Arrow gives a map as pairs."""
    return axis_sizes(dict(row["axes"]))


def point_with(runs: Sequence[StoredRun], asked: Mapping[str, int]) -> tuple[StoredRun, AxisSizes]:
    """The smallest point with these columns (`batch`, `height_px`…) of the first run that measured one.

    Else of the first that has arithmetic there. Raises `SpecError` if none has.
    """
    measured = [(each, each.points) for each in runs]
    for each, rows in (*measured, *((each, each.counted) for each in runs)):
        fitting = [row for row in rows if all(row[column] == size for column, size in asked.items())]
        if fitting:
            return each, min((sizes_of(row) for row in fitting), key=lambda sizes: prod(size for _, size in sizes))
    first = runs[0]
    has = ", ".join(describe(sizes_of(row)) for row in first.points[:8]) or "nothing measured"
    wanted = " ".join(f"{column}={size}" for column, size in asked.items())
    raise SpecError(f"{first.name} has no point with {wanted} (it has: {has}). Give the model's file as well.")


def load_of(stored: StoredRun, sizes: AxisSizes) -> Load:
    """The load at a point by the run's own rows alone: its stored arithmetic, else that of the profiled nodes."""
    point = _at((*stored.points, *stored.unmeasured), sizes)
    if point is None:
        raise SpecError(f"{stored.name} has no point {describe(sizes)}. Give the model's file as well.")
    where = f"{stored.name}, {point['variant']} {describe(sizes)}"
    nodes, reason, what = nodes_at(stored.work_at(sizes), _nodes_at(stored, sizes), where)
    return Load(
        sizes=sizes,
        items=point["items" if point["p50_ms"] is not None else "batch"] or 1,
        evidence=f"{where}: {what}, as this run has no times for these GPUs",
        nodes=nodes,
        nodes_reason=reason,
        weights_bytes=stored.run["weight_bytes"],
        activation_bytes=point["activation_peak_bytes"],
        activation_reason=point["cost_reason"],
    )


def here_of(stored: StoredRun, sizes: AxisSizes, target: Target | None) -> MeasuredHere:
    """The run's own device against the target at this point, as it was measured."""
    run, point = stored.run, _at(stored.points, sizes)
    lost = _at(stored.unmeasured, sizes)
    nothing = f"{stored.name} has no number at this point" + ("" if lost is None else f" ({lost['state']})")
    found = MeasuredHere(
        run_id=run["run_id"],
        device_name=run["device_name"],
        device_kind=run["device_kind"],
        device_memory_bytes=run["device_memory_bytes"],
        threads=run["threads"],
        sizes=sizes,
        meets=None,
        reason=nothing,
        state=None if point is None else point["state"],
        latency_ns=Estimate(value=None, reason=nothing) if point is None else _latency(point),
        peak_memory_bytes=None if point is None else point["peak_memory_bytes"],
        peak_memory_reason=nothing if point is None else point["peak_memory_reason"],
    )
    return against(target, found)


def with_measured(load: Load, stored: Sequence[StoredRun]) -> Load:
    """The load with what runs measured at its point: GPUs pin the prediction, a CPU bounds memory only."""
    measured, hosts, ran_out = dict(load.measured), dict(load.hosts), dict(load.ran_out)
    host_bytes = load.host_peak_bytes
    unused = []
    for each in stored:
        point = _at(each.points, load.sizes)
        if point is None:
            lost = _at(each.unmeasured, load.sizes)
            if each.gpu_id is not None and lost is not None and lost["state"] == PointState.OOM:
                ran_out[each.gpu_id] = each.name
            unused.append(f"{each.name} has no number at this point")
        elif each.run["device_kind"] == "cpu":
            host_bytes = max(host_bytes or 0, point["peak_memory_bytes"] or 0) or None
            if (cpu := find_cpu(each.run["device_name"])) is not None:
                hosts[cpu.id] = _measured(each, point, cpu.id)
        elif (gpu_id := each.gpu_id) is not None:
            measured[gpu_id] = _measured(each, point, gpu_id)
        else:
            unused.append(f"{each.name} is of {printable(each.run['device_name'])}, which the catalogue does not know")
    evidence = "; ".join((load.evidence, *unused))
    return replace(load, measured=measured, hosts=hosts, ran_out=ran_out, host_peak_bytes=host_bytes, evidence=evidence)


def _measured(stored: StoredRun, point: Row, device_id: str) -> MeasuredOn:
    sizes = sizes_of(point)
    threads = f" with {stored.run['threads']} threads" if stored.run["device_kind"] == "cpu" else ""
    latency = _latency(point)
    return MeasuredOn(
        device_id=device_id,
        latency_ns=latency,
        evidence=f"{stored.name}, {point['variant']} {describe(sizes)}: p50 measured{threads}",
        nodes=timed_nodes(_nodes_at(stored, sizes), device_id, latency.value, dtype_of(stored.run["precision"])),
        peak_bytes=point["peak_memory_bytes"],
    )


def _latency(point: Row) -> Estimate:
    value, low, high = (point[f"p50_ms{end}"] for end in ("", "_low", "_high"))
    return Estimate(
        value=None if value is None else value * _NS,
        low=None if low is None else low * _NS,
        high=None if high is None else high * _NS,
        reason=point["p50_reason"],
    )


def _at(rows: Sequence[Row], sizes: AxisSizes) -> Row | None:
    return next((row for row in rows if sizes_of(row) == sizes), None)


def _nodes_at(stored: StoredRun, sizes: AxisSizes) -> tuple[NodeFinding, ...]:
    return tuple(_node(row) for row in stored.nodes if sizes_of(row) == sizes)


def _node(row: Row) -> NodeFinding:
    timing = NodeTiming(
        path=row["path"],
        index=row["node_index"],
        name=row["name"],
        op_type=row["op_type"],
        provider=row["provider"],
        self_ns=round(row["self_ms"] * _NS),
        runs=row["runs"],
        output_bytes=row["output_bytes"],
        input_shapes=row["input_shapes"],
        output_shapes=row["output_shapes"],
        kernel_ns=None if row["kernel_ms"] is None else round(row["kernel_ms"] * _NS),
    )
    work = NodeWork(
        flops=row["flops"], read_bytes=row["read_bytes"], written_bytes=row["written_bytes"], basis=row["work_basis"]
    )
    return NodeFinding(node=timing, share=row["share"] or 0.0, work=work)
