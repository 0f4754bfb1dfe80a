"""What a person does on this machine: measure or inspect a file, read a spec, write a page, ask results."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from onnxdyno import planning, settings
from onnxdyno.adapters import local
from onnxdyno.app import places
from onnxdyno.app.copying import prepare
from onnxdyno.app.judging import known_roofline
from onnxdyno.app.steps import Pulled, Tell, analyse, inspect, measure, plan, report, store
from onnxdyno.domain.cost import Cost
from onnxdyno.domain.devices import Device
from onnxdyno.domain.errors import InfrastructureError, SpecError
from onnxdyno.domain.findings import Findings
from onnxdyno.domain.models import LocalModel, ModelRef, ObjectVersion, Signature
from onnxdyno.domain.plan import Protocol
from onnxdyno.domain.runs import BenchmarkRun, Origin
from onnxdyno.domain.text import printable
from onnxdyno.graphs.cost import cost_at
from onnxdyno.graphs.reading import load, open_model
from onnxdyno.graphs.signature import signature_of
from onnxdyno.graphs.unreplaced import sayable, unreplaced
from onnxdyno.reporting import html
from onnxdyno.storage import keys
from onnxdyno.storage.progress import StoreLedger
from onnxdyno.storage.sidecar import find_sidecar


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What a model's file says, and what it costs at the first point."""

    ref: ModelRef
    signature: Signature
    cost: Cost


def bench(
    path: Path,
    *,
    on: Device,
    results_uri: str | None,
    tell: Tell,
    parameters: Mapping[str, Any] | None = None,
    base_only: bool = False,
) -> tuple[BenchmarkRun, Findings]:
    """Measure a model file on this machine; with `results_uri` the tables and summaries are written there.

    `base_only`: nothing but the sizes asked, or the first that run. A bench that was interrupted goes on where it
    stopped, if it has a `results_uri`.
    """
    path = sayable(path.absolute())  # the measuring process has a working directory of its own
    given = load(path)
    pulled = prepare(beside(path, given), on=on, parameters=parameters)
    signature = inspect(pulled.local.path)
    planned = plan(pulled, signature, on=on, parameters=parameters)
    if base_only:
        spec = replace(planned.spec, base_only=True)
        planned = planning.expand(spec, signature, pulled.local, on)
    origin = _bench_origin(pulled, on, results_uri)
    with unreplaced(path, given.ref, lambda: _forget(results_uri, origin.run_id)):
        run = measure(planned, signature, origin=origin, results_uri=results_uri, tell=tell)
    findings = analyse(run)
    if results_uri is not None:
        store(run, findings, results_uri=results_uri)
        report(run, findings, results_uri=results_uri)
    return run, findings


def inspection(path: Path, parameters: Mapping[str, Any] | None = None) -> Inspection:
    """Read a model file; sizes are those of the first point of the plan. Raises `ModelError`, `SpecError`."""
    parsed = open_model(path)  # once: parsing is what a large file costs
    pulled = beside(path, load(path, parsed))
    signature = signature_of(parsed)
    planned = plan(pulled, signature, on=places.devices()[0], parameters=parameters)
    cost = cost_at(parsed, signature, planned.base.sizes)
    return Inspection(ref=pulled.local.ref, signature=signature, cost=replace(cost, nodes=()))


def read_spec(path: Path) -> dict[str, Any]:
    """A spec file as parameters. Raises `SpecError`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{printable(str(path))}: cannot be read as a spec: {error}.") from None
    return dict(settings.parse_yaml(text, path.name))


def write_page(path: Path, run: BenchmarkRun, findings: Findings, *, results_uri: str | None = None) -> None:
    """The one-page summary as a file of its own. Raises `InfrastructureError`."""
    write_text(path, html.page(run, findings, known_roofline(run, findings), results_uri=results_uri), "--html")


def write_text(path: Path, text: str, option: str) -> None:
    """A text as the file that an option names. Raises `InfrastructureError`."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InfrastructureError(
            f"{printable(str(path))}: {error.strerror}. Give {option} a path that can be written."
        ) from error


def query(sql: str, *, results_uri: str, warn: Callable[[str], object] = warnings.warn) -> Any:
    """A pyarrow table: SQL over the committed tables of a results store; `warn` is told of files that are no run.

    Raises `UsageError`, `StoreError`.
    """
    from onnxdyno.storage import dataset

    return dataset.query(places.open_store(results_uri, may_be_new=True), sql, warn)


def _bench_origin(pulled: Pulled, on: Device, results_uri: str | None) -> Origin:
    """The first run of this model on this device class that is not committed yet."""
    path, ref = pulled.local.path.absolute(), pulled.local.ref
    version = ObjectVersion(
        store_uri=f"file:{path.parent}", key=path.name, etag=ref.sha256, version_id=None, size_bytes=ref.size_bytes
    )
    digest, protocol = keys.version_digest(version), Protocol().version
    ordinal = 1
    if results_uri is not None:
        results = places.open_store(results_uri, may_be_new=True)
        while results.head(_row_key(digest, on, protocol, ordinal)) is not None:
            ordinal += 1
    return Origin(
        run_id=keys.run_id(digest, on.device_class, protocol, ordinal),
        started_at=places.now(),
        reason="bench",
        source_uri=version.store_uri,
        source_key=version.key,
        source_etag=version.etag,
        source_version_id=None,
        attempt=ordinal,
    )


def _forget(results_uri: str | None, run_id: str) -> None:
    if results_uri is not None:
        StoreLedger(places.open_store(results_uri, may_be_new=True), run_id).clear()


def _row_key(digest: str, on: Device, protocol: str, ordinal: int) -> str:
    return keys.table_key("runs", on.device_class, keys.run_id(digest, on.device_class, protocol, ordinal))


def beside(path: Path, given: LocalModel) -> Pulled:
    """A model that lies on this disk, with the sidecar beside it; its input files are there too."""
    found = find_sidecar(local.LocalStore(path.absolute().parent), path.name)
    if found is None:
        return Pulled(local=given, sidecar=None, sidecar_key=None)
    return Pulled(local=given, sidecar=found.text, sidecar_key=found.key, inputs=path.absolute().parent)
