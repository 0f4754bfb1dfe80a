"""A copy of a model with a fixed batch whose batch is dynamic. Nothing is believed of it before `proof.prove`.

`rebatch(path, out)` writes the copy and says what it changed; `prove(made, run=...)` compares it with the original item
by item. Only then may it be measured, labelled as a rebatched copy: its sha256 is another model's.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from onnx import GraphProto, ModelProto, ValueInfoProto

from onnxdyno.domain.axes import Role
from onnxdyno.domain.errors import RebatchRefused
from onnxdyno.domain.text import printable
from onnxdyno.graphs.axes import solve
from onnxdyno.graphs.declared import fed_inputs
from onnxdyno.graphs.reading import check_external, open_model
from onnxdyno.graphs.rewriting import Rewriter
from onnxdyno.graphs.tracing import At, Extents, InputDim


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebatched:
    """A copy with a dynamic batch, not yet proven. `was` is the batch that the original is fixed at.

    `places` are (input, dimension) of the batch; `changes` say in a line each what differs from the original.
    """

    original: Path
    path: Path
    axis: str
    was: int
    places: tuple[tuple[str, int], ...]
    changes: tuple[str, ...]


def rebatch(path: Path, out_path: Path) -> Rebatched:
    """Write a copy of the model at `path` with a dynamic batch to `out_path` (external data is linked beside it).

    Input dimensions that are the batch become dynamic; shapes with that batch written in (Reshape, Expand, Resize)
    follow it; constants that are joined to it (class tokens, initial states) are repeated. A batch that is declared
    dynamic but written into shapes is freed the same way. Raises `RebatchRefused` saying why a copy cannot be made,
    `ModelError` as `reading.check_external`. The caller must `prove` the copy before it is used.
    """
    files = check_external(path)
    model = open_model(path)
    found = _find(model)
    axis = _free_symbol(model)
    dims = _set_free(model, found, axis)
    rewriter = Rewriter(model, dims, batch=frozenset(found.indices), was=found.was)
    rewriter.rewrite()
    if not found.was_fixed and not rewriter.changes:
        raise _refused("its batch is dynamic already and no shape holds it fixed", "Leave --rebatch out.")
    _name_outputs(model.graph, rewriter, axis)
    del model.graph.value_info[:]  # shapes of the old batch
    _write(model, path, out_path, files)
    changes = [f"input '{printable(name)}': dimension {at} is the axis '{axis}'" for name, at in found.places]
    return Rebatched(
        original=path,
        path=out_path,
        axis=axis,
        was=found.was,
        places=found.places,
        changes=(*changes, *rewriter.changes),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """Where the batch is: indices into all input dimensions, and places in inputs."""

    was: int
    was_fixed: bool
    indices: tuple[int, ...]
    places: tuple[tuple[str, int], ...]


def _find(model: ModelProto) -> _Found:
    inputs = fed_inputs(model)
    solved = solve(model, inputs)
    batch = [axis for axis in solved.axes if axis.role is Role.BATCH]
    if not batch:
        raise _refused("no dimension of its inputs is a batch", "Measure it as it is.")
    was_fixed = batch[0].size is not None
    was = batch[0].size or 1
    names = {axis.name for axis in batch if axis.size is None}
    indices, places, count = [], [], 0
    if len({value.name for value in inputs}) < len(inputs) or any(value.kind != "tensor" for value in inputs):
        raise _refused("it has inputs that are not plain tensors of distinct names", "Measure it as it is.")
    for value in inputs:
        for at, dim in enumerate(solved.dims[value.name]):
            is_fixed = was_fixed and dim.role is Role.BATCH and not dim.axes and dim.constant == was
            if is_fixed or (not was_fixed and dim.axes and names.issuperset(dim.axes)):
                indices.append(count)
                places.append((value.name, at))
            count += 1
    if not places:
        raise _refused("no input dimension is the batch alone", "Measure it as it is.")
    return _Found(was=was, was_fixed=was_fixed, indices=tuple(indices), places=tuple(places))


def _set_free(model: ModelProto, found: _Found, axis: str) -> tuple[InputDim, ...]:
    """Make the batch dynamic in the declarations; returns every input dimension as it is now."""
    by_name = {value.name: value for value in model.graph.input}
    for name, at in found.places:
        dim = by_name[name].type.tensor_type.shape.dim[at]
        dim.Clear()
        dim.dim_param = axis
    return tuple(
        InputDim(input=value.name, position=i, rank=len(value.dims or ()), size=dim.size, symbol=dim.symbol)
        for value in fed_inputs(model)
        for i, dim in enumerate(value.dims or ())
    )


def _free_symbol(model: ModelProto) -> str:
    """`batch`, or with underscores where the model uses that name already."""
    used = {d.dim_param for v in (*model.graph.input, *model.graph.output) for d in v.type.tensor_type.shape.dim}
    name = "batch"
    while name in used:
        name += "_"
    return name


def _name_outputs(graph: GraphProto, rewriter: Rewriter, axis: str) -> None:
    """Outputs that carry the batch say so; where the walk lost them, nothing is declared of their first dimension."""
    for value in graph.output:
        dims = value.type.tensor_type.shape.dim
        extents: Extents | None = rewriter.trace.extents.get(value.name)
        for i, dim in enumerate(dims):
            extent = extents[i] if extents is not None and len(extents) == len(dims) else None
            if isinstance(extent, At) and extent.exact and extent.dim in rewriter.batch:
                dim.Clear()
                dim.dim_param = axis
            elif extent is None or isinstance(extent, At):
                _forget(value, i)


def _forget(value: ValueInfoProto, at: int) -> None:
    dim = value.type.tensor_type.shape.dim[at]
    if dim.HasField("dim_value"):
        dim.Clear()


def _write(model: ModelProto, path: Path, out_path: Path, files: tuple[str, ...]) -> None:
    out_path.parent.mkdir(parents=True, exist_ok=True)
    if out_path.exists() and out_path.samefile(path):
        raise _refused("the copy would replace the original", "Name another file.")
    part = out_path.with_name(f"{out_path.name}.part")
    part.write_bytes(model.SerializeToString())
    for file in files:
        target = out_path.parent / file
        if target.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link((path.parent / file).resolve(), target)  # a symbolic link out of the folder would be refused
        except OSError:
            shutil.copyfile(path.parent / file, target)
    part.replace(out_path)


def _refused(why: str, remedy: str) -> RebatchRefused:
    return RebatchRefused(f"rebatch: the model cannot get a dynamic batch: {why}. {remedy}")
