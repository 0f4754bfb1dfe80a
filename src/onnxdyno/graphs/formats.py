"""What a file that is not an ONNX model is, told from its first bytes, and what to do about it."""

import re

HEAD_BYTES = 4096

_UPLOAD = "Upload the .onnx file itself."
_UNPACK = "Unpack it and upload the .onnx file inside."
_EXPORT = "Export it to ONNX and upload the result."

_MAGIC: tuple[tuple[int, bytes, str, str], ...] = (
    (0, b"version https://git-lfs", "a Git LFS pointer", "Run `git lfs pull` and upload the file it fetches."),
    (0, b"\x1f\x8b", "a gzip archive", _UNPACK),
    (0, b"BZh", "a bzip2 archive", _UNPACK),
    (0, b"\xfd7zXZ\x00", "an xz archive", _UNPACK),
    (0, b"\x28\xb5\x2f\xfd", "a zstd archive", _UNPACK),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    (257, b"ustar", "a tar archive", _UNPACK),
    (4, b"TFL3", "a TFLite model", _EXPORT),
    (4, b"ORTM", "an ORT-format model (.ort)", "Upload the .onnx file it was made from."),
    (0, b"GGUF", "a GGUF model", _EXPORT),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file (Keras?)", _EXPORT),
    (0, b"\x93NUMPY", "a numpy array", _UPLOAD),
    (0, b"%PDF-", "a PDF", _UPLOAD),
    (0, b"\x89PNG\r\n\x1a\n", "a PNG image", _UPLOAD),
    (0, b"\xff\xd8\xff", "a JPEG image", _UPLOAD),
    (0, b"\x7fELF", "a program or library (ELF)", _UPLOAD),
    (0, b"PAR1", "a Parquet file", _UPLOAD),
    (0, b"ptrt", "a TensorRT engine", "Upload the .onnx file it was built from."),
    (0, b"ftrt", "a TensorRT engine", "Upload the .onnx file it was built from."),
)
_PICKLE = re.compile(rb"\x80[\x02-\x05][\x8a\x95}\]()c]")


def foreign_format(head: bytes, size_bytes: int) -> tuple[str, str] | None:
    """(what it is, what to do) when the first `HEAD_BYTES` bytes belong to another format, else None."""
    for offset, magic, what, remedy in _MAGIC:
        if head[offset : offset + len(magic)] == magic:
            return what, remedy
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zip(head)
    if _PICKLE.match(head):
        return "a Python pickle (PyTorch checkpoint?)", _EXPORT
    if _is_safetensors(head, size_bytes):
        return "a safetensors file (weights without a graph)", _EXPORT
    return _text(head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1024].lower())


def _zip(head: bytes) -> tuple[str, str]:
    if b"data.pkl" in head:
        return "a TorchScript or PyTorch archive (zip)", "Export it with `torch.onnx.export` and upload the result."
    return "a zip archive", _UNPACK


def _is_safetensors(head: bytes, size_bytes: int) -> bool:
    header_bytes = int.from_bytes(head[:8], "little")
    return head[8:9] == b"{" and 2 <= header_bytes <= size_bytes - 8


def _text(head: bytes) -> tuple[str, str] | None:
    if head.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        return "an HTML page (an error page or a login page?)", "Download the model again and upload the file itself."
    if head.startswith((b"<?xml", b"<error")):
        if b"<error" in head:
            return "an XML error answer of an object store", "Download the model again and upload the file itself."
        return "an XML file", _UPLOAD
    if re.match(rb"[{\[]\s*[\"{\[\]}]", head):
        return "a JSON text", _UPLOAD
    return None
