"""Cost of a model at a point: FLOPs, bytes moved, activation peak. Read from the file; nothing runs."""

from onnxdyno.graphs.cost.totals import cost_at

__all__ = ["cost_at"]
