"""Pure: what follows from samples, readings and profiles. Every missing number keeps its reason."""

from onnxdyno.analysis.findings import analyse

__all__ = ["analyse"]
