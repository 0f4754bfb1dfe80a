"""The row of `requirements`."""

from dataclasses import dataclass
from typing import Annotated

from onnxdyno.storage.rowtypes.columns import Batch, DeviceClass, HeightPx, ModelSha256, RunId, Sequence, WidthPx
from onnxdyno.storage.rowtypes.entries import Axes


@dataclass(frozen=True, slots=True, kw_only=True)
class RequirementRow:
    """One requirement tier of a run: a device of the catalogue and what the choice rests on."""

    run_id: RunId
    device_class: DeviceClass
    model_sha256: ModelSha256
    tier: Annotated[str, "`minimum`, `recommended` or `optimal`."]
    catalogue_id: Annotated[str | None, "Device of the catalogue; null = no answer, see `reason`."]
    catalogue_name: Annotated[str | None, "Its name."]
    memory_bytes: Annotated[int | None, "Its memory."]
    needed_bytes: Annotated[int | None, "Memory the model needs there at most: an upper bound."]
    axes: Annotated[Axes, "The point the tier is for."]
    batch: Batch
    height_px: HeightPx
    width_px: WidthPx
    sequence: Sequence
    basis: Annotated[
        str, "`memory` (speed had no part), or what the latency rests on: `measured`, `interpolated`, `extrapolated`."
    ]
    reason: Annotated[str, "What the choice rests on, or why there is none."]
    evidence: Annotated[str, "What memory and latency were taken from."]
    latency_ms: Annotated[float | None, "Of one call there, measured or predicted, milliseconds."]
    latency_ms_low: Annotated[float | None, "Lower end of its interval: 90 % if predicted, 95 % if measured."]
    latency_ms_high: Annotated[float | None, "Upper end of that interval."]
    latency_reason: Annotated[str | None, "Why `latency_ms` or its interval is null."]
    probability: Annotated[float | None, "At least this probable is what is claimed of speed; null = nothing is."]
    ordered_by: Annotated[str, "By what the device is the least or the best; empty for none."]
    price: Annotated[float | None, "What it costs by a person's own dated prices; null = none given."]
    price_currency: Annotated[str | None, "Its currency, ISO 4217."]
    price_date: Annotated[str | None, "Its date, ISO 8601."]
    ties: Annotated[tuple[str, ...], "Devices of the catalogue that are not told apart from it."]
