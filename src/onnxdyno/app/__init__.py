"""The front door and composition root: the steps of a run, and the adapters they run on.

A run is these steps in this order; `benchmark` and the Prefect flow compose the same ones:
survey > claim > take > pull > prepare > inspect > plan > measure > analyse > store > report > finish
"""

from onnxdyno.app.by_hand import Inspection, bench, inspection, query, read_spec, write_page, write_text
from onnxdyno.app.ceilings import calibrate, lacks, stored_ceilings
from onnxdyno.app.copying import prepare
from onnxdyno.app.judging import known_roofline
from onnxdyno.app.places import device, devices, open_store
from onnxdyno.app.roofline import Judgement, roofline
from onnxdyno.app.sizing import Loads, Sized, predictions, requirements
from onnxdyno.app.steps import (
    Pulled,
    Report,
    Tell,
    analyse,
    claim,
    finish,
    inspect,
    measure,
    origin,
    plan,
    pull,
    report,
    store,
    survey,
    take,
)
from onnxdyno.app.whole import benchmark

__all__ = [
    "Inspection",
    "Judgement",
    "Loads",
    "Pulled",
    "Report",
    "Sized",
    "Tell",
    "analyse",
    "bench",
    "benchmark",
    "calibrate",
    "claim",
    "device",
    "devices",
    "finish",
    "inspect",
    "inspection",
    "known_roofline",
    "lacks",
    "measure",
    "open_store",
    "origin",
    "plan",
    "predictions",
    "prepare",
    "pull",
    "query",
    "read_spec",
    "report",
    "requirements",
    "roofline",
    "store",
    "stored_ceilings",
    "survey",
    "take",
    "write_page",
    "write_text",
]
