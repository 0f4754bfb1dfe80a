"""The row of each published table. The text beside a column is its documentation (docs/tables.md is made from it)."""

from onnxdyno.storage.rowtypes.entries import (
    Axes,
    AxisEntry,
    FactEntry,
    LaunchEntry,
    OutcomeEntry,
    ProfileEntry,
    Texts,
)
from onnxdyno.storage.rowtypes.nodes import NodeRow
from onnxdyno.storage.rowtypes.points import PointRow, SampleRow
from onnxdyno.storage.rowtypes.readings import ColdRow, MemoryRow, TelemetryRow
from onnxdyno.storage.rowtypes.requirements import RequirementRow
from onnxdyno.storage.rowtypes.runs import RunRow
from onnxdyno.storage.rowtypes.work import WorkRow

__all__ = [
    "Axes",
    "AxisEntry",
    "ColdRow",
    "FactEntry",
    "LaunchEntry",
    "MemoryRow",
    "NodeRow",
    "OutcomeEntry",
    "PointRow",
    "ProfileEntry",
    "RequirementRow",
    "Row",
    "RunRow",
    "SampleRow",
    "TelemetryRow",
    "Texts",
    "WorkRow",
]

Row = RunRow | PointRow | SampleRow | NodeRow | WorkRow | ColdRow | MemoryRow | TelemetryRow | RequirementRow
