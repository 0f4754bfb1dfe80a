"""Stored runs as what was measured: rows of the published tables, by column name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from onnxdyno.analysis.requirements.asking import dtype_of
from onnxdyno.analysis.requirements.of_run import timed_nodes, work_nodes
from onnxdyno.analysis.requirements.records import Load, MeasuredOn
from onnxdyno.domain.axes import AxisSizes, axis_sizes, describe
from onnxdyno.domain.cost import NodeWork
from onnxdyno.domain.errors import SpecError
from onnxdyno.domain.findings import Estimate, NodeFinding
from onnxdyno.domain.outcomes import NodeTiming
from onnxdyno.domain.text import printable
from onnxdyno.hardware.catalogue import find_accelerator, find_cpu

_NS = 1e6
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """The rows of one run; points are those that carry numbers, of its first variant, one call at a time."""

    run: Row
    points: tuple[Row, ...]
    nodes: tuple[Row, ...]

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


def sizes_of(row: Row) -> AxisSizes:
    """Axes of a row; Arrow gives a map as pairs."""
    return axis_sizes(dict(row["axes"]))


def wanted_sizes(stored: StoredRun, asked: Mapping[str, int]) -> AxisSizes:
    """The smallest measured point with these columns (`batch`, `height_px`…). Raises `SpecError` if there is none."""
    fitting = [row for row in stored.points if all(row[column] == size for column, size in asked.items())]
    if not fitting:
        has = ", ".join(describe(sizes_of(row)) for row in stored.points[:8]) or "nothing measured"
        wanted = " ".join(f"{column}={size}" for column, size in asked.items())
        raise SpecError(f"{stored.name} has no point with {wanted} (it has: {has}). Give the model's file as well.")
    return min((sizes_of(row) for row in fitting), key=lambda sizes: prod(size for _, size in sizes))


def load_of(stored: StoredRun, sizes: AxisSizes) -> Load:
    """The load at a measured point by the run's own rows alone."""
    point = _at(stored.points, sizes)
    if point is None:
        raise SpecError(f"{stored.name} has no point {describe(sizes)}. Give the model's file as well.")
    where = f"{stored.name}, {describe(sizes)}"
    nodes, reason = work_nodes(_nodes_at(stored, sizes), where)
    return Load(
        sizes=sizes,
        items=point["items"] or 1,
        evidence=f"{where}: arithmetic of the profiled nodes, not their times",
        nodes=nodes,
        nodes_reason=reason,
        weights_bytes=stored.run["weight_bytes"],
        activation_bytes=point["activation_peak_bytes"],
        activation_reason=point["cost_reason"],
    )


def with_measured(load: Load, stored: Sequence[StoredRun]) -> Load:
    """The load with what runs measured at its point: GPUs pin the prediction, a CPU bounds memory only."""
    measured, hosts = dict(load.measured), dict(load.hosts)
    host_bytes = load.host_peak_bytes
    unused = []
    for each in stored:
        point = _at(each.points, load.sizes)
        if point is None:
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
    return replace(load, measured=measured, hosts=hosts, host_peak_bytes=host_bytes, evidence=evidence)


def _measured(stored: StoredRun, point: Row, device_id: str) -> MeasuredOn:
    sizes = sizes_of(point)
    value, low, high = (point[f"p50_ms{end}"] for end in ("", "_low", "_high"))
    latency = Estimate(
        value=None if value is None else value * _NS,
        low=None if low is None else low * _NS,
        high=None if high is None else high * _NS,
        reason=point["p50_reason"],
    )
    return MeasuredOn(
        device_id=device_id,
        latency_ns=latency,
        evidence=f"{stored.name}, {describe(sizes)}: p50 measured",
        nodes=timed_nodes(_nodes_at(stored, sizes), device_id, latency.value, dtype_of(stored.run["precision"])),
        peak_bytes=point["peak_memory_bytes"],
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
