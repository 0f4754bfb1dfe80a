"""Which device a model needs: from its file alone, from stored runs, or from both."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from onnx import ModelProto

from onnxdyno.analysis import requirements as tiering
from onnxdyno.analysis.prediction import Prediction
from onnxdyno.analysis.requirements import cloud, stored
from onnxdyno.analysis.requirements.arithmetic import as_nodes, point_work
from onnxdyno.analysis.requirements.asking import Asked, dtype_of, goal_of, refuse_unsized
from onnxdyno.analysis.requirements.predicting import predict_load
from onnxdyno.analysis.requirements.records import Load
from onnxdyno.analysis.requirements.resolutions import ResolutionAnswer, largest_resolution
from onnxdyno.app import places
from onnxdyno.app.by_hand import beside
from onnxdyno.app.steps import Pulled, plan
from onnxdyno.domain.axes import AxisSizes, Role
from onnxdyno.domain.errors import SpecError, UsageError
from onnxdyno.domain.findings import MeasuredHere, Tier
from onnxdyno.domain.models import Signature
from onnxdyno.domain.text import printable
from onnxdyno.graphs.cost import cost_at
from onnxdyno.graphs.reading import load, open_model
from onnxdyno.graphs.rebatch import rebatch
from onnxdyno.graphs.signature import signature_of
from onnxdyno.hardware.lookup import Catalogue, shipped
from onnxdyno.hardware.records import Accelerator
from onnxdyno.planning import SIDES_PX
from onnxdyno.planning.sweeps import resolution
from onnxdyno.storage.work import works_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Loads:
    """A model at the base and at the wanted point; `others` are the wanted batch at other resolutions."""

    name: str
    precision: str
    base: Load
    wanted: Load
    others: tuple[Load, ...] = ()
    sources: tuple[str, ...] = ()
    runs: tuple[stored.StoredRun, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """The answers for one model."""

    loads: Loads
    dtype: str
    tiers: tuple[Tier, ...]
    instance: cloud.InstanceAnswer
    cost: cloud.CostAnswer
    resolution: ResolutionAnswer | None
    measured_here: tuple[MeasuredHere, ...] = ()
    """Of each run: its own device at the wanted point, against the target."""


def requirements(
    model: str | Path | None = None,
    *,
    run_ids: Sequence[str] = (),
    results_uri: str | None = None,
    on: str | None = None,
    catalogue: Catalogue | None = None,
    **asked: Any,
) -> Sized:
    """Tiers, the smallest cloud instance and the cost of a million items, as docs/requirements.md says.

    `model`: an ONNX file, of which nothing is run; `run_ids` of a results store measure it. `asked`: the fields of
    `Asked` (`batch`, `resolution`, `target_fps`…). `on`: a device for which the largest resolution is wanted. Raises
    `SpecError`, `UsageError`, `ModelError`.
    """
    question, known = Asked(**asked), shipped() if catalogue is None else catalogue
    device = None if on is None else known.find(on)
    if device is not None and not isinstance(device, Accelerator):
        raise SpecError(f"{device.id} is a CPU. Give a GPU of the catalogue.")
    path = None if model is None else Path(model)
    loads = loads_of(path, question, run_ids=run_ids, results_uri=results_uri, with_others=device is not None)
    goal = goal_of(question, loads.wanted.items, loads.precision, known)
    return Sized(
        loads=loads,
        dtype=goal.dtype,
        tiers=tiering.tiers(loads.base, loads.wanted, goal),
        instance=cloud.smallest_instance(loads.wanted, goal),
        cost=cloud.cost_per_million(loads.wanted, goal),
        resolution=None if device is None else largest_resolution(loads.others, device, goal),
        measured_here=tuple(stored.here_of(each, loads.wanted.sizes, goal.target) for each in loads.runs),
    )


def predictions(
    model: Path | None,
    targets: Sequence[str],
    *,
    run_ids: Sequence[str] = (),
    results_uri: str | None = None,
    catalogue: Catalogue | None = None,
    **asked: Any,
) -> tuple[Loads, tuple[Prediction, ...]]:
    """The latency of one point on each target, in their order: from what runs measured there, else by arithmetic.

    A run on a CPU pins other CPUs; for a GPU the arithmetic of the model is narrower than anything it could say.
    Raises as `requirements`.
    """
    question, known = Asked(**asked), shipped() if catalogue is None else catalogue
    loads = loads_of(model, question, run_ids=run_ids, results_uri=results_uri)
    dtype = question.dtype or dtype_of(loads.precision)
    return loads, tuple(predict_load(loads.wanted, each, dtype, known) for each in targets)


def loads_of(
    path: Path | None,
    asked: Asked,
    *,
    run_ids: Sequence[str] = (),
    results_uri: str | None = None,
    with_others: bool = False,
) -> Loads:
    """The model as loads, with what the runs measured. Raises `SpecError`, `UsageError`, `ModelError`."""
    runs = stored_runs(run_ids, results_uri) if run_ids else ()
    if path is not None:
        return _of_file(path, asked, runs, with_others=with_others)
    if not runs:
        raise UsageError("nothing to size. Give a model's file, or --run with --results.")
    if with_others:
        raise UsageError("other resolutions need the model's file. Give it as well.")
    return _of_runs(runs, asked)


def stored_runs(run_ids: Sequence[str], results_uri: str | None) -> tuple[stored.StoredRun, ...]:
    """Committed runs of one model. Raises `UsageError`: no store, no such run, runs of several models."""
    from onnxdyno.storage import dataset  # pyarrow is only loaded where tables are read

    if results_uri is None:
        raise UsageError("--run needs the store that has it. Give --results file:DIR or s3://BUCKET/PREFIX.")
    store = places.open_store(results_uri, may_be_new=True)
    found = []
    for run_id in run_ids:
        where = "WHERE run_id = '" + run_id.replace("'", "''") + "'"
        rows = {
            table: dataset.query(store, f"SELECT * FROM {table} {where}").to_pylist()  # noqa: S608  # quoted above
            for table in ("runs", "points", "nodes", "work")
        }
        if not rows["runs"]:
            raise UsageError(
                f"run {printable(run_id)!r} is not among the committed runs of {store.uri}. "
                "`onnxdyno query` lists them: ask for run_id and model_name of runs."
            )
        found.append(_stored(rows))
    if len({each.run["model_sha256"] for each in found}) > 1:
        raise UsageError("these runs are of several models. Give runs of one.")
    return tuple(found)


def _stored(rows: dict[str, list[dict[str, Any]]]) -> stored.StoredRun:
    (run,) = rows["runs"]
    plain = [row for row in rows["points"] if row["concurrency"] == 1 and row["threads"] == run["threads"]]
    told = [row["variant"] for row in plain if row["p50_ms"] is not None]
    variant = next((name for name in ("device", "e2e") if name in told), "device")
    of_variant = [row for row in plain if row["variant"] == variant]
    return stored.StoredRun(
        run=run,
        points=tuple(row for row in of_variant if row["p50_ms"] is not None),
        nodes=tuple(row for row in rows["nodes"] if row["is_complete"]),
        unmeasured=tuple(row for row in of_variant if row["p50_ms"] is None),
        work=works_of(rows["work"]),
    )


def _of_runs(runs: tuple[stored.StoredRun, ...], asked: Asked) -> Loads:
    everything = tuple(sorted((work for each in runs for work in each.work), key=lambda work: not work.classes))
    known = tuple(replace(each, work=everything) for each in runs)  # one model: the arithmetic of one is that of all
    columns = {"batch": asked.batch, "sequence": asked.sequence, **_sides(asked)}
    given = {name: size for name, size in columns.items() if size is not None}
    base, wanted = (
        stored.with_measured(stored.load_of(*stored.point_with(known, at)), runs)
        for at in ({name: size for name, size in given.items() if name != "batch"}, given)
    )
    return Loads(
        name=runs[0].run["model_name"],
        precision=runs[0].run["precision"],
        base=base,
        wanted=wanted,
        sources=tuple(each.name for each in runs),
        runs=runs,
    )


def _sides(asked: Asked) -> dict[str, int | None]:
    if asked.resolution is None:
        return {}
    height, _, width = asked.resolution.partition("x")
    if not (height.isdecimal() and width.isdecimal()):
        raise SpecError(f"resolution {printable(asked.resolution)!r}: expected HEIGHTxWIDTH such as 224x224.")
    return {"height_px": int(height), "width_px": int(width)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """A model's file as it was read, and what was measured of it."""

    name: str
    how: str
    parsed: ModelProto
    signature: Signature
    pulled: Pulled
    runs: tuple[stored.StoredRun, ...]


def _of_file(path: Path, asked: Asked, runs: tuple[stored.StoredRun, ...], *, with_others: bool) -> Loads:
    with _readable(path, asked) as (source, how):
        parsed = open_model(source)
        signature = signature_of(parsed)
        name = printable(path.name)
        pulled = beside(source, load(source, parsed))
        opened = _Opened(name=name, how=how, parsed=parsed, signature=signature, pulled=pulled, runs=runs)
        _refuse_strangers(opened)
        _refuse_unfit(asked, signature)
        if not with_others:
            refuse_unsized(asked, signature)
        elif not _is_free(signature, Role.HEIGHT):
            raise SpecError(f"{name} has no dynamic height: its resolution is what it is.")
        sides = SIDES_PX if with_others else ()
        return Loads(
            name=path.name,
            precision=signature.precision,
            base=_load_at(opened, asked, 1 if _is_free(signature, Role.BATCH) else None, asked.resolution),
            wanted=_load_at(opened, asked, asked.batch, asked.resolution),
            others=tuple(_load_at(opened, asked, asked.batch, f"{side}x{side}") for side in sides),
            sources=(name, *(each.name for each in runs)),
            runs=runs,
        )


def _load_at(opened: _Opened, asked: Asked, batch: int | None, resolution: str | None) -> Load:
    """The load at the first point that a bench with these sizes would plan."""
    given = {"batch": batch, "resolution": resolution, "sequence": asked.sequence}
    parameters = {name: str(value) for name, value in given.items() if value is not None}
    sizes = plan(opened.pulled, opened.signature, on=places.devices()[0], parameters=parameters).base.sizes
    _refuse_fixed(opened.signature, sizes, batch)
    cost = cost_at(opened.parsed, opened.signature, sizes)
    work = point_work(cost)
    bare = Load(
        sizes=sizes,
        items=dict(sizes).get(_batch_name(opened.signature) or "", 1),
        evidence=f"arithmetic of {opened.name}{opened.how}, {work.executions} nodes",
        nodes=as_nodes(work),
        nodes_reason=work.reason,
        weights_bytes=opened.signature.weight_bytes,
        activation_bytes=cost.activation_peak_bytes.value,
        activation_reason=cost.activation_peak_bytes.reason,
    )
    return stored.with_measured(bare, opened.runs)


def _refuse_strangers(opened: _Opened) -> None:
    for each in opened.runs:
        if each.run["model_sha256"] != opened.pulled.local.ref.sha256:
            raise UsageError(f"{each.name} is of another model than {opened.name}. Give its own file.")


def _is_free(signature: Signature, role: Role) -> bool:
    return any(axis.role is role and axis.size is None for axis in signature.axes)


@contextmanager
def _readable(path: Path, asked: Asked) -> Iterator[tuple[Path, str]]:
    """The file, or a copy of it with a dynamic batch, and words for that."""
    if not asked.rebatch:
        yield path, ""
        return
    with places.scratch() as folder:
        yield rebatch(path, folder / "model.onnx").path, " with its batch made dynamic (that copy was not run)"


def _refuse_unfit(asked: Asked, signature: Signature) -> None:
    """What is asked of sizes that the model does not have would be left out without a word. Raises `SpecError`."""
    sides = tuple(_sides(asked).values())
    why = None if None in sides or len(sides) != 2 else resolution(signature, (sides[0] or 0, sides[1] or 0))
    if isinstance(why, str):
        raise SpecError(f"resolution {printable(asked.resolution or '')}: {why} Leave --resolution out.")
    lengths = [axis.size for axis in signature.axes if axis.role in (Role.SEQUENCE, Role.TIME)]
    if asked.sequence is not None and not {None, asked.sequence} & set(lengths):
        found = f"is fixed at {lengths[0]}" if lengths else "does not exist"
        raise SpecError(f"sequence {asked.sequence}: the model's {found}. Leave --sequence out.")


def _refuse_fixed(signature: Signature, sizes: AxisSizes, batch: int | None) -> None:
    name = _batch_name(signature)
    if batch is None:
        return
    if name is None:
        raise SpecError(f"batch {batch}: the model has no batch axis. Leave --batch out.")
    if dict(sizes).get(name) != batch:
        fixed = dict(sizes).get(name)
        raise SpecError(f"batch {batch}: the model's is fixed at {fixed}. Leave --batch out, or give --rebatch.")


def _batch_name(signature: Signature) -> str | None:
    return next((axis.name for axis in signature.axes if axis.role is Role.BATCH), None)
