"""A foreign profile from CSV text: columns `kind, flops, bytes, latency_ms`; what is wrong is said in one line."""

import csv
from collections.abc import Iterator
from io import BytesIO, TextIOWrapper
from itertools import islice
from math import isfinite

from onnxdyno.analysis.prediction.records import ProfileNode
from onnxdyno.domain.errors import SpecError
from onnxdyno.domain.text import printable

COLUMNS = ("kind", "flops", "bytes", "latency_ms")
_NS_PER_MS = 1e6
_MOST_NODES = 1_000_000
_MOST_BYTES = 256 * 2**20
_MOST = 1e18
"""Of any column: a node with as many FLOPs, bytes or milliseconds is a mistake."""


def read_profile(file: str, data: bytes) -> tuple[ProfileNode, ...]:
    """The nodes of one profile; columns in any order, further ones ignored. `file` is for messages.

    Raises `SpecError`: too large, not UTF-8, no such columns, a field that is not a number at or above 0, no nodes.
    """
    name = printable(file)
    _check_text(name, data)
    try:
        found = tuple(_nodes(name, data))
    except csv.Error as error:
        raise SpecError(f"{name}: not a CSV file ({error}). {_FIX}") from error
    if not found:
        raise SpecError(f"{name}: expected a line per node below the header, found none. {_FIX}")
    return found


_FIX = f"Write a header `{','.join(COLUMNS)}` and one line per node."


def _check_text(name: str, data: bytes) -> None:
    if len(data) > _MOST_BYTES:
        raise SpecError(f"{name}: expected at most {_MOST_BYTES >> 20} MiB, found more. Give one model's profile.")
    try:
        data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SpecError(
            f"{name}: expected UTF-8 text, found byte {data[error.start]:#04x} at {error.start}. {_FIX}"
        ) from error


def _lines(data: bytes) -> Iterator[str]:
    """Line by line: a long file as a list of lines would be several times its size."""
    return TextIOWrapper(BytesIO(data), encoding="utf-8-sig", newline="")


def _nodes(name: str, data: bytes) -> Iterator[ProfileNode]:
    reader = csv.reader(_lines(data), strict=True)
    header = [each.strip() for each in next(reader, [])]
    for column in COLUMNS:
        if header.count(column) != 1:
            shown = printable(", ".join(header), 120) or "nothing"
            raise SpecError(f"{name} line 1: expected one column {column!r}, found {shown}. {_FIX}")
    at = {column: header.index(column) for column in COLUMNS}
    _one_model(name, header, data)
    for count, fields in enumerate(fields for fields in reader if any(map(str.strip, fields))):
        where = f"{name} line {reader.line_num}"
        if count >= _MOST_NODES:
            raise SpecError(f"{where}: expected at most {_MOST_NODES:,} nodes. Give one run of one model.")
        if len(fields) != len(header):
            raise SpecError(f"{where}: expected {len(header)} fields, found {len(fields)}. Quote fields with commas.")
        yield ProfileNode(
            kind=fields[at["kind"]].strip(),
            flops=_number(where, "flops", fields[at["flops"]]),
            bytes=_number(where, "bytes", fields[at["bytes"]]),
            latency_ns=_number(where, "latency_ms", fields[at["latency_ms"]]) * _NS_PER_MS,
        )


def _one_model(name: str, header: list[str], data: bytes) -> None:
    """A file of many models or devices summed as one would be a wrong answer without a word."""
    for column in ("model", "device"):
        if column in header:
            place = header.index(column)
            others = islice(csv.reader(_lines(data), strict=True), 1, None)
            seen = {fields[place] for fields in others if len(fields) > place}
            if len(seen) > 1:
                raise SpecError(
                    f"{name}, column {column}: expected the profile of one {column}, found {len(seen)} of them. "
                    f"Cut the file to one {column}."
                )


def _number(where: str, column: str, text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if isfinite(found) and found > _MOST:
        raise SpecError(f"{where}, column {column}: expected at most {_MOST:g}, found {found:g}. Correct it.")
    if not isfinite(found) or found < 0:
        raise SpecError(
            f"{where}, column {column}: expected a number, 0 or more, found {printable(text, 40)!r}. Correct it."
        )
    return found
