"""Names of nodes as pictures show them; tables show them whole."""

import re
from dataclasses import replace

from onnxdyno.domain.outcomes import NodeTiming
from onnxdyno.reporting.grid import node_name

_LAID_OUT = re.compile(r"(_output_\d+)?_nchwc$")
"""What is behind the file's own name where the runtime named a node after the tensor that it makes."""


def node_label(node: NodeTiming) -> str:
    """The name in the file, as far as the name in the profile shows it."""
    return node_name(replace(node, name=_LAID_OUT.sub("", node.name)))


def place_label(node: NodeTiming) -> str:
    """As `node_label`, for beside its operator type: without that at the end, as in `/layer1/conv/Conv`."""
    whole = node_label(node)
    parts = whole.split("/")
    while len(parts) > 1 and parts[-1].lower() == node.op_type.lower():
        parts.pop()
    return "/".join(parts) or whole


def ending(name: str, most: int) -> str:
    """At most this many characters; the end of a long name says more than its beginning."""
    return name if len(name) <= most else f"…{name[len(name) - most + 1 :]}"
