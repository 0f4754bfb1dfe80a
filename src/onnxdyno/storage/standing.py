"""Where a version of a model stands on a device class, from the records in the results store."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from onnxdyno.domain.claims import Candidate, Owner
from onnxdyno.domain.errors import ObjectMissing
from onnxdyno.domain.models import ObjectVersion
from onnxdyno.domain.outcomes import ModelState
from onnxdyno.ports import ObjectStore
from onnxdyno.storage import keys
from onnxdyno.storage.records import (
    ClaimRecord,
    EndRecord,
    QuarantineRecord,
    Record,
    TakenRecord,
    decode,
)

IsAlive = Callable[[Owner], bool | None]
"""Whether the process lives; None = cannot be told from here (another host)."""

MOST_DEATHS = 3
"""A run is not started again once this many attempts at it have died or failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Which objects an attempt has left: seen in a listing, not read."""

    turns: int = 0
    has_end: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """What three listings of the results store say, and what is needed to judge it."""

    results: ObjectStore
    device_class: str
    protocol_version: str
    runtime_version: str
    now: str
    is_alive: IsAlive
    etags: Mapping[str, str]
    """Key to ETag of everything in the registry."""
    traces: Mapping[str, Mapping[int, Trace]]
    """Version digest to attempt to trace."""
    quarantined: frozenset[tuple[str, int]]
    committed: frozenset[str]
    """Run ids whose row is written."""


def traces_of(results: ObjectStore, prefix: str) -> dict[str, dict[int, Trace]]:
    """One listing of claims: version digest to attempt to what it left."""
    found: dict[str, dict[int, Trace]] = {}
    for version in results.list(prefix):
        parsed = keys.parse_claim_key(version.key)
        if parsed is None:
            continue
        attempts = found.setdefault(parsed.version_digest, {})
        known = attempts.get(parsed.attempt, Trace())
        attempts[parsed.attempt] = Trace(
            turns=max(known.turns, parsed.turn if parsed.part == "taken" else 0),
            has_end=known.has_end or parsed.part == "end",
        )
    return found


def read(results: ObjectStore, key: str, kind: type[Record]) -> Record | None:
    """One record; None if it is gone or is none."""
    try:
        return decode(results.get(key), kind)
    except ObjectMissing:
        return None


def candidate(version: ObjectVersion, book: Book) -> Candidate:
    """The standing of one version; asks the store only about versions that are neither new nor simply committed."""
    digest = keys.version_digest(version)
    attempts = book.traces.get(digest, {})
    if not attempts:
        return _standing(version, book, "new", attempt=1, ordinal=1, reason="never claimed")
    last = max(attempts)
    if (digest, last) in book.quarantined:
        return _quarantined(version, book, digest, last)
    if keys.run_id(digest, book.device_class, book.protocol_version, last) in book.committed:
        return _standing(version, book, "committed", attempt=last, ordinal=last + 1, reason="its results are written")
    claim = read(book.results, keys.claim_key(book.device_class, digest, last), ClaimRecord)
    if claim is not None and claim.run_id in book.committed:
        ordinal = claim.ordinal + 1
        return _standing(version, book, "committed", attempt=last, ordinal=ordinal, reason="its results are written")
    return _unfinished(version, book, digest, claim)


def owner_of(
    results: ObjectStore, claim: ClaimRecord, *, device_class: str, digest: str, attempt: int, trace: Trace
) -> tuple[Owner | None, str]:
    """(who runs an attempt, or None if nobody has begun; until when that counts if nobody can tell)."""
    if trace.turns:
        taken = read(results, keys.taken_key(device_class, digest, attempt, trace.turns), TakenRecord)
        if taken is not None:
            return taken.owner, taken.lease_until
    return claim.owner, claim.lease_until


def is_running(owner: Owner | None, lease_until: str, *, now: str, is_alive: IsAlive) -> bool:
    """Whether an attempt that has not ended is under way: its process lives, or its lease runs where none can tell."""
    alive = is_alive(owner) if owner is not None else None
    if alive is not None:
        return alive
    try:
        return datetime.fromisoformat(now) < datetime.fromisoformat(lease_until)
    except (ValueError, TypeError):
        return False


def _standing(version: ObjectVersion, book: Book, status: str, *, attempt: int, ordinal: int, reason: str) -> Candidate:
    return Candidate(
        version=version,
        device_class=book.device_class,
        status=status,
        attempt=attempt,
        reason=reason,
        ordinal=ordinal,
    )


def _quarantined(version: ObjectVersion, book: Book, digest: str, last: int) -> Candidate:
    key = keys.quarantine_key(book.device_class, digest, last)
    record = read(book.results, key, QuarantineRecord)
    if record is None:
        reason = f"{key} cannot be read"
        return _standing(version, book, "changed", attempt=last + 1, ordinal=last + 1, reason=reason)
    change = _change(record, book)
    if change:
        return _standing(version, book, "changed", attempt=last + 1, ordinal=record.ordinal + 1, reason=change)
    reason = f"{record.state}: {record.reason} {record.remedy}"
    return _standing(version, book, "quarantined", attempt=last, ordinal=record.ordinal + 1, reason=reason)


def _change(record: QuarantineRecord, book: Book) -> str | None:
    if _may_depend_on_runtime(record) and record.runtime_version != book.runtime_version:
        return f"the runtime changed: {record.runtime_version} then, {book.runtime_version} now"
    for file in record.missing:
        if book.etags.get(file.key) != file.etag:
            return f"{file.key} changed since it was quarantined ({record.state})"
    return None


def _may_depend_on_runtime(record: QuarantineRecord) -> bool:
    """A file that is damaged or unsafe as it was read stays so; another runtime may take what this one did not."""
    return record.is_of_runtime or record.state not in (ModelState.INVALID_FILE, ModelState.UNSAFE)


def _unfinished(version: ObjectVersion, book: Book, digest: str, claim: ClaimRecord | None) -> Candidate:
    last = max(book.traces[digest])
    trace = book.traces[digest][last]
    ordinal = claim.ordinal if claim is not None else 1
    end = _end(book, digest, last) if trace.has_end else None
    cause = (
        f"attempt {last} {end.outcome}: {end.reason}" if end is not None else f"attempt {last} died without a commit"
    )
    if end is None and claim is not None:
        owner, lease_until = owner_of(
            book.results, claim, device_class=book.device_class, digest=digest, attempt=last, trace=trace
        )
        if is_running(owner, lease_until, now=book.now, is_alive=book.is_alive):
            reason = f"attempt {last} is under way" if owner else f"attempt {last} is scheduled until {lease_until}"
            return _standing(version, book, "running", attempt=last, ordinal=ordinal, reason=reason)
        if owner is None:
            cause = f"attempt {last} was scheduled and did not begin by {lease_until}"
    deaths = _deaths(book, digest, ordinal)
    if deaths >= MOST_DEATHS:
        prefix = keys.claims_prefix(book.device_class, digest)
        reason = f"{cause}; {deaths} attempts died. Delete the objects under {prefix} of the results to try again."
        return _standing(version, book, "exhausted", attempt=last, ordinal=ordinal, reason=reason)
    return _standing(version, book, "died", attempt=last + 1, ordinal=ordinal, reason=cause)


def _end(book: Book, digest: str, attempt: int) -> EndRecord | None:
    return read(book.results, keys.end_key(book.device_class, digest, attempt), EndRecord)


def _deaths(book: Book, digest: str, ordinal: int) -> int:
    """Attempts at the run `ordinal` that began and neither committed nor were interrupted by a person."""
    deaths = 0
    for attempt in sorted(book.traces[digest], reverse=True):
        trace = book.traces[digest][attempt]
        claim = read(book.results, keys.claim_key(book.device_class, digest, attempt), ClaimRecord)
        if claim is not None and claim.ordinal != ordinal:
            break
        has_begun = claim is None or claim.owner is not None or trace.turns > 0
        end = _end(book, digest, attempt) if trace.has_end else None
        deaths += has_begun and (end is None or end.outcome != "interrupted")
    return deaths
