"""`onnxdyno requirements`: which device a model needs, from its file alone or from stored runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onnxdyno.cli import screen
from onnxdyno.cli.files import catalogue

if TYPE_CHECKING:
    from onnxdyno.app import Sized
    from onnxdyno.reporting.sizing import Answers

ModelPath = Annotated[Path | None, typer.Argument(help="An .onnx file; nothing of it is run.", show_default=False)]
Runs = Annotated[list[str] | None, typer.Option("--run", help="Stored run of this model; several pin the prediction.")]
Results = Annotated[
    str | None, typer.Option("--results", help="The results store with these runs.", show_default=False)
]
Batch = Annotated[int | None, typer.Option(help="Items in one call at the wanted point.", show_default="1")]
Resolution = Annotated[str | None, typer.Option(help="HEIGHTxWIDTH, for example 640x640.")]
Sequence = Annotated[int | None, typer.Option(help="Sequence length.")]
TargetFps = Annotated[float | None, typer.Option("--target-fps", help="Frames a second that must be processed.")]
TargetLatency = Annotated[float | None, typer.Option("--target-latency-ms", help="What a call may take at most.")]
TargetThroughput = Annotated[float | None, typer.Option("--target-throughput", help="Items a second.")]
Bound = Annotated[
    float | None, typer.Option("--latency-bound-ms", help="What a call at batch 1 may take on the minimum device.")
]
BestBy = Annotated[str, typer.Option("--best-by", help="Optimal is best by throughput, latency, price or watt.")]
Markets = Annotated[
    list[str] | None,
    typer.Option(
        "--market",
        help="datacenter, workstation, desktop, laptop, edge; cpu says why none.",
        show_default="first three",
    ),
]
On = Annotated[str | None, typer.Option("--on", help="Also the largest resolution for the target on this device.")]
Dtype = Annotated[str | None, typer.Option(help="fp32 (TF32 off), tf32, fp16, bf16, int8.", show_default="the model's")]
Rebatch = Annotated[bool, typer.Option("--rebatch", help="Size a copy with a dynamic batch where it is fixed.")]
Devices = Annotated[Path | None, typer.Option(help="CSV with devices and prices of your own.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object (docs/json.md) instead of tables.")]


def requirements(
    model: ModelPath = None,
    *,
    runs: Runs = None,
    results: Results = None,
    batch: Batch = None,
    resolution: Resolution = None,
    sequence: Sequence = None,
    target_fps: TargetFps = None,
    target_latency_ms: TargetLatency = None,
    target_throughput: TargetThroughput = None,
    latency_bound_ms: Bound = None,
    best_by: BestBy = "throughput",
    markets: Markets = None,
    on: On = None,
    dtype: Dtype = None,
    rebatch: Rebatch = False,
    devices: Devices = None,
    as_json: AsJson = False,
) -> None:
    """Say which device a model needs: minimum, recommended for a target, optimal; with what each answer rests on.

    From the file alone everything is predicted and wide; --run adds what was measured. docs/requirements.md says how.
    """
    from onnxdyno import app as house
    from onnxdyno.reporting import documents, sizing, terminal

    with screen.one_line_errors(as_json=as_json):
        chosen = {} if not markets else {"markets": tuple(markets)}
        found = house.requirements(
            model,
            run_ids=tuple(runs or ()),
            results_uri=results,
            on=on,
            catalogue=catalogue(devices),
            batch=batch,
            resolution=resolution,
            sequence=sequence,
            target_fps=target_fps,
            target_latency_ms=target_latency_ms,
            target_throughput=target_throughput,
            latency_bound_ms=latency_bound_ms,
            best_by=best_by,
            dtype=dtype,
            rebatch=rebatch,
            **chosen,
        )
        answers = _answers(found)
        if as_json:
            screen.write(documents.dumps(sizing.requirements_document(answers)))
        else:
            screen.show(terminal.sized(answers))


def _answers(found: "Sized") -> "Answers":
    """What is shown of them."""
    from onnxdyno.reporting import sizing

    return sizing.Answers(
        name=found.loads.name,
        sources=found.loads.sources,
        dtype=found.dtype,
        tiers=found.tiers,
        instance=found.instance,
        cost=found.cost,
        resolution=found.resolution,
        measured_here=found.measured_here,
    )
