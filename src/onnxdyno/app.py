"""The front door and composition root: the steps of a run, and the adapters they run on.

A run is these steps in this order; `benchmark` and the Prefect flow compose the same ones:
survey > claim > take > pull > prepare > inspect > plan > measure > analyse > store > report > finish
"""

import contextlib
import math
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from onnxdyno import analysis, launching, planning, registry, settings
from onnxdyno.adapters import host, local, nvml, processes
from onnxdyno.domain.claims import Candidate, Claim, Owner
from onnxdyno.domain.cost import Cost
from onnxdyno.domain.devices import Device, DeviceKind
from onnxdyno.domain.errors import DeviceError, InfrastructureError, SpecError, UsageError
from onnxdyno.domain.findings import Findings
from onnxdyno.domain.models import LocalModel, ModelRef, ObjectVersion, Signature
from onnxdyno.domain.plan import BenchmarkPlan, BenchmarkSpec, Protocol
from onnxdyno.domain.runs import BenchmarkRun, Origin, Progress
from onnxdyno.domain.text import printable
from onnxdyno.graphs.cost import cost_at
from onnxdyno.graphs.reading import load
from onnxdyno.graphs.signature import read_signature
from onnxdyno.graphs.unreplaced import sayable, unreplaced
from onnxdyno.ports import Ledger, ObjectStore
from onnxdyno.reporting import documents, grid, html, markdown, terminal
from onnxdyno.storage import keys
from onnxdyno.storage.cache import ModelCache
from onnxdyno.storage.progress import MemoryLedger, StoreLedger
from onnxdyno.storage.sidecar import find_sidecar

Tell = Callable[[Progress], None]

MOST_NODES = 20_000
"""Beyond this the cost of one point takes seconds."""
MEMORY_SHARE = 0.9
"""Share of the memory that is free now which a measuring process on the CPU may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """A model on local disk and the text of its sidecar spec, if it has one."""

    local: LocalModel
    sidecar: str | None
    sidecar_key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The one-page summary in its forms and where it was written."""

    markdown: str
    points: tuple[dict[str, str], ...]
    """The table of points as texts by column title, not escaped."""
    screen: Any
    """A rich renderable of the same table for a terminal."""
    uris: tuple[tuple[str, str], ...]
    """(`json` | `md` | `html`, URI)."""


def open_store(uri: str, *, may_be_new: bool = False) -> ObjectStore:
    """The store that `file:…` or `s3://…` names. Raises `UsageError`.

    `may_be_new`: a directory that does not exist yet is an empty store (results), not a mistake (a registry).
    """
    scheme = uri.partition(":")[0].lower()
    if scheme == "s3":
        from onnxdyno.adapters import s3  # boto3 is only loaded where S3 is asked for

        return s3.S3Store(*s3.parse_uri(uri))
    return local.LocalStore(local.parse_uri(uri), may_be_new=may_be_new)


def devices() -> tuple[Device, ...]:
    """Every device of this machine: the CPU first, then GPUs by UUID."""
    version = _runtime_version()
    cpu = host.CpuProbe(version).devices()
    return (*cpu, *nvml.GpuProbe(version, cpu[0].cores, cpu[0].threads, host.slug).devices())


def device(wanted: str | None = None) -> Device:
    """The device with this id, class, kind (`cpu`, `cuda`) or `cuda:<index>`; None = the CPU. Raises `DeviceError`."""
    found = devices()
    gpus = [each for each in found if each.kind is DeviceKind.CUDA]
    named = {f"cuda:{index}": each for index, each in enumerate(gpus)}
    for each in (*reversed(gpus), found[0]):
        named |= {each.id: each, each.device_class: each, each.kind.value: each}
    try:
        return named[wanted or "cpu"]
    except KeyError:
        raise DeviceError(
            f"no device {printable(wanted or '')!r} here (there is: {', '.join(each.id for each in found)}). "
            "`onnxdyno devices` lists them; a GPU needs the NVIDIA driver."
        ) from None


def survey(*, registry_uri: str, results_uri: str, on: Device) -> tuple[Candidate, ...]:
    """Every `.onnx` object of the registry with its standing on this device's class. Raises `StoreError`."""
    return registry.survey(
        open_store(registry_uri),
        open_store(results_uri, may_be_new=True),
        device_class=on.device_class,
        protocol_version=Protocol().version,
        runtime_version=_runtime_version(),
        now=_now(),
        is_alive=_is_alive,
    )


def claim(candidate: Candidate, *, results_uri: str, reason: str, is_scheduled: bool) -> Claim | None:
    """Create the claim of the next attempt; None if somebody else was first.

    `is_scheduled`: the run will start elsewhere later (a deployment); else this process is the owner.
    """
    return registry.claim(
        open_store(results_uri, may_be_new=True),
        candidate,
        protocol_version=Protocol().version,
        reason=reason,
        now=_now(),
        owner=None if is_scheduled else _myself(),
        token=secrets.token_hex(8),
    )


def claim_again(candidate: Candidate, *, results_uri: str, reason: str, is_scheduled: bool) -> Claim | None:
    """Create the claim of one more run of a committed model; None if somebody else was first or a run is under way."""
    return claim(candidate, results_uri=results_uri, reason=reason, is_scheduled=is_scheduled)


def take(taken: Claim, *, results_uri: str) -> None:
    """Make this process the owner of a scheduled claim. Raises `UsageError` if a living process owns it."""
    results = open_store(results_uri, may_be_new=True)
    registry.take(results, taken, owner=_myself(), now=_now(), is_alive=_is_alive)


def pull(version: ObjectVersion) -> Pulled:
    """Fetch the model, its external data and its sidecar into the cache. Raises `ModelError`, `StoreError`."""
    models = open_store(version.store_uri)
    local_model = _cache().pull(models, version)
    sidecar = find_sidecar(models, version.key)
    return Pulled(
        local=local_model, sidecar=sidecar.text if sidecar else None, sidecar_key=sidecar.key if sidecar else None
    )


def inspect(path: Path) -> Signature:
    """What the file says, without running it. Raises `ModelError`."""
    return read_signature(path)


def prepare(pulled: Pulled, *, on: Device, parameters: Mapping[str, Any] | None = None) -> Pulled:
    """The model to measure: itself, or with `rebatch` in its spec a proven copy whose batch is dynamic.

    The copy is another model: it has a sha256 of its own, and its `ModelRef` says what it is a copy of and what was
    shown. It is made once, in a measuring process. Raises `RebatchRefused`, `SpecError`, `ModelError`.
    """
    spec = _spec(pulled, parameters)
    if not spec.rebatch:
        return pulled
    signature = inspect(pulled.local.path)
    planned = planning.expand(spec, signature, pulled.local, on)
    folder = _cache_folder() / "copies" / pulled.local.ref.sha256
    target, said = folder / f"{pulled.local.path.stem}.rebatched.onnx", folder / "shown.txt"
    if not said.exists():
        with _making(folder) as fresh, _launcher(planned, lambda _: None) as launcher:
            how = launching.copy_with_batch(
                planned, fresh / target.name, launcher=launcher, memory_limit_bytes=_memory_limit_bytes()
            )
            (fresh / said.name).write_text(how, encoding="utf-8")
    copy = load(target)
    ref = replace(copy.ref, copy_of_sha256=pulled.local.ref.sha256, copy_how=said.read_text(encoding="utf-8"))
    return replace(pulled, local=replace(copy, ref=ref))


@contextmanager
def _making(folder: Path) -> Iterator[Path]:
    """A folder to fill, which takes the place of `folder` only when nothing went wrong."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".making-") as made:
            fresh = Path(made) / "fresh"
            fresh.mkdir()
            yield fresh
            with contextlib.suppress(FileExistsError, OSError):  # another run made it first
                fresh.rename(folder)
    except OSError as error:
        raise InfrastructureError(
            f"{folder.parent}: {error.strerror}. Set ONNXDYNO_CACHE_DIR to a writable folder."
        ) from error


def plan(
    pulled: Pulled, signature: Signature, *, on: Device, parameters: Mapping[str, Any] | None = None
) -> BenchmarkPlan:
    """Defaults < sidecar < parameters. Raises `SpecError`."""
    return planning.expand(_spec(pulled, parameters), signature, pulled.local, on)


def _spec(pulled: Pulled, parameters: Mapping[str, Any] | None) -> BenchmarkSpec:
    layers: list[tuple[str, Mapping[str, object]]] = []
    if pulled.sidecar is not None:
        source = pulled.sidecar_key or "sidecar"
        layers.append((source, settings.parse_yaml(pulled.sidecar, source)))
    if parameters:
        layers.append(("parameters", parameters))
    folder = pulled.local.path.parent if pulled.sidecar is not None else None
    return settings.build_spec(layers, folder=folder)


def origin(taken: Claim) -> Origin:
    """Where the run of this claim comes from, for its rows."""
    return Origin(
        run_id=taken.run_id,
        started_at=taken.claimed_at,
        reason=taken.reason,
        source_uri=taken.version.store_uri,
        source_key=taken.version.key,
        source_etag=taken.version.etag,
        source_version_id=taken.version.version_id,
        attempt=taken.attempt,
    )


def measure(
    planned: BenchmarkPlan, signature: Signature, *, origin: Origin, results_uri: str | None, tell: Tell
) -> BenchmarkRun:
    """Probe, then memory, timing and profile, each in measuring processes; finished pieces are kept and reused.

    Raises `ModelError` (the runtime refused the model), `InfrastructureError`, `KeyboardInterrupt`.
    """
    cache = _cache()
    with _launcher(planned, lambda text: tell(Progress(done=0, total=1, text=text))) as launcher:
        outside = launching.Outside(
            launcher=launcher,
            ledger=_ledger(results_uri, origin.run_id),
            clock=time.monotonic_ns,
            tell=tell,
            memory_limit_bytes=_memory_limit_bytes,
        )
        run = launching.carry_out(launching.Bench(origin=origin, signature=signature, plan=planned), outside)
    run = replace(run, costs=_costs(run))
    cache.release(planned.model)
    return run


def _costs(run: BenchmarkRun) -> tuple[Cost, ...]:
    """By the model's own arithmetic at every planned point; of a huge graph only at the base."""
    is_huge = run.signature.node_count > MOST_NODES
    points = (run.plan.base,) if is_huge else (run.plan.base, *run.plan.points)
    path = run.plan.model.path
    return tuple(
        replace(cost_at(path, run.signature, sizes), nodes=())
        for sizes in dict.fromkeys(point.sizes for point in points)
    )


@contextmanager
def _launcher(planned: BenchmarkPlan, tell_waiting: Callable[[str], None]) -> Iterator[processes.ProcessLauncher]:
    """What starts measuring processes for the plan's device, while this run holds its lock."""
    wait_s = _number_from("ONNXDYNO_LOCK_WAIT_S", "3600", "seconds")
    with processes.DeviceLock(_lock_folder(), planned.device, wait_s, tell_waiting) as lock:
        yield processes.ProcessLauncher(lock, host.oom_kills)


def _memory_limit_bytes() -> int:
    return int(host.available_bytes() * MEMORY_SHARE)


def analyse(run: BenchmarkRun) -> Findings:
    """Pure: everything derived from the samples."""
    return analysis.analyse(run)


def store(run: BenchmarkRun, findings: Findings, *, results_uri: str) -> str:
    """Write the tables, the `runs` row last; returns its URI. A second call changes nothing."""
    from onnxdyno.storage import dataset  # pyarrow is only loaded where tables are written or read

    results = open_store(results_uri, may_be_new=True)
    committed = dataset.commit(results, run, findings)
    StoreLedger(results, run.origin.run_id).clear()
    return committed


def report(run: BenchmarkRun, findings: Findings, *, results_uri: str) -> Report:
    """Write summary.json, summary.md and summary.html beside the tables."""
    results = open_store(results_uri, may_be_new=True)
    page = markdown.summary(run, findings)
    bodies = {
        "json": documents.dumps(documents.bench_document(run, findings)),
        "md": page,
        "html": html.page(run, findings),
    }
    uris = []
    for form, body in bodies.items():
        key = keys.report_key(run.origin.run_id, form)
        results.put_if_absent(key, body.encode("utf-8"))
        uris.append((form, f"{results.uri}/{key}"))
    return Report(
        markdown=page,
        points=grid.as_texts(grid.points_grid(run, findings)),
        screen=terminal.points(run, findings),
        uris=tuple(uris),
    )


def finish(taken: Claim, *, results_uri: str, error: BaseException | None) -> None:
    """Record how the attempt ended: committed, quarantined (`ModelError`), interrupted, or failed."""
    registry.finish(
        open_store(taken.version.store_uri),
        open_store(results_uri, may_be_new=True),
        taken,
        error=error,
        now=_now(),
        runtime_version=_runtime_version(),
    )


def benchmark(
    taken: Claim, *, on: Device, results_uri: str, tell: Tell, parameters: Mapping[str, Any] | None = None
) -> Findings:
    """All steps of a claimed run, from pull to finish, without an orchestrator. Raises as the steps do."""
    try:
        pulled = prepare(pull(taken.version), on=on, parameters=parameters)
        signature = inspect(pulled.local.path)
        planned = plan(pulled, signature, on=on, parameters=parameters)
        run = measure(planned, signature, origin=origin(taken), results_uri=results_uri, tell=tell)
        findings = analyse(run)
        store(run, findings, results_uri=results_uri)
        report(run, findings, results_uri=results_uri)
    except BaseException as error:
        finish(taken, results_uri=results_uri, error=error)
        raise
    finish(taken, results_uri=results_uri, error=None)
    return findings


def bench(
    path: Path, *, on: Device, results_uri: str | None, tell: Tell, parameters: Mapping[str, Any] | None = None
) -> tuple[BenchmarkRun, Findings]:
    """Measure a model file on this machine; with `results_uri` the tables and summaries are written there.

    A bench that was interrupted goes on where it stopped, if it has a `results_uri`.
    """
    path = sayable(path.absolute())  # the measuring process has a working directory of its own
    given = load(path)
    pulled = prepare(Pulled(local=given, **_local_sidecar(path)), on=on, parameters=parameters)
    signature = inspect(pulled.local.path)
    planned = plan(pulled, signature, on=on, parameters=parameters)
    origin = _bench_origin(pulled, on, results_uri)
    with unreplaced(path, given.ref, lambda: _forget(results_uri, origin.run_id)):
        run = measure(planned, signature, origin=origin, results_uri=results_uri, tell=tell)
    findings = analyse(run)
    if results_uri is not None:
        store(run, findings, results_uri=results_uri)
        report(run, findings, results_uri=results_uri)
    return run, findings


def query(sql: str, *, results_uri: str) -> Any:
    """A pyarrow table: SQL over the committed tables of a results store. Raises `UsageError`, `StoreError`."""
    from onnxdyno.storage import dataset

    return dataset.query(open_store(results_uri, may_be_new=True), sql)


def _bench_origin(pulled: Pulled, on: Device, results_uri: str | None) -> Origin:
    """The first run of this model on this device class that is not committed yet."""
    path, ref = pulled.local.path.absolute(), pulled.local.ref
    version = ObjectVersion(
        store_uri=f"file:{path.parent}", key=path.name, etag=ref.sha256, version_id=None, size_bytes=ref.size_bytes
    )
    digest, protocol = keys.version_digest(version), Protocol().version
    ordinal = 1
    if results_uri is not None:
        results = open_store(results_uri, may_be_new=True)
        while results.head(_row_key(digest, on, protocol, ordinal)) is not None:
            ordinal += 1
    return Origin(
        run_id=keys.run_id(digest, on.device_class, protocol, ordinal),
        started_at=_now(),
        reason="bench",
        source_uri=version.store_uri,
        source_key=version.key,
        source_etag=version.etag,
        source_version_id=None,
        attempt=ordinal,
    )


def _forget(results_uri: str | None, run_id: str) -> None:
    if results_uri is not None:
        StoreLedger(open_store(results_uri, may_be_new=True), run_id).clear()


def _row_key(digest: str, on: Device, protocol: str, ordinal: int) -> str:
    return keys.table_key("runs", on.device_class, keys.run_id(digest, on.device_class, protocol, ordinal))


def _local_sidecar(path: Path) -> dict[str, str | None]:
    if not path.is_file():
        raise UsageError(f"{printable(str(path))}: no such file. Give the path of an .onnx file.")
    found = find_sidecar(local.LocalStore(path.absolute().parent), path.name)
    return {"sidecar": found.text if found else None, "sidecar_key": found.key if found else None}


def _ledger(results_uri: str | None, run_id: str) -> Ledger:
    return MemoryLedger() if results_uri is None else StoreLedger(open_store(results_uri, may_be_new=True), run_id)


def _cache_folder() -> Path:
    fallback = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "onnxdyno" / "models"
    return Path(os.environ.get("ONNXDYNO_CACHE_DIR", fallback)).expanduser()


def _cache() -> ModelCache:
    return ModelCache(_cache_folder(), int(_number_from("ONNXDYNO_CACHE_GB", "20", "gigabytes") * 1e9))


def _number_from(variable: str, usual: str, unit: str) -> float:
    """A number of the environment, 0 or more. Raises `UsageError`."""
    text = os.environ.get(variable) or usual
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise UsageError(f"{variable} is '{printable(text, 40)}': expected a number of {unit}, for example {usual}.")
    return number


def _lock_folder() -> Path:
    """One folder for every user and container of a machine."""
    return Path(os.environ.get("ONNXDYNO_LOCK_DIR", Path(tempfile.gettempdir()) / "onnxdyno-locks"))


def _runtime_version() -> str:
    """Version of the installed runtime, without importing it."""
    return metadata.version("onnxruntime-gpu")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _myself() -> Owner:
    pid = os.getpid()
    return Owner(host=host.host_id(), pid=pid, started=host.process_started(pid) or "")


def _is_alive(owner: Owner) -> bool | None:
    """None: on another host, whose processes cannot be looked at from here."""
    if owner.host != host.host_id():
        return None
    return host.process_started(owner.pid) == owner.started


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What a model's file says, and what it costs at the first point."""

    ref: ModelRef
    signature: Signature
    cost: Cost


def inspection(path: Path, parameters: Mapping[str, Any] | None = None) -> Inspection:
    """Read a model file; sizes are those of the first point of the plan. Raises `ModelError`, `SpecError`."""
    pulled = Pulled(local=load(path), **_local_sidecar(path))
    signature = inspect(path)
    planned = plan(pulled, signature, on=devices()[0], parameters=parameters)
    cost = cost_at(path, signature, planned.base.sizes)
    return Inspection(ref=pulled.local.ref, signature=signature, cost=replace(cost, nodes=()))


def read_spec(path: Path) -> dict[str, Any]:
    """A spec file as parameters. Raises `SpecError`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{printable(str(path))}: cannot be read as a spec: {error}.") from None
    return dict(settings.parse_yaml(text, path.name))


def write_page(path: Path, run: BenchmarkRun, findings: Findings) -> None:
    """The one-page summary as a file of its own. Raises `InfrastructureError`."""
    try:
        path.write_text(html.page(run, findings), encoding="utf-8")
    except OSError as error:
        raise InfrastructureError(
            f"{printable(str(path))}: {error.strerror}. Give --html a path that can be written."
        ) from error
