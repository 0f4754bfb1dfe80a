"""FLOPs by operator. One MAC is two FLOPs; docs/cost.md has every formula in words."""

from onnxdyno.graphs.cost.formulas.table import flops

__all__ = ["flops"]
