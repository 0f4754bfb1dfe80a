"""How much memory the intermediate tensors of one graph need at once: views and in-place results are stored once."""

from collections import Counter
from collections.abc import Collection, Sequence

from onnxdyno.domain.text import printable
from onnxdyno.graphs.cost.inference import ONNX
from onnxdyno.graphs.cost.operands import Operands
from onnxdyno.graphs.cost.values import Value, bits_by_type

VIEWS = frozenset("Identity Reshape Flatten Squeeze Unsqueeze OptionalGetElement Optional".split())
"""The output is the input under another shape (ONNX Runtime's kernels declare it an alias)."""

IN_PLACE = frozenset(
    (
        "Relu Sigmoid Tanh LeakyRelu Elu Selu Celu HardSigmoid Softplus Softsign ThresholdedRelu Shrink Clip Softmax "
        "LogSoftmax Cast ScatterElements Trilu"
    ).split()
)
"""Ops that ONNX Runtime's CPU kernels compute in place where the input is needed no more.

Found by running each between two others and reading `mem_bytes_requested_in_use` (1.31; benchmarks/cost_check.py):
Add, Mul, Exp, Sqrt, Dropout and most others are not among them.
"""


class Liveness:
    """Follows the tensors of one graph from node to node; `peak_bytes` None has a `reason`."""

    def __init__(self, uses: Counter[str], kept: Collection[str]) -> None:
        """`uses`: how many nodes read a name; `kept`: the graph's outputs, which stay to the end."""
        self._uses = uses
        self._kept = frozenset(kept)
        self._store: dict[str, str] = {}
        self._bytes: dict[str, int] = {}
        self._pending: dict[str, int] = {}
        self._live = 0
        self._peak = 0
        self.reason: str | None = None

    @property
    def peak_bytes(self) -> int | None:
        """The most bytes that were live at once so far."""
        return None if self.reason else self._peak

    def enter(self, name: str, value: Value) -> None:
        """A tensor that lives in this graph without a node that makes it: an input of a loop's body."""
        self._allocate(name, value)
        self._peak = max(self._peak, self._live)

    def step(self, op: Operands, reads: Collection[str]) -> None:
        """One node runs: outputs come to life, then what nobody needs any more dies."""
        made = [(name, value) for name, value in zip(op.node.output, op.outputs, strict=True) if name and value]
        for place, (name, value) in enumerate(made):
            if value.is_constant:
                continue
            source = self._shared(op, value) if place == 0 else None
            if source is None:
                self._allocate(name, value)
            else:
                self._store[name] = source
                self._pending[source] += self._uses[name] + (name in self._kept)
        self._peak = max(self._peak, self._live)
        self._finish(made, reads)

    def hold(self, op: Operands, reads: Collection[str], inner: Sequence[tuple[int | None, str | None]]) -> None:
        """A node that runs graphs: its peak is the largest of theirs; its outputs are made inside."""
        for peak_bytes, reason in inner:
            if peak_bytes is None:
                self.reason = self.reason or reason
            else:
                self._peak = max(self._peak, self._live + peak_bytes)
        self.step(op, reads)

    def _finish(self, made: Sequence[tuple[str, Value]], reads: Collection[str]) -> None:
        for name in reads:
            self._release(name, 1)
        for name, _ in made:
            if not self._uses[name] and name not in self._kept:
                self._release(name, 0)

    def _allocate(self, name: str, value: Value) -> None:
        size = value.size_bytes
        if size is None:
            self.reason = self.reason or value.why_unknown(f"tensor '{printable(name)}'")
            return
        self._store[name] = name
        self._bytes[name] = size
        self._pending[name] = self._uses[name] + (name in self._kept)
        self._live += size

    def _shared(self, op: Operands, value: Value) -> str | None:
        """The name under which the output's memory is already stored, if the node needs no new."""
        source = self._store.get(op.node.input[0]) if op.node.input else None
        first = op.inputs[0] if op.inputs else None
        if source is None or first is None or op.node.output[0] in self._kept or op.node.domain not in ONNX:
            return None
        if op.node.op_type in VIEWS:
            return source
        fits = first.shape == value.shape and bits_by_type(first.elem_type) == bits_by_type(value.elem_type)
        is_last = self._pending[source] == 1 and source not in self._kept
        return source if op.node.op_type in IN_PLACE and fits and is_last else None

    def _release(self, name: str, uses: int) -> None:
        source = self._store.get(name)
        if source is None or source not in self._bytes:
            return
        self._pending[source] -= uses
        if self._pending[source] <= 0:
            self._live -= self._bytes.pop(source)
