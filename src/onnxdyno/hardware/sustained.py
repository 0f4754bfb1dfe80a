"""What long GEMMs and streams were measured to reach on a GPU, which is less than its datasheet says."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from onnxdyno.domain.errors import CatalogueError
from onnxdyno.hardware.catalogue import accelerators
from onnxdyno.hardware.rows import GB, rows

_TERA = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Sustained:
    """One GPU: fp32 (no TF32) rate of its long GEMMs at the 90th percentile, and the median rate of its long streams.

    The 90th percentile, not the median: the median is lowered by the half-empty last wave, which the model adds itself.
    """

    accelerator_id: str
    fp32_flop_per_s: float
    memory_bytes_per_s: float


@cache
def sustained() -> tuple[Sustained, ...]:
    """Every GPU that has such measurements. Raises `CatalogueError`."""
    ids = {each.nvml_name: each.id for each in accelerators() if each.nvml_name is not None}
    found = []
    for row in rows("sustained.csv", _text()):
        accelerator_id = ids.get(row.text("device").replace("_", " "))
        if accelerator_id is None:
            raise row.wrong("device", "the NVML name of an accelerator")
        found.append(
            Sustained(
                accelerator_id=accelerator_id,
                fp32_flop_per_s=row.number("spec_fp32_tflops", 10_000, _TERA) * row.number("fraction_of_spec_p90", 1),
                memory_bytes_per_s=row.number("sustained_gb_s_median_elementwise_gt_300MB", 100_000, GB),
            )
        )
    return tuple(found)


def _text() -> str:
    try:
        return (files("onnxdyno.hardware") / "data" / "sustained.csv").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CatalogueError(
            f"sustained.csv: expected a readable data file, found {error}. Reinstall onnxdyno."
        ) from error
