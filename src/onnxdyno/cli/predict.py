"""`onnxdyno predict`: latency on other devices, from a file alone, from stored runs, or from a node profile."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onnxdyno.cli import screen
from onnxdyno.cli.files import catalogue, read_bytes
from onnxdyno.domain.errors import UsageError

if TYPE_CHECKING:
    from onnxdyno.analysis.prediction import Prediction
    from onnxdyno.hardware.lookup import Catalogue

Targets = Annotated[list[str], typer.Option("--to", help="Device to predict for; give it as often as you like.")]
ModelPath = Annotated[Path | None, typer.Argument(help="An .onnx file; nothing of it is run.", show_default=False)]
Runs = Annotated[list[str] | None, typer.Option("--run", help="Stored run of this model; several pin the prediction.")]
Results = Annotated[str | None, typer.Option("--results", help="The store with these runs.", show_default=False)]
Batch = Annotated[int | None, typer.Option(help="Items in one call.", show_default="1")]
Resolution = Annotated[str | None, typer.Option(help="HEIGHTxWIDTH, for example 640x640.")]
Sequence_ = Annotated[int | None, typer.Option("--sequence", help="Sequence length.")]
Rebatch = Annotated[bool, typer.Option("--rebatch", help="Take a copy with a dynamic batch where it is fixed.")]
Profiles = Annotated[
    list[Path] | None,
    typer.Option("--profile", help="CSV with columns kind,flops,bytes,latency_ms: a line per node of one run."),
]
Sources = Annotated[
    list[str] | None,
    typer.Option("--from", help="Device that the profile was measured on: id, name or NVML name. Again for each."),
]
Dtype = Annotated[
    str | None,
    typer.Option(help="What contractions ran in: fp32 (TF32 off), tf32, fp16, bf16, int8.", show_default="the model's"),
]
Devices = Annotated[
    Path | None, typer.Option(help="CSV with devices of your own (docs/prediction.md).", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object (docs/json.md) instead of a table.")]


def predict(
    model: ModelPath = None,
    *,
    targets: Targets,
    runs: Runs = None,
    results: Results = None,
    batch: Batch = None,
    resolution: Resolution = None,
    sequence: Sequence_ = None,
    rebatch: Rebatch = False,
    profiles: Profiles = None,
    sources: Sources = None,
    dtype: Dtype = None,
    devices: Devices = None,
    as_json: AsJson = False,
) -> None:
    """Predict a model's latency on other devices, with 90 % intervals: from its file, stored runs, or a node profile.

    Only the total of the model is predicted. docs/prediction.md says how, and how well it does.
    """
    from onnxdyno.reporting import documents, predictions, terminal

    with screen.one_line_errors(as_json=as_json):
        known = catalogue(devices)
        if profiles or sources:
            if model is not None or runs:
                raise UsageError("a profile, and a model or a run: give either --profile with --from, or the others.")
            if rebatch or any(each is not None for each in (batch, resolution, sequence, results)):
                raise UsageError(
                    "a profile is of one size: leave --batch, --resolution, --sequence… out with --profile."
                )
            name, origin, nodes, found = _of_profiles(profiles or [], sources or [], targets, dtype or "fp32", known)
        else:
            name, origin, nodes, found = _of_model(
                model,
                targets,
                run_ids=tuple(runs or ()),
                results_uri=results,
                catalogue=known,
                batch=batch,
                resolution=resolution,
                sequence=sequence,
                rebatch=rebatch,
                dtype=dtype,
            )
        if as_json:
            screen.write(documents.dumps(predictions.predict_document(found, name, nodes)))
        else:
            screen.show(terminal.sheet(predictions.predictions_grid(found, name, origin)))
            for text in dict.fromkeys(note for each in found for note in (each.reason, *each.notes) if note):
                screen.write(f"  {text}")


_Told = tuple[str, str, int, "Sequence[Prediction]"]
"""What was read, where it is from, how many nodes it has, and what follows."""


def _of_profiles(
    profiles: Sequence[Path], sources: Sequence[str], targets: Sequence[str], dtype: str, known: "Catalogue"
) -> _Told:
    from onnxdyno.analysis import prediction

    if len(profiles) != len(set(sources)) or len(profiles) != len(sources):
        raise UsageError(
            f"{len(profiles)} profiles and {len(set(sources))} devices that they are from. "
            "Give one --from for each --profile, in the same order."
        )
    read = [prediction.read_profile(str(path), read_bytes("--profile", path)) for path in profiles]
    found = prediction.predict_from(dict(zip(sources, read, strict=True)), targets, dtype=dtype, catalogue=known)
    return ", ".join(path.name for path in profiles), f"measured on {', '.join(sources)}", len(read[0]), found


def _of_model(model: Path | None, targets: Sequence[str], **asked: Any) -> _Told:
    from onnxdyno import app as house
    from onnxdyno.domain.axes import describe

    loads, found = house.predictions(model, targets, **asked)
    at = describe(loads.wanted.sizes)
    return loads.name, f"at {at}, from {', '.join(loads.sources)}", len(loads.wanted.nodes), found
