"""The few fitted numbers of the method: read from the package's calibration.json, or handed in by who fits anew."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from onnxdyno.analysis.prediction.kinds import ORDER, OpClass
from onnxdyno.analysis.prediction.records import Bound, Relation
from onnxdyno.domain.errors import CatalogueError

PRIOR_EFFICIENCY = {
    OpClass.VIEW: 1.0,
    OpClass.GEMM: 1.0,
    OpClass.BATCHED: 0.85,
    OpClass.CONV: 0.85,
    OpClass.ELEMENTWISE: 0.95,
    OpClass.NORM: 0.75,
    OpClass.SOFTMAX: 0.95,
    OpClass.GATHER: 0.5,
    OpClass.COPY: 1.0,
    OpClass.OTHER: 0.75,
}
"""Share of the sustained rate that a class reaches at whichever ceiling binds it, before anything is fitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile:
    """The conformal quantile of |log error| / difficulty of one group, from `rows` predictions of GPUs left out."""

    relation: Relation
    bound: Bound
    factor: float
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """`transfer_...`: which share of a node's log residual on the source is expected on another device.

    `efficiency` is in the order of `OpClass`. `floor_ns`: the time of a node that does next to nothing, where the
    profile does not show it; `floor_transfer`: how much of the source's own floor (its host) is expected at the target.
    `transfer_alike` holds between GPUs of one compute capability, which run the same kernels; `transfer_unchecked` for
    classes without evidence. Neither is fitted. `hull`: least and most (FLOP/s, bytes/s) of the GPUs behind it, which
    are of these `architectures`.
    """

    efficiency: tuple[float, ...]
    transfer_compute: float
    transfer_memory: float
    transfer_launch: float
    floor_ns: float
    floor_transfer: float
    wave_flop_per_unit: float
    transfer_alike: float = 0.75
    transfer_unchecked: float = 0.6
    architectures: tuple[str, ...] = ()
    quantiles: tuple[Quantile, ...] = ()
    hull: tuple[tuple[float, float], tuple[float, float]] | None = None
    source: str = ""


PRIOR = Calibration(
    efficiency=tuple(PRIOR_EFFICIENCY[each] for each in ORDER),
    transfer_compute=0.25,
    transfer_memory=0.75,
    transfer_launch=0.75,
    floor_ns=15e3,
    floor_transfer=0.5,
    wave_flop_per_unit=2.0 * 128 * 128 * 1024 / 2,
    source="physics and round numbers",
)
"""Before any fit. A wave: half of a 128 × 128 output tile over 1,024 products on every SM is idle in the last one."""


@cache
def shipped_calibration() -> Calibration:
    """What `benchmarks/prediction.py --fit` wrote into the package. Raises `CatalogueError`."""
    try:
        text = (files("onnxdyno.analysis.prediction") / "calibration.json").read_text(encoding="utf-8")
        return from_document(json.loads(text))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CatalogueError(
            f"calibration.json: expected fitted numbers, found {error!r}. Reinstall onnxdyno."
        ) from error


def from_document(read: dict[str, Any]) -> Calibration:
    """The inverse of `to_document`. Raises `KeyError`, `ValueError` or `TypeError` on anything else."""
    low, high = read["hull"]
    return Calibration(
        efficiency=tuple(float(read["efficiency"][each.value]) for each in ORDER),
        transfer_compute=float(read["transfer"]["compute"]),
        transfer_memory=float(read["transfer"]["memory"]),
        transfer_launch=float(read["transfer"]["launch"]),
        floor_ns=float(read["floor_ns"]),
        floor_transfer=float(read["transfer"]["floor"]),
        wave_flop_per_unit=float(read["wave_flop_per_unit"]),
        transfer_alike=float(read["transfer"]["alike"]),
        transfer_unchecked=float(read["transfer"]["unchecked"]),
        architectures=tuple(map(str, read["architectures"])),
        quantiles=tuple(
            Quantile(
                relation=Relation(each["relation"]),
                bound=Bound(each["bound"]),
                factor=float(each["factor"]),
                rows=int(each["rows"]),
            )
            for each in read["quantiles"]
        ),
        hull=((float(low[0]), float(low[1])), (float(high[0]), float(high[1]))),
        source=str(read["source"]),
    )


def to_document(calibration: Calibration) -> dict[str, Any]:
    """As plain values for JSON; numbers with five significant digits. `calibration.hull` must be there."""
    if calibration.hull is None:
        raise ValueError("a calibration without a hull was not fitted")
    return {
        "source": calibration.source,
        "efficiency": {each.value: _short(value) for each, value in zip(ORDER, calibration.efficiency, strict=True)},
        "transfer": {
            "compute": _short(calibration.transfer_compute),
            "memory": _short(calibration.transfer_memory),
            "launch": _short(calibration.transfer_launch),
            "floor": _short(calibration.floor_transfer),
            "alike": _short(calibration.transfer_alike),
            "unchecked": _short(calibration.transfer_unchecked),
        },
        "floor_ns": _short(calibration.floor_ns),
        "wave_flop_per_unit": _short(calibration.wave_flop_per_unit),
        "architectures": list(calibration.architectures),
        "hull": [[_short(value) for value in corner] for corner in calibration.hull],
        "quantiles": [
            {
                "relation": each.relation.value,
                "bound": each.bound.value,
                "factor": _short(each.factor),
                "rows": each.rows,
            }
            for each in calibration.quantiles
        ],
    }


def _short(value: float) -> float:
    return float(f"{value:.5g}")
