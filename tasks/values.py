"""How values cross Prefect: claims as JSON flow parameters, large values to tasks without being walked through."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TypeVar, cast

from prefect.utilities.annotations import quote
from pydantic import TypeAdapter, ValidationError

from onnxdyno.domain.claims import Claim
from onnxdyno.domain.errors import UsageError

T = TypeVar("T")

_CLAIM = TypeAdapter(Claim)


def whole(value: T) -> T:
    """Hand `value` to a task as it is.

    Prefect visits every element of an argument in search of futures: seconds for a run's raw samples.
    """
    return cast("T", quote(value))


def claim_as_parameter(claim: Claim) -> dict[str, Any]:
    """The claim as a JSON object, for a run that starts elsewhere."""
    return asdict(claim)


def claim_from_parameter(parameter: Mapping[str, Any]) -> Claim:
    """The inverse of `claim_as_parameter`. Raises `UsageError` naming the field that is wrong."""
    try:
        return _CLAIM.validate_python(dict(parameter))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "claim"
        message = (
            f"flow parameter `claim`: {field}: {first['msg']}. It is made by watch_registry; "
            "leave it out to let the flow claim the model itself."
        )
        raise UsageError(message) from None
