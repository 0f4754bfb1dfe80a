"""The cold pass, on request: each optimisation level in fresh processes, in turn, within a share of the budget."""

from collections.abc import Iterator

from onnxdyno.domain.assignments import Pass, Turn
from onnxdyno.domain.cold import ColdReading
from onnxdyno.domain.outcomes import Skipped
from onnxdyno.domain.plan import Point
from onnxdyno.domain.sessions import Optimisation, SessionRecipe
from onnxdyno.launching.passes import Passes

SHARE = 0.2
"""Of the budget, after which no further cold process starts: what is asked for with `cold` is worth some of it."""


def read_levels(passes: Passes) -> Iterator[ColdReading]:
    """A reading at the base a level and launch, all levels of a launch before the next. What has no time is left out.

    Those of `all`, what users get, come with every launch too; here its first call is the first of its process.
    """
    plan = passes.plan
    turn = Turn(point=plan.base, budget_ns=0)
    until_ns = passes.outside.clock() + round(plan.spec.budget_s * 1e9 * SHARE)
    for launch in range(1, plan.spec.launches + 1):
        for level in Optimisation:
            if passes.outside.clock() >= until_ns:
                return
            passes.tell(f"cold {level.value} {launch}/{plan.spec.launches}", step=0)
            for answer in passes.answered(Pass.COLD, (turn,), launch, recipe=SessionRecipe(optimisation=level)):
                match answer:
                    case ColdReading():
                        yield answer
                    case Skipped():
                        yield _without(plan.base, level, launch, answer)
                    case _:
                        pass


def _without(point: Point, level: Optimisation, launch: int, skipped: Skipped) -> ColdReading:
    return ColdReading(
        point=point,
        optimisation=level,
        launch=launch,
        session_ns=None,
        first_run_ns=None,
        reason=f"{skipped.state.value}: {skipped.reason}",
    )
