"""A run and its findings as rows of the published tables; pure."""

from onnxdyno.storage.rows.columns import at
from onnxdyno.storage.rows.nodes import node_rows
from onnxdyno.storage.rows.points import point_rows
from onnxdyno.storage.rows.readings import cold_rows, memory_rows, telemetry_rows
from onnxdyno.storage.rows.requirements import requirement_rows
from onnxdyno.storage.rows.runs import run_row

__all__ = [
    "at",
    "cold_rows",
    "memory_rows",
    "node_rows",
    "point_rows",
    "requirement_rows",
    "run_row",
    "telemetry_rows",
]
