"""Reading a model file safely: nothing runs, external weights stay on disk, nothing outside its folder is touched."""

import hashlib
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path, PurePosixPath

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # no stubs; comes with onnx
from onnx import ModelProto, TensorProto, helper

from onnxdyno.domain.errors import ModelError, UsageError
from onnxdyno.domain.models import LocalModel, ModelRef
from onnxdyno.domain.outcomes import ModelState
from onnxdyno.domain.text import printable
from onnxdyno.graphs.formats import HEAD_BYTES, foreign_format
from onnxdyno.graphs.identity import combined_sha256
from onnxdyno.graphs.tensors import tensors, texts

PROTOBUF_LIMIT_BYTES = 2**31 - 1
"""A protobuf message cannot be larger (protobuf.dev, "Proto Limits"); larger models keep weights in external data."""

MOST_RANK = 64

_CHUNK_BYTES = 1 << 20


def open_model(path: Path) -> ModelProto:
    """The parsed file, external data left on disk.

    Raises `ModelError` (invalid_file, too_large) saying what the file is instead of a model, `UsageError` if there is
    no such file.
    """
    name = printable(path.name)
    size_bytes = _size_of(path)
    if size_bytes == 0:
        raise _invalid(f"'{name}' is an empty object (0 bytes).", "Upload the file again.")
    with path.open("rb") as file:
        foreign = foreign_format(file.read(HEAD_BYTES), size_bytes)
        if foreign is not None:
            raise _invalid(f"'{name}' is not an ONNX model but {foreign[0]}.", foreign[1])
        if size_bytes > PROTOBUF_LIMIT_BYTES:
            raise ModelError(
                ModelState.TOO_LARGE,
                f"'{name}' is {size_bytes:,} bytes; a protobuf file holds at most {PROTOBUF_LIMIT_BYTES:,}.",
                "Save it with external data (`onnx.save(..., save_as_external_data=True)`) and upload both files.",
            )
        file.seek(0)
        return _parse(file.read(), name)


def external_files(path: Path) -> tuple[str, ...]:
    """External-data files the model names: relative POSIX paths, each once, in order. Only the model file is read.

    Raises `ModelError`: unsafe for a path that could leave the model's folder, and as `open_model`.
    """
    return named_files(open_model(path))


def named_files(model: ModelProto) -> tuple[str, ...]:
    """As `external_files`, of a parsed model."""
    return tuple(dict.fromkeys(part.file for part in _external_parts(model)))


def check_external(path: Path) -> tuple[str, ...]:
    """Prove that every external file lies whole in the model's folder; returns their relative paths.

    Raises `ModelError`: missing_external_data (absent, or shorter than the model says), unsafe (leads out of it).
    """
    return _check_parts(path, _external_parts(open_model(path)))


def identify(path: Path) -> ModelRef:
    """Identity of a model on disk, all external data included; `size_bytes` counts both. Raises as `check_external`."""
    return _identify(path, check_external(path))


def load(path: Path, parsed: ModelProto | None = None) -> LocalModel:
    """A model on disk, proven readable and whole; `parsed` is its file, if it was read already.

    Raises as `check_external`.
    """
    if parsed is None:
        return LocalModel(ref=identify(path), path=path)
    return LocalModel(ref=_identify(path, _check_parts(path, _external_parts(parsed))), path=path)


def _identify(path: Path, files: tuple[str, ...]) -> ModelRef:
    external_bytes = sum((path.parent / file).stat().st_size for file in files)
    digests = [(file, _sha256(path.parent / file)) for file in files]
    return ModelRef(
        name=path.name,
        sha256=combined_sha256(_sha256(path), digests),
        size_bytes=path.stat().st_size + external_bytes,
        external_bytes=external_bytes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Bytes `[offset, end)` of an external file that one tensor needs."""

    file: str
    tensor: str
    end_bytes: int


def _external_parts(model: ModelProto) -> Iterator[_Part]:
    for tensor in tensors(model):
        if tensor.data_location == TensorProto.EXTERNAL:
            yield _part(tensor)


def _part(tensor: TensorProto) -> _Part:
    entries = [(entry.key, entry.value) for entry in tensor.external_data]
    name = printable(tensor.name)
    locations = {value for key, value in entries if key == "location"}
    if len(locations) != 1:
        raise _invalid(
            f"tensor '{name}' is external but names {len(locations)} files; expected one.", "Export the model again."
        )
    file = _safe_relative(locations.pop(), name)
    try:
        offset, length = (int(dict(entries).get(key) or 0) for key in ("offset", "length"))
    except ValueError:
        offset = length = -1
    if offset < 0 or length < 0:
        raise _invalid(f"tensor '{name}' has an offset or length that is not a size.", "Export the model again.")
    return _Part(file=file, tensor=name, end_bytes=offset + (length or _declared_bytes(tensor)))


def _declared_bytes(tensor: TensorProto) -> int:
    try:
        itemsize = int(helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)
    except (KeyError, TypeError):
        return 0
    return itemsize * prod(max(0, int(size)) for size in tensor.dims)


def _safe_relative(location: str, tensor: str) -> str:
    """The location as a normal relative path, or `ModelError` (unsafe) before anybody looks on a disk or in a store."""
    parts = PurePosixPath(location).parts
    is_unsafe = (
        not parts
        or location.startswith("/")
        or ".." in parts
        or "\\" in location
        or not location.isprintable()
        or re.match(r"[A-Za-z]:", location) is not None
        or "_ORT_MEM_ADDR_" in location  # ONNX Runtime takes this marker's offset for an address in memory
        or any(len(part.encode("utf-8", "replace")) > 255 for part in parts)
    )
    if is_unsafe:
        raise ModelError(
            ModelState.UNSAFE,
            f"tensor '{tensor}' keeps its data in '{printable(location)}': not a plain path inside the model's folder.",
            "Save the external data beside the model under a relative path and upload again.",
        )
    return PurePosixPath(location).as_posix()


def _check_parts(path: Path, parts: Iterator[_Part]) -> tuple[str, ...]:
    needed: dict[str, int] = {}
    for part in parts:
        needed[part.file] = max(part.end_bytes, needed.get(part.file, 0))
    sizes = {file: _external_size(path, file) for file in needed}
    missing = tuple(file for file, size in sizes.items() if size is None)
    if missing:
        raise _missing(path, "needs external data that is not there:", missing, "Upload it beside the model.")
    short = tuple(file for file, size in sizes.items() if size is not None and size < needed[file])
    if short:
        first = f"{sizes[short[0]]:,} of {needed[short[0]]:,} bytes"
        raise _missing(path, f"has a partial upload of external data ({first}):", short, "Upload the whole file again.")
    return tuple(needed)


def _external_size(path: Path, file: str) -> int | None:
    """Size of an external file, or None if absent. Raises `ModelError` (unsafe) if it leads out or is not a file."""
    folder = path.parent.resolve()
    try:
        target = (folder / file).resolve()
        if not target.is_relative_to(folder):
            raise ModelError(
                ModelState.UNSAFE,
                f"external data '{printable(file)}' of '{printable(path.name)}' is a link out of the model's folder.",
                "Put the file itself beside the model.",
            )
        state = target.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, RuntimeError) as error:
        why = f"external data '{printable(file)}' of '{printable(path.name)}' cannot be read: {printable(str(error))}."
        raise ModelError(ModelState.UNSAFE, why, "Put the file itself beside the model.") from error
    if not stat.S_ISREG(state.st_mode):
        why = f"external data '{printable(file)}' of '{printable(path.name)}' is not a regular file."
        raise ModelError(ModelState.UNSAFE, why, "Put the file itself beside the model.")
    return state.st_size


def _parse(content: bytes, name: str) -> ModelProto:
    model = ModelProto()
    try:
        model.ParseFromString(content)
    except (DecodeError, RecursionError) as error:
        raise _invalid(
            f"'{name}' ({len(content):,} bytes) is no readable ONNX protobuf: cut short, corrupt or nested too deeply.",
            "Upload the complete file again.",
        ) from error
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise _invalid(f"'{name}' parses as a protobuf but holds no ONNX graph.", "Export the model again.")
    _check_stored(model, len(content), name)
    functions = [(function.domain, function.name, function.overload) for function in model.functions]
    if len(set(functions)) < len(functions):
        raise _invalid(f"'{name}' defines two local functions of the same name.", "Export the model again.")
    if not all(isinstance(text, str) for text in texts(model)):
        raise _invalid(
            f"'{name}' holds names that are not UTF-8: corrupt?", "Upload the file again or export it again."
        )
    return model


def _check_stored(model: ModelProto, size_bytes: int, name: str) -> None:
    """A tensor stored in the file has at most two elements (of 4 bits) for each byte; more are declared, not stored."""
    for tensor in tensors(model):
        shown = f"'{name}' declares a tensor '{printable(str(tensor.name), 120)}'"
        if len(tensor.dims) > MOST_RANK:
            raise _invalid(
                f"{shown} of {len(tensor.dims):,} dimensions; at most {MOST_RANK} mean anything.",
                "Export the model again.",
            )
        elements = prod(max(0, int(size)) for size in tensor.dims)
        if tensor.data_location != TensorProto.EXTERNAL and elements > 2 * size_bytes:
            count = f"{elements:,}" if elements < 10**18 else "more than 10^18"
            raise _invalid(f"{shown} of {count} elements but is {size_bytes:,} bytes.", "Export the model again.")


def _size_of(path: Path) -> int:
    try:
        state = path.stat()
    except (OSError, ValueError) as error:
        raise UsageError(f"No file at '{printable(str(path))}'. Give the path of an .onnx file.") from error
    if not stat.S_ISREG(state.st_mode):
        raise UsageError(f"'{printable(str(path))}' is not a regular file. Give the path of an .onnx file.")
    return state.st_size


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _invalid(reason: str, remedy: str) -> ModelError:
    return ModelError(ModelState.INVALID_FILE, reason, remedy)


def _missing(path: Path, what: str, files: tuple[str, ...], remedy: str) -> ModelError:
    shown = ", ".join(f"'{printable(file)}'" for file in files[:5]) + (" …" if len(files) > 5 else "")
    reason = f"'{printable(path.name)}' {what} {shown}."
    return ModelError(ModelState.MISSING_EXTERNAL_DATA, reason, remedy, missing=files)
