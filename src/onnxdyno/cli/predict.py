"""`onnxdyno predict`: latency on other devices from a node profile."""

from pathlib import Path
from typing import Annotated

import typer

from onnxdyno.cli import screen
from onnxdyno.cli.files import catalogue, read_bytes
from onnxdyno.domain.errors import UsageError

Profiles = Annotated[
    list[Path],
    typer.Option("--profile", help="CSV with columns kind,flops,bytes,latency_ms: a line per node of one run."),
]
Sources = Annotated[
    list[str],
    typer.Option("--from", help="Device that the profile was measured on: id, name or NVML name. Again for each."),
]
Targets = Annotated[list[str], typer.Option("--to", help="Device to predict for; give it as often as you like.")]
Dtype = Annotated[str, typer.Option(help="What contractions ran in: fp32 (TF32 off), tf32, fp16, bf16, int8.")]
Devices = Annotated[
    Path | None, typer.Option(help="CSV with devices of your own (docs/prediction.md).", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object (docs/json.md) instead of a table.")]


def predict(
    *,
    profiles: Profiles,
    sources: Sources,
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
        if len(profiles) != len(set(sources)) or len(profiles) != len(sources):
            raise UsageError(
                f"{len(profiles)} profiles and {len(set(sources))} devices that they are from. "
                "Give one --from for each --profile, in the same order."
            )
        read = [prediction.read_profile(str(path), read_bytes("--profile", path)) for path in profiles]
        by_device = dict(zip(sources, read, strict=True))
        found = prediction.predict_from(by_device, targets, dtype=dtype, catalogue=catalogue(devices))
        name = ", ".join(path.name for path in profiles)
        if as_json:
            screen.write(documents.dumps(predictions.predict_document(found, name, len(read[0]))))
        else:
            screen.show(terminal.sheet(predictions.predictions_grid(found, name, sources)))
            for text in dict.fromkeys(note for each in found for note in (each.reason, *each.notes) if note):
                screen.write(f"  {text}")
