"""What one inference at a point costs by the model's own arithmetic: FLOPs, bytes moved, memory. Nothing has run.

One multiply-accumulate (MAC) is two FLOPs; docs/cost.md says what is counted and what is not.
"""

from dataclasses import dataclass

from onnxdyno.domain.axes import AxisSizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """A whole number, or None with the reason why there is none."""

    value: int | None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCost:
    """One node, all its executions in one inference together.

    Identity is (`path`, `index`): names of the enclosing nodes joined by `/` (of an If also the branch), and the
    node's place in its graph. `runs` is how often it executes: 0 for a branch not taken and for what is computed once
    at load, None if that depends on data. `output_bytes` is the size of its outputs for one execution. Each None has
    its `reason`. A node that holds graphs costs nothing itself: its nodes are listed.
    """

    path: str
    index: int
    name: str
    op_type: str
    output: str
    runs: int | None
    flops: int | None
    read_bytes: int | None
    written_bytes: int | None
    output_bytes: int | None
    output_shapes: tuple[tuple[int | None, ...] | None, ...]
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncounted:
    """Nodes of one type whose FLOPs are not known, and why. They make the total unknown, never smaller."""

    op_type: str
    nodes: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cost of one inference at `sizes`.

    `least_flops` adds up what is known, so it is a lower bound where `flops` is None. `activation_peak_bytes` is the
    most that intermediate tensors and outputs need at once, weights and fed inputs excluded, views and in-place
    results stored once.
    """

    sizes: AxisSizes
    flops: Count
    least_flops: int
    read_bytes: Count
    written_bytes: Count
    parameters: int
    weight_bytes: int
    input_bytes: Count
    output_bytes: Count
    activation_peak_bytes: Count
    nodes: tuple[NodeCost, ...]
    uncounted: tuple[Uncounted, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWork:
    """What one node of a profile computes and moves in one call, and how that was found.

    `basis`: `name` (the node of the file), `fused` (the nodes of the file that it stands for, summed), `shapes` (its
    operator's formula at the shapes of the profile: a node that the runtime made). None: not matched, with a `reason`.
    """

    flops: int | None
    read_bytes: int | None
    written_bytes: int | None
    basis: str | None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkClass:
    """Executions of nodes of one operator that compute and move the same: `count` of them in one call.

    `flops` and `moved_bytes` are those of one execution, in a loop the mean over its executions.
    """

    op_type: str
    flops: float
    moved_bytes: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PointWork:
    """The arithmetic of one call at `sizes`, unfused: what is predicted of other devices is made from it.

    Without classes there is a `reason`.
    """

    sizes: AxisSizes
    classes: tuple[WorkClass, ...]
    reason: str | None = None

    @property
    def executions(self) -> int:
        """How many nodes run in one call."""
        return sum(each.count for each in self.classes)
