"""Who may run which model version on which device class."""

from dataclasses import dataclass

from onnxdyno.domain.models import ObjectVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The process that runs an attempt.

    `host` = boot id + PID namespace, within which a PID means something; `started` tells a process from a later one
    with the same PID.
    """

    host: str
    pid: int
    started: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One model version on one device class, and where it stands.

    `status`: `new` · `died` (claimed, its run is gone: may be started again) · `running` · `committed` ·
    `quarantined` · `changed` (was quarantined; what was missing or the runtime changed: may be started again) ·
    `exhausted` (its attempts died too often). Startable: new, died, changed.
    """

    version: ObjectVersion
    device_class: str
    status: str
    attempt: int
    """Number of the attempt that would be started next (1-based), or of the last one."""
    reason: str
    ordinal: int = 1
    """Number of the run that the next attempt belongs to: the same as long as earlier attempts died, else the next."""

    @property
    def is_startable(self) -> bool:
        """Whether a run should be started now."""
        return self.status in ("new", "died", "changed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to run one attempt; its key in the results store and the identity of the run."""

    key: str
    run_id: str
    version: ObjectVersion
    device_class: str
    attempt: int
    claimed_at: str
    reason: str
