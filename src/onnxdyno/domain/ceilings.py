"""What a device can do at most, measured on itself: rates, bandwidths, and what a node costs before it works."""

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from onnxdyno.domain.devices import Device
from onnxdyno.domain.outcomes import Skipped


class CeilingKind(StrEnum):
    """What a ceiling limits, and so its unit."""

    FLOP_RATE = "flop_rate"
    OP_RATE = "op_rate"
    BANDWIDTH = "bandwidth"
    DISPATCH = "dispatch"
    H2D = "h2d"
    D2H = "d2h"

    @property
    def unit(self) -> str:
        """`dispatch` is a time, everything else a rate; integer operations count as FLOPs."""
        match self:
            case CeilingKind.FLOP_RATE:
                return "flop_per_s"
            case CeilingKind.OP_RATE:
                return "elements_per_s"
            case CeilingKind.DISPATCH:
                return "ns_per_node"
            case _:
                return "bytes_per_s"


CeilingKey = tuple[CeilingKind, str, int | None]
"""What tells one ceiling of a device from another: kind, label, working bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """One ceiling in the unit of its kind, with its 95 % interval over launches; a null has a reason.

    `label`: what was run: `MatMul float32`, `Softmax`, `stream`, `read`, `pinned`. `working_bytes`: what a bandwidth
    went round in, or how much was copied. `is_lasting`, of a null: measuring again would find nothing either.
    """

    kind: CeilingKind
    label: str
    value: float | None
    low: float | None = None
    high: float | None = None
    working_bytes: int | None = None
    reason: str | None = None
    is_lasting: bool = False

    @property
    def key(self) -> CeilingKey:
        """Kind, label, working bytes."""
        return self.kind, self.label, self.working_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """All ceilings of one device at one number of threads, and exactly whose they are."""

    device_id: str
    device_class: str
    threads: int
    fingerprint_sha256: str
    runtime_version: str
    entries: tuple[Ceiling, ...]

    def find(self, kind: CeilingKind, label: str) -> Ceiling | None:
        """The entry that has a value, or None."""
        return next((each for each in self.entries if (each.kind, each.label) == (kind, label) and each.value), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingReading:
    """One micro-model in one launch: a good call of it, in nanoseconds."""

    micro: str
    launch: int
    call_ns: float


MicroOutcome = CeilingReading | Skipped


def fingerprint_sha256(device: Device, threads: int) -> str:
    """Of every fact of the fingerprint, the cores and the number of threads: what ceilings hold for."""
    facts = "\n".join(f"{fact.name}={fact.value!r}" for fact in device.fingerprint)
    text = f"{device.id}\n{device.device_class}\n{device.cores}\n{threads}\n{facts}"
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
