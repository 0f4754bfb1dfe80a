"""`onnxdyno calibrate`: what a device can do at most. `onnxdyno roofline`: what bounds a model on it."""

from pathlib import Path
from typing import Annotated

import typer

from onnxdyno.cli import files, screen

DeviceId = Annotated[
    str | None, typer.Option("--device", help="Id, class, `cpu`, `cuda` or `cuda:1`.", show_default="cpu")
]
ThreadCount = Annotated[
    int | None, typer.Option("--threads", min=1, help="Intra-op threads.", show_default="one core fewer than usable")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object (docs/json.md) instead of tables.")]


def calibrate(
    *,
    device: DeviceId = None,
    threads: ThreadCount = None,
    again: Annotated[bool, typer.Option("--again", help="Measure again what is stored.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure what a device can do at most, once: rates by type, bandwidth by working set, cost of a node.

    Half a minute. Stored in the cache folder for exactly this device, number of threads and runtime; the next call
    measures only what is missing there, or was null for a cause that may have passed.
    """
    from onnxdyno import app as house
    from onnxdyno.reporting import ceilings, documents, terminal

    with screen.one_line_errors(as_json=as_json):
        on = house.device(device)
        lacked = () if again else house.lacks(on, threads)
        with screen.progress() as tell:
            found = house.calibrate(on, threads=threads, is_again=again, tell=tell)
        if as_json:
            screen.write(documents.dumps(ceilings.ceilings_document(found)))
        else:
            screen.show(terminal.sheet(ceilings.ceilings_grid(found)))
            for text in (*ceilings.measured_now(lacked), *ceilings.reasons(found)):
                screen.write(f"  {text}")


def roofline(
    model: Annotated[Path, typer.Argument(help="An .onnx file; external data beside it.", show_default=False)],
    *,
    batch: Annotated[int | None, typer.Option(min=1, help="Batch size.", show_default="1")] = None,
    device: DeviceId = None,
    threads: ThreadCount = None,
    budget: Annotated[float | None, typer.Option(help="Seconds for the model.", show_default="20")] = None,
    html: Annotated[
        Path | None,
        typer.Option(help="Also write the one-page summary with the plot to this file.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what bounds a model here, arithmetic, memory or starting nodes, and what could be gained.

    Profiles the model at one point and compares every node with the device's own measured ceilings (`calibrate`).
    """
    from onnxdyno import app as house
    from onnxdyno.reporting import documents, rooflines, terminal

    asked = {"batch": batch, "threads": threads, "budget_s": budget}
    with screen.one_line_errors(as_json=as_json):
        files.can_be_written("--html", html)
        on = house.device(device)
        with screen.progress() as tell:
            parameters = {name: value for name, value in asked.items() if value is not None}
            found = house.roofline(model, on=on, tell=tell, parameters=parameters)
        if as_json:
            screen.write(documents.dumps(rooflines.roofline_document(model.name, found.roofline, found.ceilings)))
        else:
            screen.show(terminal.sheet(rooflines.roofline_grid(model.name, found.roofline)))
            for text in rooflines.advice_lines(found.roofline):
                screen.write(f"  {text}")
        if html is not None:
            house.write_page(html, found.run, found.findings)
