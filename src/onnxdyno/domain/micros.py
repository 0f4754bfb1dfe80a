"""Which micro-models measure a device's ceilings. Pure: the same device gives the same list in parent and child."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from onnxdyno.domain.ceilings import CeilingKey, CeilingKind
from onnxdyno.domain.devices import DeviceKind

FLOAT_BYTES = 4
_MOST_WORKING_BYTES = 512 * 2**20
_MOST_WEIGHTS_BYTES = 128 * 2**20
_USUAL_CACHES = (32 * 2**10, 2**20, 16 * 2**20)
_GPU_WORKING_BYTES = (2 * 2**20, 16 * 2**20, 512 * 2**20)
_COPIED_BYTES = (2**12, 2**16, 2**20, 2**24, 2**28)
_SHORT, _LONG = 4, 20
_TINY_SHORT, _TINY_LONG = 16, 256
_LARGE_BYTES = 16 * 2**20

DISPATCH = "node"
STREAM, READ = "stream", "read"
PINNED = "pinned"
"""Copies between the host's pinned memory and the device: no model runs."""
FLOAT32, FLOAT64, FLOAT16, BFLOAT16, INT8 = "float32", "float64", "float16", "bfloat16", "int8"
_CHAINS = {BFLOAT16: (1, 5)}
"""Contractions in a row, where the model must cast at both ends since the runtime takes no such input from numpy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Micro:
    """One micro-model: `nodes` times `op` over `shape`; `work` in FLOPs, elements or bytes is that of all nodes.

    Two with one `label` and `working_bytes` differ in nodes alone: their slope is the ceiling.
    """

    name: str
    kind: CeilingKind
    label: str
    op: str
    shape: tuple[int, ...]
    dtype: str = FLOAT32
    weights: tuple[int, ...] = ()
    nodes: int = 1
    work: float = 0.0
    working_bytes: int | None = None

    @property
    def key(self) -> CeilingKey:
        """Of the ceiling that it serves."""
        return self.kind, self.label, self.working_bytes


def micros(kind: DeviceKind, cache_bytes: tuple[int, ...] = ()) -> tuple[Micro, ...]:
    """Every micro-model for a device. `cache_bytes`: of a CPU's L1, L2, L3 …, smallest first."""
    is_gpu = kind is DeviceKind.CUDA
    sizes = _GPU_WORKING_BYTES if is_gpu else working_sets(cache_bytes)
    copies = _copies() if is_gpu else ()
    return (*_dispatch(), *_contractions(8 if is_gpu else 1), *_streams(sizes), *_reads(sizes), *_operators(), *copies)


def working_sets(cache_bytes: tuple[int, ...]) -> tuple[int, ...]:
    """Half the smallest cache, half of each larger one, and four times the largest: beyond every cache."""
    known = cache_bytes or _USUAL_CACHES
    return (*(size // 2 for size in known), min(4 * known[-1], _MOST_WORKING_BYTES))


def _dispatch() -> tuple[Micro, ...]:
    """Additions of one number to one number: all of it is what a node costs before it works."""
    return tuple(
        Micro(
            name=f"{DISPATCH} x {nodes}", kind=CeilingKind.DISPATCH, label=DISPATCH, op="Add", shape=(1,), nodes=nodes
        )
        for nodes in (_TINY_SHORT, _TINY_LONG)
    )


def _contractions(scale: int) -> tuple[Micro, ...]:
    rows, inner, columns = 256 * scale, 1024, 1024
    channels, side = 128, 28 * (2 if scale > 1 else 1)
    matmul = Micro(
        name="",
        kind=CeilingKind.FLOP_RATE,
        label="MatMul",
        op="MatMul",
        shape=(rows, inner),
        weights=(inner, columns),
        work=2.0 * rows * inner * columns,
    )
    conv = Micro(
        name="",
        kind=CeilingKind.FLOP_RATE,
        label="Conv",
        op="Conv",
        shape=(scale, channels, side, side),
        weights=(channels, channels, 3, 3),
        work=2.0 * scale * channels * channels * 9 * side * side,
    )
    return tuple(
        each
        for dtype in (FLOAT32, FLOAT64, FLOAT16, BFLOAT16, INT8)
        for one in (matmul, conv)
        for each in _in_type(one, dtype)
    )


def _in_type(one: Micro, dtype: str) -> Iterator[Micro]:
    label, chains = f"{one.label} {dtype}", _CHAINS.get(dtype, (1,))
    for nodes in chains:
        name = label if len(chains) == 1 else f"{label} x {nodes}"
        yield replace(one, name=name, label=label, dtype=dtype, nodes=nodes, work=nodes * one.work)


def _streams(sizes: tuple[int, ...]) -> tuple[Micro, ...]:
    """Additions in place over one buffer: each node reads it and writes it."""
    found = []
    for size in sizes:
        short, long = (2, 6) if size >= _LARGE_BYTES else (_SHORT, _LONG)
        found += [
            Micro(
                name=f"{STREAM} {size} x {nodes}",
                kind=CeilingKind.BANDWIDTH,
                label=STREAM,
                op="Add",
                shape=(size // FLOAT_BYTES,),
                nodes=nodes,
                work=2.0 * size * nodes,
                working_bytes=size,
            )
            for nodes in (short, long)
        ]
    return tuple(found)


def _reads(sizes: tuple[int, ...]) -> tuple[Micro, ...]:
    """A vector times a constant matrix: the matrix is read once and next to nothing is written."""
    found = []
    for size in dict.fromkeys(min(size, _MOST_WEIGHTS_BYTES) for size in sizes[1:]):
        columns = max(64, 2 ** ((size // FLOAT_BYTES).bit_length() // 2))
        inner = max(1, size // FLOAT_BYTES // columns)
        found.append(
            Micro(
                name=f"{READ} {size}",
                kind=CeilingKind.BANDWIDTH,
                label=READ,
                op="MatMul",
                shape=(1, inner),
                weights=(inner, columns),
                work=float(FLOAT_BYTES) * (inner * columns + inner + columns),
                working_bytes=size,
            )
        )
    return tuple(found)


def _copies() -> tuple[Micro, ...]:
    """One block each way, from where the submission costs most to where the link does."""
    return tuple(
        Micro(
            name=f"{kind.value} {size}",
            kind=kind,
            label=PINNED,
            op="Memcpy",
            shape=(size,),
            work=float(size),
            working_bytes=size,
        )
        for kind in (CeilingKind.H2D, CeilingKind.D2H)
        for size in _COPIED_BYTES
    )


_ROWS, _WIDTH = 64, 1024
_OPERATORS = (
    "Exp Log Erf Tanh Sigmoid Gelu Sqrt Div Pow Sin Softmax LayerNormalization ReduceMean "
    "Gather Transpose Concat Where Resize QuantizeLinear DequantizeLinear"
).split()


def _operators() -> tuple[Micro, ...]:
    """Operators whose time is not told by one FLOP an element, on data that stays in a cache."""
    elements = float(_ROWS * _WIDTH)
    found = [
        Micro(name=op, kind=CeilingKind.OP_RATE, label=op, op=op, shape=(_ROWS, _WIDTH), work=elements)
        for op in _OPERATORS
    ]
    pixels = 64 * 32 * 32
    for op, per_pixel in (("MaxPool", 9), ("AveragePool", 9), ("ConvDepthwise", 18)):
        found.append(
            Micro(
                name=op,
                kind=CeilingKind.FLOP_RATE,
                label=f"{op} {FLOAT32}",
                op=op,
                shape=(1, 64, 32, 32),
                work=float(per_pixel * pixels),
            )
        )
    steps, width = 16, 128
    lstm = Micro(
        name="LSTM",
        kind=CeilingKind.FLOP_RATE,
        label=f"LSTM {FLOAT32}",
        op="LSTM",
        shape=(steps, 1, width),
        work=2.0 * steps * 4 * width * 2 * width,
    )
    return (*found, lstm)
