"""The door to ONNX Runtime: sessions on one device, calls that are bound before they are timed."""

from onnxdyno.adapters.ort.calls import OrtCall
from onnxdyno.adapters.ort.models import OrtModel
from onnxdyno.adapters.ort.runtime import OrtRuntime

__all__ = ["OrtCall", "OrtModel", "OrtRuntime"]
