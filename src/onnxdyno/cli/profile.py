"""`onnxdyno profile`: where one inference spends its time, as tables, JSON or a trace."""

from pathlib import Path
from typing import Annotated, Any

import typer

from onnxdyno.cli import files, screen
from onnxdyno.domain.errors import NothingMeasured, UsageError
from onnxdyno.domain.text import printable

ModelPath = Annotated[Path, typer.Argument(help="An .onnx file; external data beside it.", show_default=False)]
Sizes = Annotated[
    str | None,
    typer.Option("--point", help="Sizes by axis, for example batch=4,height=320.", show_default="the first that run"),
]
DeviceId = Annotated[str | None, typer.Option("--device", help="Id, class, `cpu` or `cuda`.", show_default="cpu")]
Threads = Annotated[int | None, typer.Option(help="Intra-op threads.", show_default="one core fewer than usable")]
Top = Annotated[int, typer.Option(help="Nodes, operators and layers to show.", min=1)]
Budget = Annotated[float, typer.Option(help="Seconds for finding sizes and the unprofiled median beside it.")]
TraceFile = Annotated[
    Path | None,
    typer.Option("--trace", help="Also write one run for Perfetto or chrome://tracing.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object (docs/json.md) instead of tables.")]


def profile(
    model: ModelPath,
    *,
    point: Sizes = None,
    device: DeviceId = None,
    threads: Threads = None,
    top: Top = 15,
    budget: Budget = 10.0,
    trace: TraceFile = None,
    as_json: AsJson = False,
) -> None:
    """Show where one inference spends its time: slowest nodes, by operator, by layer, with FLOPs and bytes.

    Medians of five profiled runs, against the median without the profiler.
    """
    from onnxdyno import app as house
    from onnxdyno.analysis.nodes import by_layer, by_op_type
    from onnxdyno.reporting import documents, profiles, terminal
    from onnxdyno.reporting.trace import trace as traced

    with screen.one_line_errors(as_json=as_json):
        files.can_be_written("--trace", trace)
        parameters: dict[str, Any] = {"memory": False, "profile": True, "launches": 1, "budget_s": budget}
        parameters |= {} if threads is None else {"threads": threads}
        parameters |= {} if point is None else {"axes": parse_sizes(point)}
        with screen.progress() as tell:
            run, findings = house.bench(
                model, on=house.device(device), results_uri=None, tell=tell, parameters=parameters, base_only=True
            )
        if not run.profiles or not run.profiles[0].nodes:
            raise NothingMeasured(f"{printable(model.name)}: no profile. {_why(findings)}")
        taken, found = run.profiles[0], findings.profiles[0]
        sizes = dict(taken.point.sizes)
        other = next(
            (name for name, (size,) in parameters.get("axes", {}).items() if sizes.get(name, size) != size), None
        )
        if other is not None:
            raise NothingMeasured(f"{printable(model.name)}: no profile at {printable(point or '')}: {_why(findings)}")
        if as_json:
            screen.write(documents.dumps(profiles.profile_document(run, taken, found, top)))
        else:
            screen.show(terminal.sheet(profiles.slowest_grid(found, top)))
            screen.show(terminal.sheet(profiles.groups_grid("By operator", by_op_type(found), top)))
            screen.show(terminal.sheet(profiles.groups_grid("By layer", by_layer(found), top)))
        if trace is not None:
            house.write_text(trace, documents.dumps(traced(taken, found, model.name), is_ascii=False), "--trace")


def parse_sizes(text: str) -> dict[str, list[int]]:
    """`batch=4,height=320` as the axes of a spec. Raises `UsageError`."""
    sizes: dict[str, list[int]] = {}
    for part in text.split(","):
        name, _, size = part.rpartition("=")
        if not name.strip() or not size.strip().isdecimal():
            raise UsageError(f"--point {printable(text)}: {printable(part)!r} is no axis=size, for example batch=4.")
        if name.strip() in sizes:
            raise UsageError(f"--point {printable(text)}: {printable(name.strip())!r} is there twice. Give one size.")
        sizes[name.strip()] = [int(size)]
    return sizes


def _why(findings: Any) -> str:
    return next((each.reason for each in findings.points if each.reason), "") or "See onnxdyno bench."
