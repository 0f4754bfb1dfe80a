"""`onnxdyno hardware`: the catalogue of devices, each with its sources."""

from pathlib import Path
from typing import Annotated

import typer

from onnxdyno.cli import screen
from onnxdyno.cli.files import catalogue
from onnxdyno.domain.errors import SpecError

Id = Annotated[str | None, typer.Argument(help="One device: id, name or NVML name.", show_default=False)]
Market = Annotated[
    str | None,
    typer.Option(help="Only datacenter, workstation, desktop, laptop, edge or cloud devices.", show_default=False),
]
Devices = Annotated[
    Path | None, typer.Option(help="CSV with devices or prices of your own (docs/prediction.md).", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object (docs/json.md) instead of a table.")]


ByInstance = Annotated[
    bool, typer.Option("--instances", help="List the cloud instance types that have these devices, with dated prices.")
]


def hardware(
    device: Id = None,
    *,
    market: Market = None,
    devices: Devices = None,
    by_instance: ByInstance = False,
    as_json: AsJson = False,
) -> None:
    """List the devices that the catalogue knows, or everything it knows of one, with sources and confidence."""
    from onnxdyno.hardware.catalogue import MARKETS
    from onnxdyno.reporting import documents, instances, predictions, terminal

    with screen.one_line_errors(as_json=as_json):
        known = catalogue(devices)
        if market not in (None, "cloud", *MARKETS):
            raise SpecError(f"market {market!r} is not known. Give one of {', '.join((*MARKETS, 'cloud'))}.")
        chosen = known.devices if device is None else (known.find(device),)
        chosen = tuple(each for each in chosen if market in (None, each.market))
        if as_json:
            screen.write(documents.dumps(predictions.hardware_document(known, chosen)))
        elif by_instance:
            screen.show(terminal.sheet(instances.instances_grid(instances.instances_of(known, chosen))))
        elif device is not None and chosen:
            screen.show(terminal.facts(chosen[0].name, predictions.device_lines(known, chosen[0])))
        else:
            screen.show(terminal.sheet(predictions.hardware_grid(chosen)))
