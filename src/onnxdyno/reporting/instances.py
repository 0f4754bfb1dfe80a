"""Cloud instance types of the catalogue, as JSON and as a table. Schema: docs/schema/hardware.schema.json."""

from collections.abc import Sequence

from onnxdyno.hardware.lookup import AnyDevice, Catalogue
from onnxdyno.hardware.records import Instance
from onnxdyno.reporting import units
from onnxdyno.reporting.documents import Document
from onnxdyno.reporting.grid import Cell, Column, Grid


def instances_of(known: Catalogue, chosen: Sequence[AnyDevice]) -> tuple[Instance, ...]:
    """The types that have one of these devices."""
    ids = {each.id for each in chosen}
    return tuple(each for each in known.instances if each.accelerator_id in ids)


def instance_document(each: Instance) -> Document:
    """One type; a price never without its region and date."""
    return {
        "cloud": each.cloud,
        "name": each.name,
        "accelerator_id": each.accelerator_id,
        "accelerator_counts": list(each.accelerator_counts),
        "vcpus": each.vcpus,
        "memory_bytes": each.memory_bytes,
        "usd_per_hour": each.on_demand_usd_per_hour,
        "price_region_and_date": each.price_region_and_date,
        "source": each.source,
        "confidence": each.confidence,
        "notes": each.notes,
    }


def instances_grid(chosen: Sequence[Instance]) -> Grid:
    """One row per type."""
    columns = (
        Column(title="cloud"),
        Column(title="instance"),
        Column(title="GPU"),
        Column(title="GPUs", is_number=True),
        Column(title="vCPUs", is_number=True),
        Column(title="memory GiB", is_number=True, is_minor=True),
        Column(title="USD/hour", is_number=True),
        Column(title="price of"),
        Column(title="confidence", is_minor=True),
    )
    return Grid(title="Cloud instances", columns=columns, rows=tuple(map(_row, chosen)), caption=f"{len(chosen)}")


def _row(each: Instance) -> tuple[Cell, ...]:
    price, unknown = each.on_demand_usd_per_hour, "unknown"
    return (
        Cell(text=each.cloud),
        Cell(text=each.name),
        Cell(text=each.accelerator_id),
        Cell(text=" or ".join(f"{count:.3g}" for count in each.accelerator_counts)),
        Cell(text=units.MISSING if each.vcpus is None else str(each.vcpus), reason=unknown),
        Cell(text=units.number(each.memory_bytes, units.GIB), reason=unknown),
        Cell(text=units.MISSING if price is None else f"{price:.4g}", reason=unknown),
        Cell(text=each.price_region_and_date or units.MISSING, reason=unknown),
        Cell(text=each.confidence),
    )
