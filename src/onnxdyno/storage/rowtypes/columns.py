"""Columns that several tables have, with their documentation."""

from typing import Annotated

RunId = Annotated[str, "The run; joins every table."]
DeviceClass = Annotated[
    str, "Hardware × execution provider × major versions. Hive partition: in the path, not in the file."
]
ModelSha256 = Annotated[str, "Identity of the model, external data included."]
Batch = Annotated[int | None, "Size of the batch axis there; null for a model without one."]
HeightPx = Annotated[int | None, "Size of the height axis there; null for a model without one."]
WidthPx = Annotated[int | None, "Size of the width axis there; null for a model without one."]
Sequence = Annotated[int | None, "Size of the sequence axis there; null for a model without one."]
