"""Names for people: model keys are hostile, run names and log lines are not."""

import hashlib
import html
import re
from typing import Any, Final, cast

from prefect.tasks import TaskRunNameCallbackWithParameters

from onnxdyno.app import Pulled
from onnxdyno.domain.claims import Candidate, Claim
from onnxdyno.domain.models import ObjectVersion
from onnxdyno.domain.text import printable

MOST_CHARACTERS: Final = 80


def literal(text: str) -> str:
    """`text` so that a page which renders Markdown and HTML shows it as it is."""
    return re.sub(r"([\\`*_{}\[\]|~])", r"\\\1", html.escape(text))


def artifact_key(kind: str, *identity: str) -> str:
    """A key as Prefect wants it (`a-z0-9-`): readable, and unique to `identity` by a digest of all of it."""
    digest = hashlib.sha256("\0".join(identity).encode("utf-8", "surrogatepass")).hexdigest()[:8]
    slug = re.sub(r"[^a-z0-9]+", "-", identity[0].lower()).strip("-")[-40:].strip("-")
    return "-".join(part for part in (kind, slug, digest) if part)


def named(step: str) -> TaskRunNameCallbackWithParameters:
    """A `task_run_name`: the step and the model it works on, where its parameters name one."""

    def task_run_name(parameters: dict[str, Any]) -> str:
        keys = [key for value in parameters.values() if (key := _model_key(value)) is not None]
        return f"{step} {printable(keys[0], MOST_CHARACTERS)}" if keys else step

    return cast("TaskRunNameCallbackWithParameters", task_run_name)


def _model_key(value: object) -> str | None:
    match value:
        case ObjectVersion(key=key) | Candidate(version=ObjectVersion(key=key)) | Claim(version=ObjectVersion(key=key)):
            return key
        case Pulled(local=local):
            return local.ref.name
        case _:
            return None
