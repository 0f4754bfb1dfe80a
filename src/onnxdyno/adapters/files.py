"""The door to a model's files as bytes on a disk: how long reading them takes, with and without the page cache."""

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from onnxdyno.domain.cold import FileReading

MOST_READ_BYTES = 64 * 2**20
"""Of a larger model only so much is read: a rate needs no more, and what was dropped is not missed by the session."""
_CHUNK_BYTES = 1 << 20
_PAGE_BYTES = 4096
_PLACES = 16
"""Pages of each file that are looked for in the page cache."""

Drop = Callable[[int], None]
IsHeld = Callable[[int, int], bool]


def drop_pages(descriptor: int) -> None:
    """Ask the kernel to forget what it holds of a file. Raises `OSError` where it knows no such request."""
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def holds_page(descriptor: int, offset: int) -> bool:
    """Whether a byte can be had without waiting for the disk. Raises `OSError` where the file system cannot say."""
    try:
        return os.preadv(descriptor, [bytearray(1)], offset, os.RWF_NOWAIT) == 1
    except BlockingIOError:
        return False


def read_through(
    paths: Sequence[Path],
    clock: Callable[[], int],
    *,
    drop: Drop = drop_pages,
    is_held: IsHeld = holds_page,
    most_bytes: int = MOST_READ_BYTES,
) -> FileReading:
    """Read the files as they are found, again from the page cache, and after it was emptied of them.

    The last read leaves them in the cache. Raises `OSError` if a file cannot be read.
    """
    with contextlib.ExitStack() as opened:
        descriptors = [opened.enter_context(path.open("rb", buffering=0)).fileno() for path in paths]
        shares = _shares(descriptors, most_bytes)
        was_cached, _ = _cached_share(shares, is_held)
        _read(shares, clock)
        cached_ns = _read(shares, clock)
        reason = _emptied(shares, drop, is_held)
        return FileReading(
            read_bytes=sum(size for _, size in shares),
            was_cached=was_cached,
            cached_ns=cached_ns,
            uncached_ns=_read(shares, clock) if reason is None else None,
            reason=reason,
        )


def _shares(descriptors: Sequence[int], most_bytes: int) -> list[tuple[int, int]]:
    """(descriptor, bytes to read of it), the first files first."""
    shares = []
    for descriptor in descriptors:
        size = min(os.fstat(descriptor).st_size, most_bytes)
        most_bytes -= size
        shares.append((descriptor, size))
    return shares


def _read(shares: Sequence[tuple[int, int]], clock: Callable[[], int]) -> int:
    buffer = bytearray(_CHUNK_BYTES)
    view = memoryview(buffer)
    began_ns = clock()
    for descriptor, size in shares:
        offset = 0
        while offset < size:
            got = os.preadv(descriptor, [view[: min(_CHUNK_BYTES, size - offset)]], offset)
            if not got:
                break
            offset += got
    return clock() - began_ns


def _emptied(shares: Sequence[tuple[int, int]], drop: Drop, is_held: IsHeld) -> str | None:
    """Have the page cache emptied of the files; why it is not known to be."""
    try:
        for descriptor, _ in shares:
            drop(descriptor)
    except OSError as error:
        return f"the kernel does not drop files from its page cache: {error.strerror}"
    held, problem = _cached_share(shares, is_held)
    if problem is not None:
        return f"whether the page cache was emptied cannot be seen: {problem}"
    return "the kernel kept the file in its page cache" if held is not False else None


def _cached_share(shares: Sequence[tuple[int, int]], is_held: IsHeld) -> tuple[bool | None, str | None]:
    """Whether most of the looked-at pages are in the page cache, or why that cannot be seen."""
    try:
        found = [
            is_held(descriptor, place * max(_PAGE_BYTES, size // _PLACES))
            for descriptor, size in shares
            for place in range(_PLACES)
            if place * max(_PAGE_BYTES, size // _PLACES) < size
        ]
    except OSError as error:
        return None, error.strerror
    return (2 * sum(found) > len(found) if found else True), None
