"""The cold pass: how long a fresh process takes to a session and to the first call, at one optimisation level."""

from collections.abc import Callable

from onnxdyno.domain.cold import ColdReading
from onnxdyno.domain.errors import ModelError
from onnxdyno.domain.plan import Point
from onnxdyno.domain.sessions import Optimisation
from onnxdyno.ports import BoundRun, ClockNs, LoadedModel


def read_cold(
    point: Point,
    optimisation: Optimisation,
    launch: int,
    *,
    load: Callable[[], LoadedModel],
    bind: Callable[[LoadedModel], BoundRun],
    clock: ClockNs,
) -> ColdReading:
    """Load, then bind the inputs, which makes the first call. Raises `PointError` if that call fails.

    A level at which the runtime refuses the model is a reading with the reason: at another level it ran.
    """
    try:
        loaded = load()
    except ModelError as error:
        return ColdReading(
            point=point,
            optimisation=optimisation,
            launch=launch,
            session_ns=None,
            first_run_ns=None,
            reason=f"the runtime refuses the model at this level: {error.reason}",
        )
    began_ns = clock()
    bind(loaded)
    return ColdReading(
        point=point,
        optimisation=optimisation,
        launch=launch,
        session_ns=loaded.session_ns,
        first_run_ns=clock() - began_ns,
    )
