"""What can go wrong, drawn as one tree; the class says who acts.

OnnxdynoError
├── UsageError              the person: fix the command or the spec               exit 2
│   ├── SpecError
│   └── RebatchRefused
├── ModelError              quarantine the model; carries a `ModelState`          exit 3
├── InfrastructureError     retry if `retryable`: a store, a network, a disk      exit 4
│   ├── StoreError
│   │   ├── ObjectMissing
│   │   └── ObjectChanged
│   └── DeviceBusy
├── DeviceError             the asked device is not there or not usable           exit 5
├── CatalogueError          a data file of this package is damaged: reinstall     exit 1
├── NothingMeasured         every point was skipped; the reasons are in the rows  exit 6
└── PointError              skip the point; becomes a `Skipped`, never reaches a person
"""

from functools import partial
from typing import Any, ClassVar

from onnxdyno.domain.outcomes import ModelState, PointState


class OnnxdynoError(Exception):
    """Base of every expected failure; its text is one clear line for a person."""

    exit_code: ClassVar[int] = 1


class UsageError(OnnxdynoError):
    """The command, a flow parameter or an environment variable is wrong."""

    exit_code = 2


class SpecError(UsageError):
    """A spec (sidecar, file or parameters) is wrong."""


class RebatchRefused(UsageError):
    """A copy with a dynamic batch was asked for, and it cannot be made or not be proven equal."""


class ModelError(OnnxdynoError):
    """This model can never be measured as it is: quarantine it."""

    exit_code = 3

    def __init__(
        self,
        state: ModelState,
        reason: str,
        remedy: str,
        missing: tuple[str, ...] = (),
        *,
        is_of_runtime: bool = False,
    ) -> None:
        """`missing` names the external files, relative to the model, whose arrival makes a new try worthwhile.

        `is_of_runtime`: the runtime refused it, so another version of it may not; else these bytes never will do.
        """
        super().__init__(state, reason, remedy, missing)
        self.state = state
        self.reason = reason
        self.remedy = remedy
        self.missing = missing
        self.is_of_runtime = is_of_runtime

    def __reduce__(self) -> tuple[Any, ...]:
        """Keeps its keyword when an orchestrator carries it to another process."""
        again = partial(ModelError, is_of_runtime=self.is_of_runtime)
        return again, (self.state, self.reason, self.remedy, self.missing)

    def __str__(self) -> str:
        """One line: state, what was found, what to do."""
        return f"{self.state.value}: {self.reason} {self.remedy}"


class InfrastructureError(OnnxdynoError):
    """Something outside failed; `retryable` says whether the same call may succeed later."""

    exit_code = 4

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.retryable = retryable


class StoreError(InfrastructureError):
    """An object store refused or did not answer."""


class ObjectMissing(StoreError):
    """No object under that key."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=False)


class ObjectChanged(StoreError):
    """The object was replaced between listing and reading."""


class DeviceBusy(InfrastructureError):
    """Another run holds the device."""


class DeviceError(OnnxdynoError):
    """The asked device does not exist here or cannot be used."""

    exit_code = 5


class CatalogueError(OnnxdynoError):
    """A row of the catalogue of devices is wrong; the message names file, line and column."""


class NothingMeasured(OnnxdynoError):
    """Every point of a run was skipped; results were still written."""

    exit_code = 6


class PointError(OnnxdynoError):
    """One point cannot run; `state` says why. `is_lasting`: nor can anything else in this process, which must end."""

    def __init__(self, state: PointState, reason: str, remedy: str = "", *, is_lasting: bool = False) -> None:
        super().__init__(state, reason, remedy)
        self.state = state
        self.reason = reason
        self.remedy = remedy
        self.is_lasting = is_lasting

    def __str__(self) -> str:
        """One line: state and reason."""
        return f"{self.state.value}: {self.reason} {self.remedy}".strip()
