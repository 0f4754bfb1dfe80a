"""The steps of a run, each a function; what composes them adds order and policy only."""

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxdyno import analysis, launching, planning, registry, settings
from onnxdyno.app import places
from onnxdyno.app.counting import counted
from onnxdyno.app.judging import known_roofline, with_verdicts
from onnxdyno.domain.claims import Candidate, Claim
from onnxdyno.domain.devices import Device
from onnxdyno.domain.findings import Findings
from onnxdyno.domain.models import LocalModel, ObjectVersion, Signature
from onnxdyno.domain.plan import BenchmarkPlan, BenchmarkSpec, Protocol
from onnxdyno.domain.runs import BenchmarkRun, Origin, Progress
from onnxdyno.graphs.signature import read_signature
from onnxdyno.reporting import documents, grid, html, markdown, terminal
from onnxdyno.storage import keys
from onnxdyno.storage.progress import StoreLedger
from onnxdyno.storage.sidecar import fetch_files, find_sidecar

Tell = Callable[[Progress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """A model on local disk and the text of its sidecar spec, if it has one."""

    local: LocalModel
    sidecar: str | None
    sidecar_key: str | None
    inputs: Path | None = None
    """The folder of the input files that the sidecar names; None = the model's."""


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


def survey(*, registry_uri: str, results_uri: str, on: Device) -> tuple[Candidate, ...]:
    """Every `.onnx` object of the registry with its standing on this device's class. Raises `StoreError`."""
    return registry.survey(
        places.open_store(registry_uri),
        places.open_store(results_uri, may_be_new=True),
        device_class=on.device_class,
        protocol_version=Protocol().version,
        runtime_version=places.runtime_version(),
        now=places.now(),
        is_alive=places.is_alive,
    )


def claim(candidate: Candidate, *, results_uri: str, reason: str, is_scheduled: bool) -> Claim | None:
    """Create the claim of the next attempt; None if somebody else was first or a run is under way.

    A candidate that is not startable (committed, say) gets one more run.
    `is_scheduled`: the run will start elsewhere later (a deployment); else this process is the owner.
    """
    return registry.claim(
        places.open_store(results_uri, may_be_new=True),
        candidate,
        protocol_version=Protocol().version,
        reason=reason,
        now=places.now(),
        owner=None if is_scheduled else places.myself(),
        token=secrets.token_hex(8),
    )


def take(taken: Claim, *, results_uri: str) -> None:
    """Make this process the owner of a scheduled claim. Raises `UsageError` if a living process owns it."""
    results = places.open_store(results_uri, may_be_new=True)
    registry.take(results, taken, owner=places.myself(), now=places.now(), is_alive=places.is_alive)


def pull(version: ObjectVersion) -> Pulled:
    """Fetch the model, its external data, its sidecar and what that names into the cache.

    Raises `ModelError`, `SpecError`, `StoreError`.
    """
    models = places.open_store(version.store_uri)
    local_model = places.cache().pull(models, version)
    sidecar = find_sidecar(models, version.key)
    if sidecar is None:
        return Pulled(local=local_model, sidecar=None, sidecar_key=None)
    names = settings.named_files(sidecar.key, settings.parse_yaml(sidecar.text, sidecar.key))
    inputs = fetch_files(models, sidecar, names, places.shelf()) if names else None
    return Pulled(local=local_model, sidecar=sidecar.text, sidecar_key=sidecar.key, inputs=inputs)


def inspect(path: Path) -> Signature:
    """What the file says, without running it. Raises `ModelError`."""
    return read_signature(path)


def plan(
    pulled: Pulled, signature: Signature, *, on: Device, parameters: Mapping[str, Any] | None = None
) -> BenchmarkPlan:
    """Defaults < sidecar < parameters. Raises `SpecError`."""
    return planning.expand(spec_of(pulled, parameters), signature, pulled.local, on)


def spec_of(pulled: Pulled, parameters: Mapping[str, Any] | None) -> BenchmarkSpec:
    """Defaults < sidecar < parameters. Raises `SpecError`."""
    layers: list[tuple[str, Mapping[str, object]]] = []
    if pulled.sidecar is not None:
        source = pulled.sidecar_key or "sidecar"
        layers.append((source, settings.parse_yaml(pulled.sidecar, source)))
    if parameters:
        layers.append(("parameters", parameters))
    folder = (pulled.inputs or pulled.local.path.parent) if pulled.sidecar is not None else None
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
    cache = places.cache()
    with places.launcher(planned, lambda text: tell(Progress(done=0, total=1, text=text))) as launcher:
        outside = launching.Outside(
            launcher=launcher,
            ledger=places.ledger(results_uri, origin.run_id),
            clock=time.monotonic_ns,
            tell=tell,
            memory_limit_bytes=places.memory_limit_bytes,
            sampler=places.sampler(),
            device_used_bytes=places.device_used_bytes,
            bounds=places.memory_bounds(launcher),
            rest=launcher.rest,
        )
        run = launching.carry_out(launching.Bench(origin=origin, signature=signature, plan=planned), outside)
    run = counted(run)
    cache.release(planned.model, [recipe.path for recipe in planned.recipes if recipe.path])
    return run


def analyse(run: BenchmarkRun) -> Findings:
    """Everything derived from the samples; with what bounds them, where this device has been calibrated."""
    return with_verdicts(run, analysis.analyse(run))


def store(run: BenchmarkRun, findings: Findings, *, results_uri: str) -> str:
    """Write the tables, the `runs` row last; returns its URI. A second call changes nothing."""
    from onnxdyno.storage import dataset  # pyarrow is only loaded where tables are written or read

    results = places.open_store(results_uri, may_be_new=True)
    committed = dataset.commit(results, run, findings)
    StoreLedger(results, run.origin.run_id).clear()
    return committed


def report(run: BenchmarkRun, findings: Findings, *, results_uri: str) -> Report:
    """Write summary.json, summary.md and summary.html beside the tables."""
    results = places.open_store(results_uri, may_be_new=True)
    judged = known_roofline(run, findings)
    page = markdown.summary(run, findings, judged, results_uri=results.uri)
    bodies = {
        "json": documents.dumps(documents.bench_document(run, findings)),
        "md": page,
        "html": html.page(run, findings, judged, results_uri=results.uri),
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
        places.open_store(taken.version.store_uri),
        places.open_store(results_uri, may_be_new=True),
        taken,
        error=error,
        now=places.now(),
        runtime_version=places.runtime_version(),
    )
