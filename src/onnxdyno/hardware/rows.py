"""Rows of a CSV file with checked units: what is wrong names the file, the line and the column."""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from io import StringIO
from math import isfinite

from onnxdyno.domain.errors import CatalogueError
from onnxdyno.domain.text import printable

GIB = 2**30
GB = 10**9
_SIZE = re.compile(r"(\d+(?:\.\d+)?) (GB|GiB)")
_CAPABILITY = re.compile(r"(\d{1,2})\.(\d)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a file; every reader raises `CatalogueError` on a value that is not what it says."""

    file: str
    line: int
    values: dict[str, str]
    fix: str = "Reinstall onnxdyno, or correct the row."

    def wrong(self, column: str, expected: str) -> CatalogueError:
        """The error for one field."""
        found = self.values.get(column)
        shown = "no such column" if found is None else repr(printable(found, 60))
        return CatalogueError(
            f"{self.file} line {self.line}, column {column}: expected {expected}, found {shown}. {self.fix}"
        )

    def maybe_text(self, column: str) -> str | None:
        """The field, or None when it is empty."""
        if column not in self.values:
            raise self.wrong(column, "the column to be there")
        return self.values[column].strip() or None

    def text(self, column: str) -> str:
        """A field that must not be empty."""
        found = self.maybe_text(column)
        if found is None:
            raise self.wrong(column, "a text")
        return found

    def one_of(self, column: str, *allowed: str) -> str:
        """A text out of a closed list."""
        found = self.text(column)
        if found not in allowed:
            raise self.wrong(column, f"one of {', '.join(allowed)}")
        return found

    def maybe_number(self, column: str, most: float, scale: float = 1.0) -> float | None:
        """A positive number up to `most` in the file's unit, times `scale`; None when empty."""
        found = self.maybe_text(column)
        if found is None:
            return None
        try:
            number = float(found)
        except ValueError:
            raise self.wrong(column, f"a number, 0 < x <= {most:g}") from None
        if not isfinite(number) or not 0 < number <= most:
            raise self.wrong(column, f"a number, 0 < x <= {most:g}")
        return number * scale

    def number(self, column: str, most: float, scale: float = 1.0) -> float:
        """As `maybe_number`, but it must be there."""
        found = self.maybe_number(column, most, scale)
        if found is None:
            raise self.wrong(column, f"a number, 0 < x <= {most:g}")
        return found

    def maybe_whole(self, column: str, most: int) -> int | None:
        """A positive whole number; None when empty."""
        found = self.maybe_number(column, most)
        if found is not None and found != int(found):
            raise self.wrong(column, f"a whole number, 0 < x <= {most}")
        return None if found is None else int(found)

    def whole(self, column: str, most: int) -> int:
        """As `maybe_whole`, but it must be there."""
        found = self.maybe_whole(column, most)
        if found is None:
            raise self.wrong(column, f"a whole number, 0 < x <= {most}")
        return found

    def maybe_size_bytes(self, column: str) -> int | None:
        """`256 GB` or `112 GiB` in bytes; None when empty."""
        found = self.maybe_text(column)
        if found is None:
            return None
        match = _SIZE.fullmatch(found)
        if match is None:
            raise self.wrong(column, "a size such as `256 GB` or `112 GiB`")
        return round(float(match[1]) * (GIB if match[2] == "GiB" else GB))

    def is_yes(self, column: str) -> bool:
        """`yes`, or empty for no."""
        found = self.maybe_text(column)
        if found not in ("yes", None):
            raise self.wrong(column, "`yes` or nothing")
        return found == "yes"

    def capability(self, column: str) -> tuple[int, int]:
        """`8.6` as (8, 6)."""
        match = _CAPABILITY.fullmatch(self.text(column))
        if match is None:
            raise self.wrong(column, "a compute capability such as `8.6`")
        return int(match[1]), int(match[2])

    def counts(self, column: str) -> tuple[float, ...]:
        """`8`, `0.25`, `1/6` (a share of one card) or `1/2/4` (a choice of counts)."""
        parts = self.text(column).split("/")
        try:
            read = [Fraction("/".join(parts))] if len(parts) <= 2 else [Fraction(int(part)) for part in parts]
        except (ValueError, ZeroDivisionError):
            raise self.wrong(column, "a count, a share `1/6` or a choice `1/2/4`") from None
        if any(each <= 0 for each in read):
            raise self.wrong(column, "counts above 0")
        return tuple(float(each) for each in read)


def rows(file: str, text: str) -> Iterator[Row]:
    """Every line of a CSV text with a header; empty lines are left out.

    Raises `CatalogueError` for what is not CSV, and for a line with too few or too many fields.
    """
    (_, names), *lines = _lines(file, text) or [(1, [])]
    header = [each.strip() for each in names]
    if not header or len(set(header)) != len(header):
        raise CatalogueError(f"{file} line 1: expected a header of distinct column names. Reinstall onnxdyno.")
    for line, fields in lines:
        if len(fields) != len(header):
            raise CatalogueError(
                f"{file} line {line}: expected {len(header)} fields, found {len(fields)}. "
                "Reinstall onnxdyno, or correct the row."
            )
        yield Row(file=file, line=line, values=dict(zip(header, fields, strict=True)))


def _lines(file: str, text: str) -> list[tuple[int, list[str]]]:
    """Line number and fields of every line that is not empty."""
    reader = csv.reader(StringIO(text, newline=""), strict=True)
    try:
        return [(reader.line_num, fields) for fields in reader if any(map(str.strip, fields))]
    except csv.Error as error:
        raise CatalogueError(
            f"{file} line {reader.line_num}: not CSV ({error}). Reinstall onnxdyno, or correct the row."
        ) from error
