"""The finished pieces of one run, under names that say what a piece depends on: it is reused only where it holds."""

import hashlib
import json
from dataclasses import dataclass
from typing import Self

from onnxdyno import wire
from onnxdyno.domain.assignments import Pass
from onnxdyno.domain.cold import ColdReading
from onnxdyno.domain.errors import InfrastructureError
from onnxdyno.domain.outcomes import ArenaReading, LaunchReading, Measured, MemoryReading, Probe, Profile, Skipped
from onnxdyno.domain.plan import BenchmarkPlan, Point
from onnxdyno.domain.sessions import AS_USERS_GET_IT, SessionRecipe
from onnxdyno.ports import Ledger

AtPoint = Measured | Skipped | MemoryReading | Profile | ColdReading | ArenaReading
"""What one pass found at one point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """What is kept of a run. Each `keep` returns what is kept under the name: another's piece if another was first."""

    ledger: Ledger
    conditions: str
    """Digest of everything but the point and the launch that a reading depends on."""
    bodies: dict[str, bytes]

    @classmethod
    def of(cls, plan: BenchmarkPlan, ledger: Ledger) -> Self:
        """The pieces of this plan, those of an earlier attempt included. Raises `StoreError`.

        A piece that cannot be read (cut by a crash of its machine, or written by others) is taken for missing, so that
        it is measured again and cannot stop every later attempt.
        """
        bodies = {name: body for name, body in ledger.read_all().items() if _is_readable(body)}
        return cls(ledger=ledger, conditions=_conditions(plan), bodies=bodies)

    def probe(self) -> Probe | None:
        """The probe, if it is kept."""
        found = self._read(self._probe_name)
        assert found is None or isinstance(found, Probe)  # noqa: S101  kept under this name
        return found

    def keep_probe(self, probe: Probe) -> None:
        """Keep the probe. Raises `StoreError`."""
        self._keep(self._probe_name, wire.encode(probe))

    def launch(self, launch: int) -> LaunchReading | None:
        """The cold numbers of one launch, if they are kept."""
        found = self._read(self._launch_name(launch))
        assert found is None or isinstance(found, LaunchReading)  # noqa: S101  kept under this name
        return found

    def keep_launch(self, reading: LaunchReading) -> LaunchReading:
        """Keep the cold numbers of one launch. Raises `StoreError`."""
        self._keep(self._launch_name(reading.launch), wire.encode(reading))
        return self.launch(reading.launch) or reading

    def at(self, passed: Pass, launch: int, point: Point, recipe: SessionRecipe = AS_USERS_GET_IT) -> AtPoint | None:
        """What this pass found at a point, if it is kept."""
        found = self._read(self._name(passed, launch, point, recipe))
        assert found is None or isinstance(found, AtPoint)  # noqa: S101  kept under this name
        return found

    def keep(self, passed: Pass, launch: int, value: AtPoint, recipe: SessionRecipe = AS_USERS_GET_IT) -> AtPoint:
        """Keep what this pass found at a point. Raises `StoreError`."""
        self._keep(self._name(passed, launch, value.point, recipe), wire.encode(value))
        return self.at(passed, launch, value.point, recipe) or value

    def _read(self, name: str) -> object:
        body = self.bodies.get(name)
        return None if body is None else wire.decode(body)

    def _keep(self, name: str, body: bytes) -> None:
        kept = self.ledger.keep(name, body)
        self.bodies[name] = kept if _is_readable(kept) else body

    def _name(self, passed: Pass, launch: int, point: Point, recipe: SessionRecipe) -> str:
        how = [point.variant.value, point.sizes, *([] if point.is_plain else [point.threads, point.concurrency])]
        made = [] if recipe == AS_USERS_GET_IT else [repr(recipe)]
        identity = json.dumps([self.conditions, *how, *made], ensure_ascii=True)
        return f"{passed.value}-{launch}-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"

    def _launch_name(self, launch: int) -> str:
        return f"launch-{launch}-{self.conditions[:16]}"

    @property
    def _probe_name(self) -> str:
        return f"probe-{self.conditions[:16]}"


def _is_readable(body: bytes) -> bool:
    try:
        wire.decode(body)
    except InfrastructureError:
        return False
    return True


def _conditions(plan: BenchmarkPlan) -> str:
    parts = (plan.model.ref, plan.device, plan.threads, plan.spec.seed, plan.spec.launches, plan.protocol, plan.recipes)
    return hashlib.sha256(repr(parts).encode("utf-8", "backslashreplace")).hexdigest()
