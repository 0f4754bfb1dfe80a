"""A dynamometer for ONNX models.

`benchmark`, `bench_table` and `timer` put people's own code on it; `requirements` says which device a model needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnxdyno.app.sizing import requirements as requirements
    from onnxdyno.face.benchmarking import benchmark as benchmark
    from onnxdyno.face.scopes import timer as timer
    from onnxdyno.face.tables import bench_table as bench_table

_HOMES = {
    "benchmark": "onnxdyno.face.benchmarking",
    "bench_table": "onnxdyno.face.tables",
    "requirements": "onnxdyno.app.sizing",
    "timer": "onnxdyno.face.scopes",
}


def __getattr__(name: str) -> Any:
    """Loaded when asked for, so that `import onnxdyno` stays quick and the measuring process light."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
