"""One row per node of each profile."""

from onnxdyno.domain.devices import DeviceKind
from onnxdyno.domain.findings import Findings, NodeFinding, ProfileFinding
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.storage.jsontext import finite
from onnxdyno.storage.rows.columns import NS_PER_MS, at, key
from onnxdyno.storage.rowtypes import NodeRow


def node_rows(run: BenchmarkRun, findings: Findings) -> tuple[NodeRow, ...]:
    """One row per node and profile, slowest first."""
    return tuple(
        NodeRow(
            **key(run),
            variant=profile.point.variant.value,
            **at(run.signature, profile.point.sizes),
            rank=rank,
            path=finding.node.path,
            node_index=finding.node.index,
            name=finding.node.name,
            op_type=finding.node.op_type,
            provider=finding.node.provider,
            self_ms=finding.node.self_ns / NS_PER_MS,
            kernel_ms=None if finding.node.kernel_ns is None else finding.node.kernel_ns / NS_PER_MS,
            kernel_reason=_kernel_reason(run, profile, finding),
            share=finite(finding.share),
            runs=finding.node.runs,
            output_bytes=finding.node.output_bytes,
            flops=finding.work.flops,
            read_bytes=finding.work.read_bytes,
            written_bytes=finding.work.written_bytes,
            work_basis=finding.work.basis,
            work_reason=finding.work.reason,
            bound=finding.bound,
            bound_reason=finding.bound_reason,
            input_shapes=finding.node.input_shapes,
            output_shapes=finding.node.output_shapes,
            is_complete=profile.is_complete,
        )
        for profile in findings.profiles
        for rank, finding in enumerate(profile.nodes, start=1)
    )


def _kernel_reason(run: BenchmarkRun, profile: ProfileFinding, finding: NodeFinding) -> str | None:
    if finding.node.kernel_ns is not None:
        return None
    if run.plan.device.kind is DeviceKind.CPU:
        return "on a CPU a node is its own kernel"
    told = next((each.kernels_reason for each in run.profiles if each.point == profile.point), None)
    return told or "it launched no kernel"
