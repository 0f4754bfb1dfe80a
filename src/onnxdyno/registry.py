"""What is new in a registry, and who may run it.

A claim is an object that is created only if absent: of two racers one wins. A claim is not completion: a run is
committed when its row exists. An attempt whose process is gone may be started again; a model that can never run is
quarantined until the runtime or a missing external file changes (its own bytes changing makes another version).
"""

from datetime import datetime, timedelta

from onnxdyno.domain.claims import Candidate, Claim, Owner
from onnxdyno.domain.errors import ModelError, NothingMeasured, UsageError
from onnxdyno.domain.models import ObjectVersion
from onnxdyno.domain.text import printable, storable
from onnxdyno.ports import ObjectStore
from onnxdyno.storage import keys, standing
from onnxdyno.storage.records import (
    ClaimRecord,
    EndRecord,
    MissingFile,
    QuarantineRecord,
    TakenRecord,
    encode,
)
from onnxdyno.storage.standing import Book, IsAlive, Trace

LEASE_S = 3600.0
"""How long an attempt counts as under way where its process cannot be looked at (another host, or not begun)."""


def is_model(key: str) -> bool:
    """Whether an object is taken for a model: its name ends in `.onnx`, in any case."""
    return key.lower().endswith(".onnx")


def survey(
    models: ObjectStore,
    results: ObjectStore,
    *,
    device_class: str,
    protocol_version: str,
    runtime_version: str,
    now: str,
    is_alive: IsAlive,
) -> tuple[Candidate, ...]:
    """Every model of the registry with its standing on a device class, in key order.

    `now` is UTC, ISO 8601; `runtime_version` any text that changes when a refused model may be worth another try.
    Lists the registry once and three prefixes of the results; reads records only where the listings do not decide.
    Raises `StoreError`.
    """
    listed = tuple(models.list())
    quarantined = (keys.parse_quarantine_key(found.key) for found in results.list(keys.quarantine_prefix(device_class)))
    rows = (keys.parse_table_key(found.key) for found in results.list(keys.table_prefix("runs", device_class)))
    book = Book(
        results=results,
        device_class=device_class,
        protocol_version=protocol_version,
        runtime_version=runtime_version,
        now=now,
        is_alive=is_alive,
        etags={version.key: version.etag for version in listed},
        traces=standing.traces_of(results, keys.claims_prefix(device_class)),
        quarantined=frozenset(found for found in quarantined if found is not None),
        committed=frozenset(row.run_id for row in rows if row is not None),
    )
    return tuple(_candidate(version, book) for version in listed if is_model(version.key))


def _candidate(version: ObjectVersion, book: Book) -> Candidate:
    if storable(version.key) != version.key:
        reason = "its name is not valid UTF-8. Rename the object."
        return Candidate(
            version=version, device_class=book.device_class, status="quarantined", attempt=0, reason=reason
        )
    return standing.candidate(version, book)


def claim(
    results: ObjectStore,
    candidate: Candidate,
    *,
    protocol_version: str,
    reason: str,
    now: str,
    owner: Owner | None,
    token: str,
    lease_s: float = LEASE_S,
) -> Claim | None:
    """Create the claim of the candidate's next attempt; None if somebody else was first or one is under way.

    A candidate that is not startable (say, committed) gets one more run. `owner` None: it is scheduled and begins
    elsewhere within `lease_s`. `token` is random text. Raises `StoreError`, and `UsageError` for a key that is refused.
    """
    if candidate.status == "running":
        return None
    if candidate.attempt < 1:
        raise UsageError(f"{printable(candidate.version.key)}: cannot be run: {candidate.reason}")
    attempt = candidate.attempt if candidate.is_startable else candidate.attempt + 1
    digest = keys.version_digest(candidate.version)
    key = keys.claim_key(candidate.device_class, digest, attempt)
    run_id = keys.run_id(digest, candidate.device_class, protocol_version, candidate.ordinal)
    record = ClaimRecord(
        version=candidate.version,
        claimed_at=now,
        run_id=run_id,
        ordinal=candidate.ordinal,
        reason=reason,
        owner=owner,
        lease_until=_later(now, lease_s),
        token=token,
    )
    if not results.put_if_absent(key, encode(record)):
        return None
    return Claim(
        key=key,
        run_id=run_id,
        version=candidate.version,
        device_class=candidate.device_class,
        attempt=attempt,
        claimed_at=now,
        reason=reason,
    )


def take(
    results: ObjectStore, claim: Claim, *, owner: Owner, now: str, is_alive: IsAlive, lease_s: float = LEASE_S
) -> None:
    """Make `owner` the one who runs this claim; nothing happens if it is already.

    Raises `UsageError` if the claim is gone, over, overtaken by a later attempt, or run by a living process.
    """
    digest = keys.version_digest(claim.version)
    attempts = standing.traces_of(results, keys.claims_prefix(claim.device_class, digest)).get(digest, {})
    record = standing.read(results, claim.key, ClaimRecord)
    trace = attempts.get(claim.attempt, Trace())
    name = f"{printable(claim.version.key)}, attempt {claim.attempt} on {claim.device_class}"
    if record is None:
        raise UsageError(f"{name}: the claim {claim.key} is gone. Run the registry watch to claim it again.")
    if max(attempts, default=0) > claim.attempt:
        raise UsageError(f"{name}: overtaken by attempt {max(attempts)}; nothing to do.")
    if trace.has_end or results.head(keys.table_key("runs", claim.device_class, claim.run_id)) is not None:
        raise UsageError(
            f"{name}: is over; nothing to do. Run the registry watch to start another attempt if one is due."
        )
    current, lease_until = standing.owner_of(
        results, record, device_class=claim.device_class, digest=digest, attempt=claim.attempt, trace=trace
    )
    if current == owner:
        return
    if current is not None and standing.is_running(current, lease_until, now=now, is_alive=is_alive):
        raise UsageError(f"{name}: process {current.pid} is running it; wait for it to end.")
    taken = TakenRecord(owner=owner, taken_at=now, lease_until=_later(now, lease_s))
    key = keys.taken_key(claim.device_class, digest, claim.attempt, trace.turns + 1)
    if not results.put_if_absent(key, encode(taken)):
        raise UsageError(f"{name}: another process has just taken it; nothing to do.")


def finish(
    models: ObjectStore,
    results: ObjectStore,
    claim: Claim,
    *,
    error: BaseException | None,
    now: str,
    runtime_version: str,
) -> None:
    """Record how an attempt ended; doing it again changes nothing. Raises `StoreError`.

    No error, or `NothingMeasured` (its reasons are in the rows): committed. `ModelError`: quarantined. What is not an
    `Exception` (an interrupt, an exit): interrupted by a person, not counted as a death. Anything else: failed.
    """
    digest = keys.version_digest(claim.version)
    match error:
        case None | NothingMeasured():
            outcome, reason = "committed", str(error or "its results are written")
        case ModelError():
            outcome, reason = "quarantined", str(error)
            record = _quarantine(models, results, claim, error, now=now, runtime_version=runtime_version)
            results.put_if_absent(keys.quarantine_key(claim.device_class, digest, claim.attempt), encode(record))
        case Exception():
            outcome, reason = "failed", f"{type(error).__name__}: {error}"
        case _:
            outcome, reason = "interrupted", type(error).__name__
    end = EndRecord(outcome=outcome, ended_at=now, reason=printable(reason, 1000))
    results.put_if_absent(keys.end_key(claim.device_class, digest, claim.attempt), encode(end))


def _quarantine(
    models: ObjectStore, results: ObjectStore, claim: Claim, error: ModelError, *, now: str, runtime_version: str
) -> QuarantineRecord:
    missing = []
    for name in error.missing:
        key = keys.beside(claim.version.key, name)
        seen = models.head(key)
        missing.append(MissingFile(key=key, etag=seen.etag if seen else None))
    record = standing.read(results, claim.key, ClaimRecord)
    return QuarantineRecord(
        version=claim.version,
        run_id=claim.run_id,
        ordinal=record.ordinal if record else claim.attempt,
        state=error.state.value,
        reason=printable(error.reason, 2000),
        remedy=printable(error.remedy, 2000),
        runtime_version=runtime_version,
        is_of_runtime=error.is_of_runtime,
        missing=tuple(missing),
        quarantined_at=now,
    )


def _later(now: str, seconds: float) -> str:
    return (datetime.fromisoformat(now) + timedelta(seconds=seconds)).isoformat(timespec="seconds")
