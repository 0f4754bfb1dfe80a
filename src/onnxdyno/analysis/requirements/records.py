"""What is asked of devices, and how each of them stands to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from onnxdyno.analysis.prediction import ProfileNode
from onnxdyno.domain.axes import AxisSizes
from onnxdyno.domain.findings import NOT_PREDICTED, Estimate
from onnxdyno.domain.numbers import plain
from onnxdyno.hardware.catalogue import LEAST_VISIBLE_SHARE
from onnxdyno.hardware.lookup import Catalogue
from onnxdyno.hardware.records import Accelerator

MARKETS = ("datacenter", "workstation", "desktop")
"""Whose devices are considered unless asked: no laptops, no edge boards (their memory is shared with the host)."""

CPU = "cpu"
"""What may be asked for beside the catalogue's markets of GPUs: it has no candidates, and the tiers say why."""

USABLE_SHARE = LEAST_VISIBLE_SHARE
"""What a driver leaves of the nominal memory, at least: 0.92 of it on a T4 with ECC."""


class Aim(StrEnum):
    """What the optimal device is best at."""

    THROUGHPUT = "throughput"
    LATENCY = "latency"
    PRICE = "price"
    WATT = "watt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What one call must stay under, and the words in which it was asked."""

    most_ns: float
    asked: str

    @property
    def told(self) -> str:
        """The words, and the time that they leave a call where they are not that time itself."""
        most = f"{plain(self.most_ns / 1e6)} ms"
        return self.asked if most in self.asked else f"{self.asked}, a call within {most}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What is asked of the tiers. `bound_ns`: what a call at the base may take at most on the minimum device."""

    catalogue: Catalogue
    target: Target | None = None
    bound_ns: float | None = None
    aim: Aim = Aim.THROUGHPUT
    markets: tuple[str, ...] = MARKETS
    dtype: str = "fp32"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredOn:
    """What was measured at one point on one device of the catalogue."""

    device_id: str
    latency_ns: Estimate
    evidence: str
    nodes: tuple[ProfileNode, ...] = ()
    peak_bytes: int | None = None
    """Of the process over its baseline: what `predict_memory` takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One point of one model as it is put to devices. What is not known is None or empty and has a reason.

    `nodes` are by arithmetic; they are used where no GPU was measured. `host_peak_bytes` was measured on a CPU.
    """

    sizes: AxisSizes
    items: int
    evidence: str
    nodes: tuple[ProfileNode, ...] = ()
    nodes_reason: str | None = None
    weights_bytes: int = 0
    activation_bytes: int | None = None
    activation_reason: str | None = None
    host_peak_bytes: int | None = None
    measured: Mapping[str, MeasuredOn] = field(default_factory=dict)
    """On GPUs, by id: they pin what is predicted for others."""
    hosts: Mapping[str, MeasuredOn] = field(default_factory=dict)
    """On CPUs of the catalogue, by id: of use for other CPUs only."""
    ran_out: Mapping[str, str] = field(default_factory=dict)
    """GPUs, by id, on which this point did not fit when it was run, with the run that says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How one device stands to one load. `needed_bytes` is the upper bound; None has `memory_reason`."""

    device: Accelerator
    needed_bytes: int | None
    memory_reason: str
    latency_ns: Estimate = NOT_PREDICTED
    basis: str = "memory"
    probability: float | None = None
    """That the latency is below the upper end of its interval, at least."""
    evidence: str = ""

    @property
    def holds(self) -> bool:
        """Whether even the upper bound of what is needed fits into what a driver leaves of the device's memory."""
        return self.needed_bytes is not None and self.needed_bytes <= USABLE_SHARE * self.device.memory_bytes

    def meets(self, most_ns: float) -> bool:
        """Whether the upper end of the latency's interval is within a limit."""
        return self.latency_ns.high is not None and self.latency_ns.high <= most_ns
