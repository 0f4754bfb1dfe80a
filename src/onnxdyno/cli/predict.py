"""`onnxdyno predict`: latency on other devices from a node profile."""

from pathlib import Path
from typing import Annotated

import typer

from onnxdyno.cli import screen
from onnxdyno.cli.files import catalogue, read_bytes

Profile = Annotated[
    Path, typer.Option("--profile", help="CSV with columns kind,flops,bytes,latency_ms: a line per node of one run.")
]
Source = Annotated[str, typer.Option("--from", help="Device that the profile was measured on: id, name or NVML name.")]
Targets = Annotated[list[str], typer.Option("--to", help="Device to predict for; give it as often as you like.")]
Dtype = Annotated[str, typer.Option(help="What contractions ran in: fp32 (TF32 off), tf32, fp16, bf16, int8.")]
Devices = Annotated[
    Path | None, typer.Option(help="CSV with devices of your own (docs/prediction.md).", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object (docs/json.md) instead of a table.")]


def predict(
    *,
    profile: Profile,
    source: Source,
    targets: Targets,
    dtype: Dtype = "fp32",
    devices: Devices = None,
    as_json: AsJson = False,
) -> None:
    """Predict a model's latency on other devices from its node profile on one, with 90 % intervals.

    Only the total of the model is predicted. docs/prediction.md says how, and how well it does.
    """
    from onnxdyno.analysis import prediction
    from onnxdyno.reporting import documents, predictions, terminal

    with screen.one_line_errors(as_json=as_json):
        nodes = prediction.read_profile(str(profile), read_bytes("--profile", profile))
        found = prediction.predict(nodes, source, targets, dtype=dtype, catalogue=catalogue(devices))
        if as_json:
            screen.write(documents.dumps(predictions.predict_document(found, profile.name, len(nodes))))
        else:
            screen.show(terminal.sheet(predictions.predictions_grid(found, profile.name)))
            for text in dict.fromkeys(note for each in found for note in (each.reason, *each.notes) if note):
                screen.write(f"  {text}")
