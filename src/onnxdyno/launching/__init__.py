"""The parent's side of a run: what is left to do, how long it may take, what came back, what was kept."""

from onnxdyno.launching.campaign import carry_out
from onnxdyno.launching.ceilings import measure_ceilings
from onnxdyno.launching.copying import copy_with_batch
from onnxdyno.launching.passes import Bench, Outside

__all__ = ["Bench", "Outside", "carry_out", "copy_with_batch", "measure_ceilings"]
