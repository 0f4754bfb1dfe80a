"""The parent's side of a copy with a dynamic batch: one process, confined like every other that runs a model."""

from pathlib import Path

from onnxdyno.domain.assignments import Assignment, Copied, Pass, Turn
from onnxdyno.domain.errors import RebatchRefused
from onnxdyno.domain.outcomes import Skipped
from onnxdyno.domain.plan import BenchmarkPlan
from onnxdyno.launching.driving import Limits, drive
from onnxdyno.planning import session_of
from onnxdyno.ports import Launcher

MOST_S = 600.0
"""A copy is made once for a model: minutes are fine, for ever is not."""


def copy_with_batch(
    plan: BenchmarkPlan, target: Path, *, launcher: Launcher, memory_limit_bytes: int | None = None
) -> str:
    """Write a proven copy of the plan's model to `target`; returns what was shown. Raises `RebatchRefused`."""
    assignment = Assignment(
        kind=Pass.COPY,
        launch=0,
        launches=1,
        model_path=str(plan.model.path),
        device=plan.device,
        threads=plan.threads,
        recipes=(),
        turns=(Turn(point=plan.base, budget_ns=0),),
        seed=plan.spec.seed,
        protocol=plan.protocol,
        memory_limit_bytes=memory_limit_bytes,
        copy_to=str(target),
        recipe=session_of(plan.spec),
    )
    for answer in drive(launcher, assignment, Limits(load_s=MOST_S, turn_s=lambda _: MOST_S)):
        match answer:
            case Copied():
                return answer.how
            case Skipped():
                raise RebatchRefused(f"rebatch: {answer.reason} Leave --rebatch out.")
            case _:
                pass
    raise RebatchRefused("rebatch: the measuring process said nothing. Leave --rebatch out.")
