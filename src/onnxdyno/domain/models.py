"""A model: its bytes (identity = sha256, external data included) and what its file says."""

from dataclasses import dataclass
from pathlib import Path

from onnxdyno.domain.axes import Axis, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectVersion:
    """One version of one object. An ETag says that bytes changed; it is never a digest."""

    store_uri: str
    key: str
    etag: str
    version_id: str | None
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRef:
    """Identity of a model: sha256 over the file and its external data (see `graphs.identity`).

    `size_bytes` counts both. A copy that was made from another model says from which, and how, in one line.
    """

    name: str
    sha256: str
    size_bytes: int
    external_bytes: int = 0
    copy_of_sha256: str | None = None
    copy_how: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalModel:
    """A model that lies, whole and verified, on this machine's disk."""

    ref: ModelRef
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Dim:
    """One dimension of an input: a fixed size, or an axis, or a sum of axes and a constant.

    Its size at a point is `constant + sum(size of each axis)`; a fixed dimension has no axes.
    `negative` axes are subtracted (`total - past`).
    """

    role: Role
    constant: int = 0
    axes: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()
    symbol: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """One input or output as declared. `kind` is tensor, sequence, map or optional; `dims` None = unknown rank."""

    name: str
    kind: str
    dtype: str
    dims: tuple[Dim, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRecipe:
    """How to make a valid value for one input at any point, from a seed and nothing else.

    `rule`: `normal` (standard normal floats) · `uniform` (floats in [low, high)) · `integers` (in [low, high)) ·
    `constant` (all `low`) · `arange` (0, 1, 2 … along the last dimension) · `strings` · `file` (an `.npz` entry).
    `dtype` is a numpy name, or `bfloat16`, or `string`. `kind` as in `TensorSpec`.
    The sizes of `axes` are added to the values of `constant` and `arange`: lengths that agree with their sequence,
    positions that go on after the past. Values must stay below `bound`, the rows of the table that they index.
    """

    name: str
    kind: str
    dtype: str
    dims: tuple[Dim, ...]
    rule: str
    low: float = 0.0
    high: float = 1.0
    path: str | None = None
    why: str = ""
    axes: tuple[str, ...] = ()
    bound: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What an ONNX file says, read without running it.

    `parameters` counts the elements of initializers and of Constant weights, shared ones once; `weight_bytes` their
    bytes (external data included). `precision` is the dtype that holds most weight bytes, or `int8/QDQ`.
    `notes` are facts a reader of the results needs (derived symbols, assumptions on roles).
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    axes: tuple[Axis, ...]
    recipes: tuple[InputRecipe, ...]
    opset: int
    domains: tuple[tuple[str, int], ...]
    ir_version: int
    producer: str
    parameters: int
    weight_bytes: int
    precision: str
    node_count: int
    op_types: tuple[tuple[str, int], ...]
    external_files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    limits: tuple[tuple[str, int], ...] = ()
    """(axis name, largest size) that tables of positions in the file allow."""

    def axis(self, role: Role) -> Axis | None:
        """The first axis with this role, or None."""
        return next((axis for axis in self.axes if axis.role is role), None)

    def axes_of(self, role: Role) -> tuple[Axis, ...]:
        """Every axis with this role, in the order of the inputs."""
        return tuple(axis for axis in self.axes if axis.role is role)
