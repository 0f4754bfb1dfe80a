"""Deterministic keys: the same work has the same key, so that doing it again is harmless.

```
claims/<device class>/<version digest>/<n>.json, <n>.taken.json, <n>.taken-<k>.json, <n>.end.json
quarantine/<device class>/<version digest>/<n>.json
progress/<run id>/<name>.json
tables/<table>/device_class=<device class>/<run id>.parquet
reports/<run id>/summary.{json,md,html}
```
"""

import hashlib
import json
import re
from dataclasses import dataclass

from onnxdyno.domain.errors import UsageError
from onnxdyno.domain.models import ObjectVersion
from onnxdyno.domain.text import printable

_SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
_DIGEST = r"[0-9a-f]{32}"
_CLAIM = re.compile(rf"claims/[^/]+/({_DIGEST})/([1-9][0-9]{{0,5}})(?:\.(end|taken)(?:-([1-9][0-9]{{0,5}}))?)?\.json")
_QUARANTINE = re.compile(rf"quarantine/[^/]+/({_DIGEST})/([1-9][0-9]{{0,5}})\.json")
_TABLE = re.compile(r"tables/([a-z]+)/device_class=([A-Za-z0-9][A-Za-z0-9._-]*)/([A-Za-z0-9][A-Za-z0-9._-]*)\.parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimKey:
    """What the key of a claim's object says. `part`: `claim`, `taken` or `end`; `turn` counts the takers from 1."""

    version_digest: str
    attempt: int
    part: str
    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableKey:
    """What the key of a table's file says."""

    table: str
    device_class: str
    run_id: str


def _digest(*parts: object) -> str:
    text = json.dumps(parts, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def _segment(text: str, what: str) -> str:
    if not _SEGMENT.fullmatch(text):
        raise UsageError(
            f"{what} {printable(text)!r} cannot be part of a key: use letters, digits, '.', '_' and '-', 120 at most."
        )
    return text


def version_digest(version: ObjectVersion) -> str:
    """32 hex digits that name one version of one object; any character of its key is harmless here."""
    return _digest(version.store_uri, version.key, version.etag, version.version_id)


def run_id(digest: str, device_class: str, protocol_version: str, ordinal: int) -> str:
    """32 hex digits that name one run; every attempt at it has the same, so that an attempt goes on where one died."""
    return _digest(digest, device_class, protocol_version, ordinal)


def claims_prefix(device_class: str, digest: str = "") -> str:
    """Everything that is known of claims on a device class, or of those of one version."""
    prefix = f"claims/{_segment(device_class, 'device class')}/"
    return f"{prefix}{_segment(digest, 'version digest')}/" if digest else prefix


def claim_key(device_class: str, digest: str, attempt: int) -> str:
    """The object whose creation is the right to run this attempt."""
    return f"{claims_prefix(device_class, digest)}{attempt}.json"


def taken_key(device_class: str, digest: str, attempt: int, turn: int) -> str:
    """Who runs a scheduled claim; a later turn replaces an owner that died."""
    suffix = "taken" if turn == 1 else f"taken-{turn}"
    return f"{claims_prefix(device_class, digest)}{attempt}.{suffix}.json"


def end_key(device_class: str, digest: str, attempt: int) -> str:
    """How an attempt ended in order."""
    return f"{claims_prefix(device_class, digest)}{attempt}.end.json"


def parse_claim_key(key: str) -> ClaimKey | None:
    """The parts of a key below `claims/`, or None for an object that is not ours."""
    match = _CLAIM.fullmatch(key)
    if match is None:
        return None
    digest, attempt, part, turn = match.groups()
    return ClaimKey(version_digest=digest, attempt=int(attempt), part=part or "claim", turn=int(turn or 1))


def quarantine_prefix(device_class: str) -> str:
    """Every quarantine record of a device class."""
    return f"quarantine/{_segment(device_class, 'device class')}/"


def quarantine_key(device_class: str, digest: str, attempt: int) -> str:
    """Why a model cannot run, as this attempt found it."""
    return f"{quarantine_prefix(device_class)}{_segment(digest, 'version digest')}/{attempt}.json"


def parse_quarantine_key(key: str) -> tuple[str, int] | None:
    """(version digest, attempt), or None for an object that is not ours."""
    match = _QUARANTINE.fullmatch(key)
    return (match[1], int(match[2])) if match else None


def progress_prefix(run: str) -> str:
    """The finished pieces of one run."""
    return f"progress/{_segment(run, 'run id')}/"


def progress_key(run: str, name: str) -> str:
    """One finished piece of one run. Raises `UsageError` for a name that is not a safe segment."""
    return f"{progress_prefix(run)}{_segment(name, 'piece')}.json"


def table_prefix(table: str, device_class: str | None = None) -> str:
    """Every file of one table, or those of one device class."""
    prefix = f"tables/{_segment(table, 'table')}/"
    return f"{prefix}device_class={_segment(device_class, 'device class')}/" if device_class else prefix


def table_key(table: str, device_class: str, run: str) -> str:
    """The one file that a run has in a table."""
    return f"{table_prefix(table, device_class)}{_segment(run, 'run id')}.parquet"


def parse_table_key(key: str) -> TableKey | None:
    """The parts of a table file's key, or None for an object that is not ours."""
    match = _TABLE.fullmatch(key)
    return TableKey(table=match[1], device_class=match[2], run_id=match[3]) if match else None


def report_key(run: str, kind: str) -> str:
    """The summary of a run; `kind` is `json`, `md` or `html`."""
    return f"reports/{_segment(run, 'run id')}/summary.{_segment(kind, 'report kind')}"


def beside(model_key: str, relative: str) -> str:
    """The key of a file that a model references relative to its own folder."""
    folder, slash, _ = model_key.rpartition("/")
    return f"{folder}{slash}{relative}"
