"""The small JSON objects that tell who runs which version of a model, and how attempts ended."""

import dataclasses
import json
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from onnxdyno.domain.claims import Owner
from onnxdyno.domain.models import ObjectVersion

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRecord:
    """The right to run one attempt. `owner` None: a run that is scheduled and starts by `lease_until`.

    `token` is random, so that two claims never have the same bytes.
    """

    version: ObjectVersion
    claimed_at: str
    run_id: str
    ordinal: int
    reason: str
    owner: Owner | None
    lease_until: str
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenRecord:
    """The process that runs a scheduled claim."""

    owner: Owner
    taken_at: str
    lease_until: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRecord:
    """How an attempt ended in order: `committed`, `quarantined`, `interrupted` or `failed`."""

    outcome: str
    ended_at: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingFile:
    """An external file as the quarantined attempt saw it; `etag` None = it was not there."""

    key: str
    etag: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineRecord:
    """Why a model cannot run, and what must change before another try makes sense."""

    version: ObjectVersion
    run_id: str
    ordinal: int
    state: str
    reason: str
    remedy: str
    runtime_version: str
    missing: tuple[MissingFile, ...]
    quarantined_at: str
    is_of_runtime: bool = True
    """False: found by reading the file, so only other bytes can change it."""


def encode(record: object) -> bytes:
    """ASCII JSON, so that any key, also one that is not valid Unicode, comes back as it was."""
    if not dataclasses.is_dataclass(record) or isinstance(record, type):
        raise TypeError(f"{type(record).__name__} is not a record")
    return (json.dumps(dataclasses.asdict(record), indent=1, allow_nan=False) + "\n").encode("ascii")


def decode(body: bytes, kind: type[Record]) -> Record | None:
    """The record, or None if these bytes are not one (cut, or written by somebody else)."""
    try:
        return msgspec.convert(json.loads(body), kind)
    except (ValueError, RecursionError, msgspec.ValidationError):
        return None
