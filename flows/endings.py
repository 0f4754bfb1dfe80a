"""How one model's run ended, as a value: what watch_registry counts and a person reads."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from prefect.client.schemas.objects import State
from prefect.states import Failed

from onnxdyno.domain.errors import OnnxdynoError
from onnxdyno.domain.text import printable


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """`status`: `committed` · `quarantined` · `failed` · `started` (elsewhere) · `taken` (by somebody else first).

    `key` is the model's as it is; everything else is safe to print. `exit_code` is the error class's, 0 without error.
    `screen` is a rich renderable of what was measured, None where nothing was.
    """

    key: str
    status: str
    line: str
    exit_code: int = 0
    screen: Any = None
    uris: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What one look at the registry came to. `standing` counts the models that nothing was started for, by status."""

    device_class: str
    endings: tuple[Ending, ...]
    standing: tuple[tuple[str, int], ...]
    left: int = 0

    @property
    def counts(self) -> tuple[tuple[str, int], ...]:
        """(status, models) over all models seen, those left for next time aside."""
        counted = Counter(dict(self.standing))
        counted.update(ending.status for ending in self.endings)
        return tuple(sorted(counted.items()))

    @property
    def exit_code(self) -> int:
        """0, or that of the first model that failed."""
        return next((ending.exit_code for ending in self.endings if ending.exit_code), 0)

    def describe(self) -> str:
        """One line: what is new and how the registry stands."""
        stands = ", ".join(f"{count} {status}" for status, count in self.counts) or "no models"
        later = f", {self.left} left for the next look" if self.left else ""
        news = f"{len(self.endings)} new" if self.endings else "nothing is new"
        return f"{news} on {printable(self.device_class)}: {stands}{later}"


def failed(error: OnnxdynoError) -> State[Any]:
    """The end of a flow by an expected failure: one line, no traceback; whoever called the flow gets `error` raised."""
    return Failed(message=printable(str(error), most=1000), data=error)
