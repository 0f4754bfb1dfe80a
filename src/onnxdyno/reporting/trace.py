"""One profiled run as a trace for Perfetto and chrome://tracing: the Trace Event Format, complete events (`X`)."""

from collections.abc import Sequence
from typing import Any

from onnxdyno.domain.findings import NodeFinding, ProfileFinding
from onnxdyno.domain.outcomes import NodeTiming, Profile, Slice
from onnxdyno.domain.text import storable

_NS_PER_US = 1_000
_PROCESS, _THREAD = 1, 1
Trace = dict[str, Any]


def trace(profile: Profile, finding: ProfileFinding, model: str) -> Trace:
    """The run that took nearest to the median: its nodes, those of subgraphs inside their If, Loop or Scan.

    Times in microseconds. Empty of nodes where the profile kept no course (`Profile.slices`).
    """
    details = {_identity(each.node): _args(each) for each in finding.nodes}
    whole_ns = max((each.start_ns + each.length_ns for each in profile.slices), default=0)
    whole_ns = max(whole_ns, profile.model_run_ns or 0)
    events = [_slice("model_run", "run", 0, whole_ns, {"axes": dict(profile.point.sizes)})]
    for each, (start_ns, end_ns) in zip(profile.slices, nested(profile.slices, whole_ns), strict=True):
        node = profile.nodes[each.node]
        events.append(_slice(node.name, node.op_type, start_ns, end_ns - start_ns, details[_identity(node)]))
    return {
        "displayTimeUnit": "ms",
        "traceEvents": [
            _name("process_name", f"onnxdyno profile of {model}"),
            _name("thread_name", "nodes of one run (on a GPU: their launches)"),
            *events,
        ],
    }


def nested(slices: Sequence[Slice], whole_ns: int) -> list[tuple[int, int]]:
    """(start, end) of each slice, brought into its outer one and behind the one before it.

    The runtime cuts start and length to microseconds apart, so slices may seem to overlap by one.
    """
    spans: list[tuple[int, int]] = []
    open_spans: list[tuple[int, int]] = [(0, whole_ns)]
    free_ns = [0]
    for each in slices:
        depth = min(each.depth, len(open_spans) - 1)
        del open_spans[depth + 1 :], free_ns[depth + 1 :]
        outer_start_ns, outer_end_ns = open_spans[depth]
        start_ns = min(max(each.start_ns, outer_start_ns, free_ns[depth]), outer_end_ns)
        end_ns = min(max(start_ns, each.start_ns + each.length_ns), outer_end_ns)
        spans.append((start_ns, end_ns))
        free_ns[depth] = end_ns
        open_spans.append((start_ns, end_ns))
        free_ns.append(start_ns)
    return spans


def _slice(name: str, category: str, start_ns: int, length_ns: int, args: Trace) -> Trace:
    return {
        "name": storable(name),
        "cat": storable(category),
        "ph": "X",
        "pid": _PROCESS,
        "tid": _THREAD,
        "ts": start_ns / _NS_PER_US,
        "dur": length_ns / _NS_PER_US,
        "args": args,
    }


def _name(what: str, name: str) -> Trace:
    return {"name": what, "ph": "M", "pid": _PROCESS, "tid": _THREAD, "args": {"name": storable(name)}}


def _args(finding: NodeFinding) -> Trace:
    """What a click on a slice shows: the numbers are those of the profile, over all its runs."""
    node, work = finding.node, finding.work
    args = {
        "path": storable(node.path),
        "op_type": storable(node.op_type),
        "provider": node.provider,
        "median_self_us": node.self_ns / _NS_PER_US,
        "share": finding.share,
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
