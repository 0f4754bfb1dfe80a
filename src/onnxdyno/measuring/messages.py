"""What a runtime's own message means: the state of a point or of a model, and what to do. Pure text in, value out."""

import re
from dataclasses import dataclass

from onnxdyno.domain.outcomes import ModelState, PointState
from onnxdyno.domain.text import printable

LONGEST = 400
_SOURCE_NOISE = re.compile(r"/onnxruntime_src/\S+\s+(?:[^\n]*?\)(?:::<lambda\(\)>)?\s+)?")
_HEADER = re.compile(r"^\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ")
_NODE = re.compile(r"Non-zero status code returned while running (\S+) node\. Name:'([^']*)' Status Message: ")
_CUDA = re.compile(r"CUDA failure (\d+): ")
_CUDA_NOISE = re.compile(r"\s*; GPU=-?\d+ ; hostname=\S* ; file=\S* ; line=\d+ ; expr=[^;]*;?")
_CUDA_LASTING = frozenset({46, 214, 220, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721})
"""Errors (of `cudaError_t`) after which every call of the process fails: a launch that failed, an illegal address…"""
_LOAD = re.compile(r"Load model from .*? failed:", re.DOTALL)

_OUT_OF_MEMORY = (
    "failed to allocate memory",
    "bad_alloc",
    "out of memory",
    "is smaller than requested bytes",
    "cuda_error_out_of_memory",
    "cublas_status_alloc",
)
_SHAPES = (
    "dimension",
    "shape",
    "rank",
    "broadcast",
    "size mismatch",
    "must match",
    "axis",
    "not be tiled",
)
_OUTSIDE = re.compile(r"out of (?:data )?bounds|out of range")
"""An index beyond its table: a sequence longer than the model has positions for, or a value that no table holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointProblem:
    """Why one call failed."""

    state: PointState
    reason: str
    remedy: str
    is_lasting: bool = False
    """Whether every later call of this process will fail too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProblem:
    """Why no session can be made."""

    state: ModelState
    reason: str
    remedy: str


def tidy(message: str) -> str:
    """The runtime's message without its own source paths, on one printable line of at most 400 characters."""
    text = _HEADER.sub("", message)
    text = _NODE.sub(r"\1 node '\2': ", text)
    text = _LOAD.sub("", text)
    text = _SOURCE_NOISE.sub("", _CUDA_NOISE.sub("", text))
    text = " ".join(text.replace("Please fix either the inputs/outputs or the model.", "").split())
    return printable(text, LONGEST)


def _said(message: str) -> str:
    """What the runtime says of the innermost node, in lower case: names and its own signatures must not be judged."""
    innermost = message.rpartition("Status Message: ")[2]
    return _SOURCE_NOISE.sub("", innermost).lower()


def judge_call(message: str) -> PointProblem:
    """The state of a point whose call raised `message`."""
    text, low = tidy(message), _said(message)
    if any(mark in low for mark in _OUT_OF_MEMORY):
        return PointProblem(
            state=PointState.OOM, reason=text, remedy="Try a smaller size or a device with more memory."
        )
    if (failed := _CUDA.search(message)) is not None:
        return _on_device(text, int(failed[1]))
    if ": not_implemented :" in message.lower():
        return PointProblem(
            state=PointState.UNSUPPORTED,
            reason=text,
            remedy="Run it on a provider that has this kernel, or export it otherwise.",
        )
    return _in_model(text, low)


def _in_model(text: str, low: str) -> PointProblem:
    """What a node says of its inputs."""
    if "unexpected input data type" in low:
        return PointProblem(
            state=PointState.MODEL_ERROR, reason=text, remedy="Give this input under `inputs:` in the spec."
        )
    if _OUTSIDE.search(low):
        return PointProblem(
            state=PointState.SHAPE_ERROR,
            reason=text,
            remedy="Choose a smaller size under `axes:`, or give the input's range under `inputs:` in the spec.",
        )
    if any(mark in low for mark in _SHAPES):
        return PointProblem(
            state=PointState.SHAPE_ERROR,
            reason=text,
            remedy="Choose sizes that the model accepts, under `axes:` in the spec.",
        )
    return PointProblem(state=PointState.MODEL_ERROR, reason=text, remedy="See the runtime's message.")


def _on_device(text: str, code: int) -> PointProblem:
    """The GPU failed in the middle of its work."""
    return PointProblem(
        state=PointState.CRASHED,
        reason=text,
        remedy="Look for Xid errors of the driver, try another runtime version, or report the model to ONNX Runtime.",
        is_lasting=code in _CUDA_LASTING,
    )


def is_graph_refused(message: str) -> bool:
    """Whether the runtime says that it cannot record this model as a graph."""
    return "graph capture" in message.lower()


def is_device_failure(message: str) -> bool:
    """Whether a session could not be made because the GPU failed, for another cause than memory."""
    low = message.lower()
    return _CUDA.search(message) is not None and not any(mark in low for mark in _OUT_OF_MEMORY)


_TOO_OLD = "The runtime is too old for this file: use a newer runtime, or export for an older {}."
_MORE_MEMORY = "Use a device with more memory."
_MODEL_PROBLEMS: tuple[tuple[str, ModelState, str], ...] = (
    (
        "is not a registered function/op",
        ModelState.UNSUPPORTED,
        "This runtime lacks the operator: register its library or export the model without it.",
    ),
    ("unsupported model ir version", ModelState.UNSUPPORTED, _TOO_OLD.format("IR version")),
    ("models stamped with official released", ModelState.UNSUPPORTED, _TOO_OLD.format("opset")),
    (
        "not_implemented",
        ModelState.UNSUPPORTED,
        "This provider has no kernel for the operator and type: export with a supported type, or use another provider.",
    ),
    (
        "mldatatype for",
        ModelState.UNSUPPORTED,
        "The runtime has no such type of tensor: export the model with a supported type.",
    ),
    (
        "escapes model directory",
        ModelState.UNSAFE,
        "Store external data beside the model and refer to it by a relative path.",
    ),
    (
        "external data path does not exist",
        ModelState.MISSING_EXTERNAL_DATA,
        "Upload the external-data file beside the model.",
    ),
    (
        "can not be read in full",
        ModelState.MISSING_EXTERNAL_DATA,
        "Upload the external-data file again: it is shorter than the model says.",
    ),
    (
        "failed to construct locale",
        ModelState.ENVIRONMENT,
        "Install the locale on this machine (the container image has en_US.UTF-8).",
    ),
    ("failed to allocate memory", ModelState.TOO_LARGE, _MORE_MEMORY),
    ("bad_alloc", ModelState.TOO_LARGE, _MORE_MEMORY),
    ("out of memory", ModelState.TOO_LARGE, _MORE_MEMORY),
    ("cublas_status_alloc", ModelState.TOO_LARGE, _MORE_MEMORY),
    ("is smaller than requested bytes", ModelState.TOO_LARGE, _MORE_MEMORY),
    ("no_suchfile", ModelState.ENVIRONMENT, "The file is gone from this machine's disk: run it again."),
    ("protobuf parsing failed", ModelState.INVALID_FILE, "Upload the file again: it is damaged or no ONNX model."),
)


def judge_load(message: str) -> ModelProblem:
    """The state of a model whose session could not be created."""
    low = message.lower()
    for mark, state, remedy in _MODEL_PROBLEMS:
        if mark in low:
            return ModelProblem(state=state, reason=tidy(message), remedy=remedy)
    return ModelProblem(
        state=ModelState.INVALID_FILE, reason=tidy(message), remedy="Check it with onnx.checker and export it again."
    )
