"""Records as JSON text for the columns that hold what was asked and planned."""

import dataclasses
import json
import math
from typing import Any


def finite(value: float | None) -> float | None:
    """The number, or None for NaN and infinities."""
    return value if value is not None and math.isfinite(value) else None


def json_text(value: Any) -> str:
    """Valid JSON of records, tuples and numbers: no NaN, no Infinity, the same text for the same value."""
    return json.dumps(_jsonable(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _jsonable(value: Any) -> Any:
    """Records as objects in the order of their fields; a float that is not finite becomes null."""
    match value:
        case float():
            return finite(value)
        case list() | tuple():
            return [_jsonable(each) for each in value]
        case dict():
            return {str(name): _jsonable(each) for name, each in value.items()}
        case _ if dataclasses.is_dataclass(value):
            return {field.name: _jsonable(getattr(value, field.name)) for field in dataclasses.fields(value)}
        case _:
            return value
