"""Files that a person names on the command line."""

from pathlib import Path
from typing import TYPE_CHECKING

from onnxdyno.domain.errors import SpecError, UsageError
from onnxdyno.domain.text import printable

if TYPE_CHECKING:
    from onnxdyno.hardware.lookup import Catalogue


MOST_BYTES = 2**28 + 1
"""Beyond what any reader of such a file takes, so that an endless one (a device) ends as well."""


def read_bytes(option: str, path: Path) -> bytes:
    """The file's bytes, or as many as its reader must refuse. Raises `SpecError` where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES)
    except OSError as error:
        shown = printable(str(path))
        raise SpecError(f"{shown}: {error.strerror}. Give {option} a CSV file that can be read.") from error


def catalogue(devices: Path | None) -> "Catalogue":
    """The shipped catalogue, with the devices and prices of a file. Raises `SpecError`."""
    from onnxdyno.hardware.lookup import shipped
    from onnxdyno.hardware.own import read_devices

    if devices is None:
        return shipped()
    return shipped().with_devices(read_devices(str(devices), read_bytes("--devices", devices)))


def can_be_written(option: str, path: Path | None) -> None:
    """Raises `UsageError` now for what could not be written after the measurement."""
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        raise UsageError(f"{printable(str(path))}: not a file in a folder that exists. Give {option} such a path.")
