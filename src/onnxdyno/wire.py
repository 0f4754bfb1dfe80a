"""Values <-> JSON: one line per event between processes, one object per finished piece in the results store."""

from typing import Any

import msgspec

from onnxdyno.domain.assignments import (
    Assignment,
    Began,
    Copied,
    Done,
    Event,
    NotCopied,
    Ran,
    Refused,
    Searched,
    Settled,
    Tried,
    Unusable,
)
from onnxdyno.domain.ceilings import CeilingReading
from onnxdyno.domain.cold import ColdReading
from onnxdyno.domain.errors import InfrastructureError
from onnxdyno.domain.outcomes import (
    ArenaReading,
    Explored,
    LaunchReading,
    Measured,
    MemoryReading,
    Probe,
    Profile,
    Skipped,
)

_EVENTS: dict[str, type[Any]] = {
    "began": Began,
    "ran": Ran,
    "tried": Tried,
    "searched": Searched,
    "explored": Explored,
    "settled": Settled,
    "copied": Copied,
    "not_copied": NotCopied,
    "refused": Refused,
    "unusable": Unusable,
    "done": Done,
    "launch": LaunchReading,
    "measured": Measured,
    "skipped": Skipped,
    "memory": MemoryReading,
    "profile": Profile,
    "cold": ColdReading,
    "arena": ArenaReading,
    "ceiling": CeilingReading,
    "probe": Probe,
}
_NAMES = {kind: name for name, kind in _EVENTS.items()}


class _Envelope(msgspec.Struct):
    kind: str
    value: msgspec.Raw


def encode(value: Event | Probe) -> bytes:
    """One event as one line of JSON, without the line end."""
    return msgspec.json.encode({"kind": _NAMES[type(value)], "value": value})


def decode(line: bytes) -> Event | Probe:
    """The event of one line. Raises `InfrastructureError` for anything that `encode` cannot have written."""
    try:
        envelope = msgspec.json.decode(line, type=_Envelope)
        decoded: Event | Probe = msgspec.json.decode(envelope.value, type=_EVENTS[envelope.kind])
    except (msgspec.MsgspecError, KeyError) as error:
        shown = line[:80].decode("utf-8", "backslashreplace")
        raise InfrastructureError(f"not an event of a measuring process: {shown!r} ({error}).") from error
    return decoded


def encode_assignment(assignment: Assignment) -> bytes:
    """An assignment as JSON."""
    return msgspec.json.encode(assignment)


def decode_assignment(text: bytes) -> Assignment:
    """An assignment from JSON. Raises `msgspec.ValidationError`: both ends are this program."""
    return msgspec.json.decode(text, type=Assignment)
