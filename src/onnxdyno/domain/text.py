"""Text of others made safe to stand in one line of a message, a log or a file name. Names of objects are hostile."""


def printable(text: str | bytes, most: int = 300) -> str:
    """`text` in one line: control characters, escapes, bidirectional marks and lone surrogates become visible escapes.

    What is longer than `most` characters is cut and ends in `…`.
    """
    if isinstance(text, bytes):  # protobuf hands these out for names that are not UTF-8
        text = text.decode("utf-8", "backslashreplace")
    shown = "".join(mark if mark.isprintable() else ascii(mark)[1:-1] for mark in text[: most + 1])
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def storable(text: str) -> str:
    """`text` as valid Unicode: lone surrogates (bytes of a file name that is not UTF-8) become visible escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
