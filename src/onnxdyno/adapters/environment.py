"""The door to environment variables: every ONNXDYNO_ variable that the library knows, read here and nowhere else.

docs/service.md lists them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from onnxdyno.domain.errors import UsageError
from onnxdyno.domain.text import printable

_LOCK_FOLDER = "/tmp/onnxdyno-locks"  # noqa: S108  the same for every user; with TMPDIR in it, two runs could miss each other


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What the surroundings of a process say of how it runs on this machine."""

    cache_folder: Path
    cache_limit_bytes: int
    lock_folder: Path
    lock_wait_s: float
    image_digest: str | None


def read(variables: Mapping[str, str]) -> Environment:
    """A variable that is empty counts as not set. Raises `UsageError` for a number that is none."""
    folder = variables.get("ONNXDYNO_CACHE_DIR") or f"{variables.get('XDG_CACHE_HOME') or '~/.cache'}/onnxdyno/models"
    return Environment(
        cache_folder=Path(folder).expanduser().absolute(),  # measuring processes work elsewhere
        cache_limit_bytes=int(_number(variables, "ONNXDYNO_CACHE_GB", 20, "gigabytes") * 1e9),
        lock_folder=Path(variables.get("ONNXDYNO_LOCK_DIR") or _LOCK_FOLDER),
        lock_wait_s=_number(variables, "ONNXDYNO_LOCK_WAIT_S", 3600, "seconds"),
        image_digest=variables.get("ONNXDYNO_IMAGE_DIGEST") or None,
    )


def _number(variables: Mapping[str, str], name: str, default: float, unit: str) -> float:
    given = variables.get(name)
    if not given:
        return default
    try:
        number = float(given)
    except ValueError:
        number = -1
    if not isfinite(number) or number < 0:
        raise UsageError(f"{name} is {printable(given)!r}: expected a number of {unit}, for example {default:g}.")
    return number
