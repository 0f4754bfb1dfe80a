"""The identity of a model: sha256, external data included."""

import hashlib
from collections.abc import Iterable


def combined_sha256(file_sha256: str, external: Iterable[tuple[str, str]]) -> str:
    """Identity of a model from the hex sha256 of its file and (relative path, hex sha256) of each external file.

    Without external data it is the file's own sha256, so that `sha256sum model.onnx` checks it. With external data it
    is the sha256 of the line `<file sha256>` followed by a line `<sha256>  <path>` for each file, sorted by path.
    """
    lines = sorted(external)
    if not lines:
        return file_sha256
    text = f"{file_sha256}\n" + "".join(f"{digest}  {path}\n" for path, digest in lines)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
