"""`onnxdyno …`: the command line. Results go to standard output, progress and logs to standard error.

Exit codes: 0 fine · 2 usage or spec · 3 the model cannot be measured · 4 a store, a disk or a device lock ·
5 the asked device is not there · 6 nothing could be measured (the reasons are in the rows) · 130 interrupted.
"""

from importlib.metadata import entry_points, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onnxdyno.cli import files, hardware, predict, profile, requirements, roofline, screen
from onnxdyno.domain.errors import NothingMeasured, UsageError
from onnxdyno.domain.text import printable

if TYPE_CHECKING:
    from onnxdyno.domain.findings import Findings
    from onnxdyno.domain.runs import BenchmarkRun

app = typer.Typer(
    name="onnxdyno",
    help="A dynamometer for ONNX models: measure a model on a device, explain it, size the hardware it needs.",
    epilog="Exit codes: 0 fine · 2 usage or spec · 3 model refused · 4 store or infrastructure · 5 no such device · "
    "6 nothing could be measured · 130 interrupted. Documentation: docs/ in the repository.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

ModelPath = Annotated[Path, typer.Argument(help="An .onnx file; external data beside it.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object (docs/json.md) instead of tables.")]
Batch = Annotated[str | None, typer.Option(help="Batch sizes, for example 1,2,4.", show_default="1,2,4 … 128")]
Resolution = Annotated[
    str | None, typer.Option(help="HEIGHTxWIDTH list, for example 320x320,640x640.", show_default="160x160 … 640x640")
]
Sequence = Annotated[str | None, typer.Option(help="Sequence lengths, for example 16,128.", show_default="16 … 512")]
DeviceId = Annotated[
    str | None, typer.Option("--device", help="Id, class, `cpu`, `cuda` or `cuda:1`.", show_default="cpu")
]
SpecFile = Annotated[
    Path | None, typer.Option("--spec", help="A YAML spec (docs/spec.md); options given here win.", show_default=False)
]
Launches = Annotated[
    int | None, typer.Option(help="Fresh processes per point; intervals are over launches.", show_default="3")
]
Budget = Annotated[float | None, typer.Option(help="Seconds for this model in all.", show_default="60")]
LatencyTarget = Annotated[
    float | None, typer.Option(help="Milliseconds that p50 must stay under, for best batch and resolution.")
]
Threads = Annotated[
    str | None, typer.Option(help="Intra-op threads, for example 1,2.", show_default="one core fewer than usable")
]
Concurrency = Annotated[
    str | None, typer.Option(help="Calls in flight at once (closed loop), for example 1,2,4.", show_default="1")
]
Precision = Annotated[
    float | None,
    typer.Option(help="Relative half-width of p50 for which further launches are made.", show_default="0.05"),
]
Spacing = Annotated[
    float | None,
    typer.Option(help="Seconds from one launch to the next; others may use the device meanwhile.", show_default="0"),
]
Memory = Annotated[
    str | None, typer.Option(help="Peak memory of each point: on, off, or full.", show_default="on", metavar="HOW")
]
TrueMinimum = Annotated[
    bool, typer.Option("--true-minimum", help="Also the least memory the first point runs with; outside the budget.")
]
Cold = Annotated[bool, typer.Option("--cold", help="Also session creation and first call at every optimisation level.")]
Rebatch = Annotated[
    bool, typer.Option("--rebatch", help="Measure a proven copy with a dynamic batch where the batch is fixed.")
]
Out = Annotated[
    str | None, typer.Option(help="Also write tables and summaries to this results store.", show_default=False)
]
HtmlFile = Annotated[
    Path | None, typer.Option(help="Also write the one-page summary to this file.", show_default=False)
]
ResultsUri = Annotated[
    str, typer.Option("--results", help="Results store, file:DIR or s3://BUCKET/PREFIX.", show_default=False)
]


@app.callback(invoke_without_command=True)
def _root(
    *, is_version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False
) -> None:
    if is_version:
        screen.write(f"onnxdyno {version('onnxdyno')}")
        raise typer.Exit


@app.command()
def bench(
    model: ModelPath,
    *,
    batch: Batch = None,
    resolution: Resolution = None,
    sequence: Sequence = None,
    device: DeviceId = None,
    launches: Launches = None,
    budget: Budget = None,
    latency_target: LatencyTarget = None,
    threads: Threads = None,
    concurrency: Concurrency = None,
    precision: Precision = None,
    spacing: Spacing = None,
    memory: Memory = None,
    true_minimum: TrueMinimum = False,
    cold: Cold = False,
    rebatch: Rebatch = False,
    spec: SpecFile = None,
    out: Out = None,
    html: HtmlFile = None,
    as_json: AsJson = False,
) -> None:
    """Measure a model on this machine: latency, throughput, memory, slowest nodes, first requirement tiers.

    Without options: batch 1, 2, 4 … 128, and a resolution or sequence sweep where the model has such axes, three fresh
    processes each, within 60 seconds. An interrupted bench with --out goes on where it stopped.
    """
    from onnxdyno import app as house

    with screen.one_line_errors(as_json=as_json):
        files.can_be_written("--html", html)
        parameters = _spec(spec) | _given(
            batch=batch,
            resolution=resolution,
            sequence=sequence,
            launches=launches,
            budget_s=budget,
            latency_target_ms=latency_target,
            threads=threads,
            concurrency=concurrency,
            precision=precision,
            spacing_s=spacing,
            memory=memory,
            true_minimum=true_minimum or None,
            cold=cold or None,
            rebatch=rebatch or None,
        )
        on = house.device(device)
        with screen.progress() as tell:
            run, findings = house.bench(model, on=on, results_uri=out, tell=tell, parameters=parameters)
        _show(run, findings, model.name, html=html, as_json=as_json, out=out)


def _show(
    run: "BenchmarkRun", findings: "Findings", name: str, *, html: Path | None, as_json: bool, out: str | None
) -> None:
    """A bench as text or JSON, and as a page. Raises `NothingMeasured`."""
    from onnxdyno import app as house
    from onnxdyno.reporting import documents, terminal

    if as_json:
        screen.write(documents.dumps(documents.bench_document(run, findings)))
    else:
        screen.show(terminal.bench(run, findings, out))
    if html is not None:
        with screen.one_line_errors(as_json=False):  # the one object was printed: what was measured is not lost
            house.write_page(html, run, findings, results_uri=out)
    if not any(point.state.is_measured for point in findings.points):
        raise NothingMeasured(
            f"{printable(name)}: none of {len(findings.points)} points could be measured; see their reasons."
        )


@app.command()
def inspect(
    model: ModelPath,
    *,
    batch: Batch = None,
    resolution: Resolution = None,
    sequence: Sequence = None,
    spec: SpecFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what a model's file says, without running it: inputs, outputs, axes and their roles, size, operators."""
    from onnxdyno import app as house
    from onnxdyno.reporting import documents, terminal

    with screen.one_line_errors(as_json=as_json):
        parameters = _spec(spec) | _given(batch=batch, resolution=resolution, sequence=sequence)
        seen = house.inspection(model, parameters)
        if as_json:
            screen.write(documents.dumps(documents.inspect_document(seen.ref, seen.signature, seen.cost)))
        else:
            screen.show(terminal.inspect(seen.ref, seen.signature, seen.cost))


@app.command()
def devices(*, as_json: AsJson = False) -> None:
    """List the devices of this machine that can be measured, with their classes."""
    from onnxdyno import app as house
    from onnxdyno.reporting import documents, terminal

    with screen.one_line_errors(as_json=as_json):
        found = house.devices()
        if as_json:
            screen.write(documents.dumps(documents.devices_document(found)))
        else:
            screen.show(terminal.devices(found))


@app.command()
def run(
    registry: Annotated[
        str, typer.Option(help="Where models arrive, file:DIR or s3://BUCKET/PREFIX.", show_default=False)
    ],
    results: ResultsUri,
    *,
    device: DeviceId = None,
    spec: SpecFile = None,
) -> None:
    """Benchmark what is new in a registry, once: the whole Prefect flow in this process.

    Uses the Prefect server of PREFECT_API_URL, or a temporary one of its own. Running it again starts nothing that is
    finished.
    """
    with screen.one_line_errors(as_json=False):
        found = entry_points(group="onnxdyno.runners", name="prefect")
        if not found:
            raise UsageError("this installation has no flows. Install the onnxdyno wheel, which carries them.")
        raise typer.Exit(next(iter(found)).load()(registry, results, device, _spec(spec) or None))


@app.command()
def query(
    sql: Annotated[
        str,
        typer.Argument(
            help="SQL over runs, points, samples, nodes, cold, memory, telemetry, requirements (docs/tables.md)."
        ),
    ],
    results: ResultsUri,
    *,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Ask the results with SQL (DuckDB); only committed runs are seen."""
    from onnxdyno import app as house

    with screen.one_line_errors(as_json=as_json):
        found = house.query(sql, results_uri=results, warn=screen.warn)
        if as_json:
            screen.write(screen.rows_json(found))
        elif as_csv:
            screen.write(screen.rows_csv(found))
        else:
            screen.show(screen.rows_table(found))


app.command()(predict.predict)
app.command()(profile.profile)
app.command()(hardware.hardware)
app.command()(requirements.requirements)
app.command()(roofline.calibrate)
app.command()(roofline.roofline)


def _spec(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    from onnxdyno import app as house

    return house.read_spec(path)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
