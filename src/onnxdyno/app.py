"""The front door and composition root: the steps of a run, and the adapters they run on.

A run is these steps in this order; `benchmark` and the Prefect flow compose the same ones:
survey > claim > take > pull > inspect > plan > measure > analyse > store > report > finish
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxdyno.domain.claims import Candidate, Claim
from onnxdyno.domain.devices import Device
from onnxdyno.domain.findings import Findings
from onnxdyno.domain.models import LocalModel, ObjectVersion, Signature
from onnxdyno.domain.plan import BenchmarkPlan
from onnxdyno.domain.runs import BenchmarkRun, Origin, Progress

Tell = Callable[[Progress], None]


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
    uris: tuple[tuple[str, str], ...]
    """(`json` | `md` | `html`, URI)."""


def devices() -> tuple[Device, ...]:
    """Every device of this machine: the CPU first, then GPUs by UUID."""
    raise NotImplementedError


def device(wanted: str | None = None) -> Device:
    """The device with this id, class, kind (`cpu`, `cuda`) or `cuda:<index>`; None = the CPU. Raises `DeviceError`."""
    raise NotImplementedError


def survey(*, registry_uri: str, results_uri: str, on: Device) -> tuple[Candidate, ...]:
    """Every `.onnx` object of the registry with its standing on this device's class. Raises `StoreError`."""
    raise NotImplementedError


def claim(candidate: Candidate, *, results_uri: str, reason: str, is_scheduled: bool) -> Claim | None:
    """Create the claim of the next attempt; None if somebody else was first.

    `is_scheduled`: the run will start elsewhere later (a deployment); else this process is the owner.
    """
    raise NotImplementedError


def take(taken: Claim, *, results_uri: str) -> None:
    """Make this process the owner of a scheduled claim. Raises `UsageError` if a living process owns it."""
    raise NotImplementedError


def pull(version: ObjectVersion) -> Pulled:
    """Fetch the model, its external data and its sidecar into the cache. Raises `ModelError`, `StoreError`."""
    raise NotImplementedError


def inspect(path: Path) -> Signature:
    """What the file says, without running it. Raises `ModelError`."""
    raise NotImplementedError


def plan(
    pulled: Pulled, signature: Signature, *, on: Device, parameters: Mapping[str, Any] | None = None
) -> BenchmarkPlan:
    """Defaults < sidecar < parameters. Raises `SpecError`."""
    raise NotImplementedError


def origin(taken: Claim) -> Origin:
    """Where the run of this claim comes from, for its rows."""
    raise NotImplementedError


def measure(
    planned: BenchmarkPlan, signature: Signature, *, origin: Origin, results_uri: str | None, tell: Tell
) -> BenchmarkRun:
    """Probe, then memory, timing and profile, each in measuring processes; finished pieces are kept and reused.

    Raises `ModelError` (the runtime refused the model), `InfrastructureError`, `KeyboardInterrupt`.
    """
    raise NotImplementedError


def analyse(run: BenchmarkRun) -> Findings:
    """Pure: everything derived from the samples."""
    raise NotImplementedError


def store(run: BenchmarkRun, findings: Findings, *, results_uri: str) -> str:
    """Write the tables, the `runs` row last; returns its URI. A second call changes nothing."""
    raise NotImplementedError


def report(run: BenchmarkRun, findings: Findings, *, results_uri: str) -> Report:
    """Write summary.json, summary.md and summary.html beside the tables."""
    raise NotImplementedError


def finish(taken: Claim, *, results_uri: str, error: BaseException | None) -> None:
    """Record how the attempt ended: committed, quarantined (`ModelError`), interrupted, or failed."""
    raise NotImplementedError
