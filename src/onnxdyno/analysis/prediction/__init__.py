"""Latency and memory on other devices, from a node profile on one: physics, few shrunk numbers, conformal intervals.

`predict` (from one measured device), `predict_from` (from several) and `predict_memory` are the questions;
`read_profile` reads a foreign profile, `profile_nodes` takes our own, `spread` makes one of a total. docs/prediction.md
has the method and its table.
"""

from onnxdyno.analysis.prediction.calibration import Calibration, shipped_calibration
from onnxdyno.analysis.prediction.joining import profile_nodes
from onnxdyno.analysis.prediction.latency import predict
from onnxdyno.analysis.prediction.memory import predict_memory
from onnxdyno.analysis.prediction.pinning import predict_from
from onnxdyno.analysis.prediction.reading import read_profile
from onnxdyno.analysis.prediction.records import Basis, Bound, MemoryPrediction, Prediction, ProfileNode, Relation
from onnxdyno.analysis.prediction.spreading import spread

__all__ = [
    "Basis",
    "Bound",
    "Calibration",
    "MemoryPrediction",
    "Prediction",
    "ProfileNode",
    "Relation",
    "predict",
    "predict_from",
    "predict_memory",
    "profile_nodes",
    "read_profile",
    "shipped_calibration",
    "spread",
]
