"""Latency and memory on other devices, from a node profile on one: physics, few shrunk numbers, conformal intervals.

`predict` and `predict_memory` are the two questions; `read_profile` reads a foreign profile. docs/prediction.md has the
method and how well it does.
"""

from onnxdyno.analysis.prediction.calibration import Calibration, shipped_calibration
from onnxdyno.analysis.prediction.latency import predict
from onnxdyno.analysis.prediction.memory import predict_memory
from onnxdyno.analysis.prediction.reading import read_profile
from onnxdyno.analysis.prediction.records import Basis, Bound, MemoryPrediction, NodeCost, Prediction, Relation

__all__ = [
    "Basis",
    "Bound",
    "Calibration",
    "MemoryPrediction",
    "NodeCost",
    "Prediction",
    "Relation",
    "predict",
    "predict_memory",
    "read_profile",
    "shipped_calibration",
]
