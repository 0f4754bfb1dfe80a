"""One profiled run as a trace for Perfetto and chrome://tracing: the Trace Event Format, complete events (`X`)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from onnxdyno.domain.findings import NodeFinding, ProfileFinding
from onnxdyno.domain.outcomes import NodeTiming, Profile, Slice
from onnxdyno.domain.text import printable
from onnxdyno.reporting.grid import node_name

_NS_PER_US = 1_000
_PROCESS, _THREAD = 1, 1
_LEAST_NS = 125
"""Length of a node below the profiler's microsecond: without one, viewers draw it inside the node before it.

An eighth of a microsecond, so that starts and lengths stay exact when a viewer adds them as floating-point numbers.
"""
_HOST = "CPUExecutionProvider"
_NO_NODES = "not kept: too many in one run"
Trace = dict[str, Any]


def trace(profile: Profile, finding: ProfileFinding, model: str) -> Trace:
    """The run that took nearest to the median: its nodes, those of subgraphs inside their If, Loop or Scan.

    Times in microseconds. Empty of nodes where the profile kept no course (`Profile.slices`).
    """
    details = {_identity(each.node): _args(each) for each in finding.nodes}
    spans = placed(profile.slices)
    whole_ns = max([profile.model_run_ns or 0, *(end_ns for _, end_ns in spans)])
    events = [_slice("model_run", "run", (0, whole_ns), _run_args(profile))]
    for each, span in zip(profile.slices, spans, strict=True):
        node = profile.nodes[each.node]
        name = node_name(replace(node, path=""))
        events.append(_slice(name, node.op_type, span, details[_identity(node)]))
    is_host = all(node.provider == _HOST for node in profile.nodes)
    return {
        "displayTimeUnit": "ns",  # in "ms" a viewer rounds to microseconds before it decides what lies inside what
        "traceEvents": [
            _name("process_name", f"onnxdyno profile of {model}"),
            _name("thread_name", "nodes of one run" if is_host else "nodes of one run, as the host launches them"),
            *events,
        ],
    }


def placed(slices: Sequence[Slice]) -> list[tuple[int, int]]:
    """(start, end) of each slice: of some length, behind the one before it, an outer one around those inside it.

    The runtime cuts start and length to microseconds apart, so that slices may seem to overlap or to take no time.
    """
    starts_ns: list[int] = []
    ends_ns: list[int] = []
    open_slices: list[int] = []
    free_ns = [0]

    def close(depth: int) -> None:
        while len(open_slices) > depth:
            closed = open_slices.pop()
            ends_ns[closed] = max(ends_ns[closed], free_ns.pop())
            free_ns[-1] = ends_ns[closed]

    for place, each in enumerate(slices):
        close(each.depth)
        start_ns = max(each.start_ns, free_ns[-1])
        starts_ns.append(start_ns)
        ends_ns.append(max(start_ns + _LEAST_NS, each.start_ns + each.length_ns))
        open_slices.append(place)
        free_ns.append(start_ns)
    close(0)
    return list(zip(starts_ns, ends_ns, strict=True))


def _slice(name: str, category: str, span_ns: tuple[int, int], args: Trace) -> Trace:
    start_ns, end_ns = span_ns
    return {
        "name": printable(name),
        "cat": printable(category),
        "ph": "X",
        "pid": _PROCESS,
        "tid": _THREAD,
        "ts": start_ns / _NS_PER_US,
        "dur": (end_ns - start_ns) / _NS_PER_US,
        "args": args,
    }


def _name(what: str, name: str) -> Trace:
    return {"name": what, "ph": "M", "pid": _PROCESS, "tid": _THREAD, "args": {"name": printable(name)}}


def _run_args(profile: Profile) -> Trace:
    args: Trace = {"axes": dict(profile.point.sizes), "runs": profile.runs}
    return args if profile.slices else args | {"nodes": _NO_NODES}


def _args(finding: NodeFinding) -> Trace:
    """What a click on a slice shows: the numbers are those of the profile, over all its runs."""
    node, work = finding.node, finding.work
    args = {
        "path": printable(node.path),
        "op_type": printable(node.op_type),
        "provider": node.provider,
        "median_self_us": node.self_ns / _NS_PER_US,
        "share": finding.share,
        "bound": None if finding.bound is None else finding.bound.value,
        "inputs": node.input_shapes,
        "outputs": node.output_shapes,
        "kernel_us": None if node.kernel_ns is None else node.kernel_ns / _NS_PER_US,
        "flops": work.flops,
        "read_bytes": work.read_bytes,
        "written_bytes": work.written_bytes,
    }
    return {name: value for name, value in args.items() if value is not None and value != ""}


def _identity(node: NodeTiming) -> tuple[str, int, str]:
    return node.path, node.index, node.name
