"""The events of a profile file, one at a time: a long profile has a million of them and more text than memory.

ONNX Runtime writes one event a line between `[` and `]`. A file of another layout is read whole.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, Any

import msgspec

SUFFIX = "_kernel_time"
_BLOCK_BYTES = 2**18
_LONGEST_FIRST = 80
_Microseconds = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]


class Args(msgspec.Struct, frozen=True, gc=False):
    """What is read of every event's details."""

    op_name: str = ""
    node_index: str = "-1"
    parent_name: str = ""
    """Of a kernel on the device: the event of the node that launched it."""
    mem_in_use_peak: msgspec.Raw = msgspec.Raw(b"null")
    mem_arena_held: msgspec.Raw = msgspec.Raw(b"null")


class Details(msgspec.Struct, frozen=True, gc=False):
    """What is read once a node."""

    provider: str = ""
    output_size: str | int | None = None
    input_type_shape: Any = None
    output_type_shape: Any = None


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event of the file. Times in microseconds, cut to whole ones."""

    cat: str = ""
    name: str = ""
    ts: _Microseconds = 0
    dur: _Microseconds = 0
    args: Args = Args()

    @property
    def is_run(self) -> bool:
        """Whether it is one whole call of the model."""
        return self.cat == "Session" and self.name == "model_run"

    @property
    def is_cut_mark(self) -> bool:
        """Whether the runtime says that it dropped events."""
        return self.cat == "Session" and self.name == "profile_truncated"


class _Detailed(msgspec.Struct, frozen=True, gc=False):
    args: Details = Details()


_one = msgspec.json.Decoder(Event).decode
_many = msgspec.json.Decoder(list[Event]).decode
_detailed = msgspec.json.Decoder(list[_Detailed]).decode


class Block:
    """Some hundred events, in order, and the text that they were read from."""

    def __init__(self, text: bytes) -> None:
        self.events = _many(text)
        self._text = text
        self._details: list[_Detailed] | None = None

    def details(self, event: Event) -> Details:
        """What an event of this block says beyond what is read of all."""
        if self._details is None:
            self._details = _detailed(self._text)
        return next(more.args for each, more in zip(self.events, self._details, strict=True) if each is event)


class Events:
    """Events of a file, or blocks of them, once through; afterwards `is_whole` says whether the text was."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.is_whole = True

    def __iter__(self) -> Iterator[Event]:
        for block in self.blocks():
            yield from block.events

    def blocks(self) -> Iterator[Block]:
        """Events in order, a few hundred at a time."""
        with self._path.open("rb", buffering=_BLOCK_BYTES) as file:
            if not _is_by_line(file):
                yield self._at_once(self._path.read_bytes())
                return
            last = b""
            while text := file.read(_BLOCK_BYTES):
                rest = file.readline()
                yield self._block(text, rest)
                last = rest or text
        self.is_whole &= last.rstrip().endswith(b"]")

    def _block(self, text: bytes, rest: bytes) -> Block:
        """Whole lines, the last of which ends with `rest`; whatever is odd about them is looked at line by line."""
        try:
            return Block(b"".join((b"[", text, rest.rstrip(b", \r\n\t"), b"]")))
        except msgspec.MsgspecError:
            return self._line_by_line(text + rest)

    def _at_once(self, text: bytes) -> Block:
        try:
            return Block(text)
        except msgspec.MsgspecError:
            self.is_whole = False
            return self._line_by_line(text)

    def _line_by_line(self, text: bytes) -> Block:
        parts = (self._events_of(line) for line in text.splitlines())
        return Block(b"[%b]" % b",".join(part for part in parts if part))

    def _events_of(self, line: bytes) -> bytes:
        """The events of a line: none (a bracket alone), one, or several; damage is left out."""
        inside = line.strip().removeprefix(b"[").strip(b", \t")
        for each in (inside, inside.removesuffix(b"]").strip(b", \t")):
            text = b"[%b]" % each
            try:
                _many(text)
                _detailed(text)
            except msgspec.MsgspecError:
                continue
            return each
        self.is_whole = False
        return b""


def _is_by_line(file: IO[bytes]) -> bool:
    """Whether a file begins as the runtime writes it: a bracket, then an event that ends where its line ends.

    The file is left where the events begin.
    """
    if file.readline(_LONGEST_FIRST).strip() != b"[":
        return False
    begin = file.tell()
    try:
        _one(file.readline().rstrip(b", \r\n\t"))
    except msgspec.MsgspecError:
        return False
    file.seek(begin)
    return True


def read_number(text: bytes | str | int | None) -> int | None:
    """A whole number that the runtime writes as text; None for anything else."""
    try:
        return int(text.strip(b'"') if isinstance(text, bytes) else text or "")
    except ValueError:
        return None
