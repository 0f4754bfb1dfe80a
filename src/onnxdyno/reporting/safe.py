"""The one place where foreign text (names, messages, shapes) is made harmless for where it is shown."""

import html as _html
import re

from onnxdyno.domain.text import printable

_MARKDOWN = re.compile(r"([\\`*_{}\[\]|~$@]|:(?=//)|(?<=www)\.)")
_LONGEST = 2000


def terminal(text: str, most: int = _LONGEST) -> str:
    """One line without control, escape, format or surrogate characters; they become visible escapes such as `\\x1b`."""
    return printable(text, most)


def html(text: str, most: int = _LONGEST) -> str:
    """As `terminal`, and safe as element text and inside a quoted attribute."""
    return _html.escape(printable(text, most), quote=True)


def markdown(text: str, most: int = _LONGEST) -> str:
    """As `terminal`, and without meaning to Markdown or HTML (no automatic links either); fits a table cell."""
    return _MARKDOWN.sub(r"\\\1", _html.escape(printable(text, most), quote=False))
