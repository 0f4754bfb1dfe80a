"""A plan's share, point by point, inside the measuring process; a bad point becomes `Skipped`, the next one follows."""

from onnxdyno.domain.assignments import Assignment, Done, Pass, Refused, Unusable
from onnxdyno.domain.errors import DeviceError, ModelError
from onnxdyno.execution.ceilings import read_ceilings
from onnxdyno.execution.probing import probe
from onnxdyno.execution.readings import copy, fit_at, profile_at, read_arena_at, read_cold_at, read_memory_at
from onnxdyno.execution.timing import time_turns
from onnxdyno.execution.workshop import ProcessSpent, Workshop

__all__ = ["Workshop", "execute"]


def execute(assignment: Assignment, shop: Workshop) -> None:
    """Work through an assignment; every reading, refusal and skip is emitted, then `Done`.

    Without `Done` where the device fails every later call of this process: another one does the turns that are left.
    """
    try:
        match assignment.kind:
            case Pass.MEMORY:
                read_memory_at(assignment, shop)
            case Pass.PROFILE:
                profile_at(assignment, shop)
            case Pass.PROBE:
                probe(assignment, shop)
            case Pass.TIMING:
                time_turns(assignment, shop)
            case Pass.COLD:
                read_cold_at(assignment, shop)
            case Pass.ARENA:
                read_arena_at(assignment, shop)
            case Pass.FIT:
                fit_at(assignment, shop)
            case Pass.COPY:
                copy(assignment, shop)
            case Pass.CEILINGS:
                read_ceilings(assignment, shop)
    except ProcessSpent:
        return
    except ModelError as error:
        shop.emit(Refused(state=error.state, reason=error.reason, remedy=error.remedy))
    except DeviceError as error:
        shop.emit(Unusable(reason=str(error)))
    shop.emit(Done())
