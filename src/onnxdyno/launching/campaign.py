"""One run from the probe to the profile. Every finished piece is kept at once; what is already kept is reused."""

from collections.abc import Iterator
from dataclasses import replace

from onnxdyno.domain.assignments import Pass, Ran, Turn
from onnxdyno.domain.axes import describe
from onnxdyno.domain.outcomes import Explored, PointState, Probe, Profile, Skipped
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.launching.beside import read_beside
from onnxdyno.launching.cold import read_levels
from onnxdyno.launching.driving import Answer
from onnxdyno.launching.launches import time_points
from onnxdyno.launching.memories import read_memories
from onnxdyno.launching.minimum import find_minimum
from onnxdyno.launching.passes import Bench, Outside, Passes
from onnxdyno.launching.probing import History, find_base
from onnxdyno.launching.telemetry import occupied
from onnxdyno.planning import has_default_sweeps, rebase

SEARCH_SHARE = 0.05
"""Share of the budget in which sizes beside the base are looked for."""
EXPLORE_SHARE = 0.1
"""Share of the budget in which sizes that are worth measuring are looked for."""


def carry_out(bench: Bench, outside: Outside) -> BenchmarkRun:
    """Probe, memory, timing, profile. Raises `ModelError`, `InfrastructureError`; an interrupt loses no kept piece."""
    passes = Passes(bench=bench, outside=outside)
    strangers = occupied(passes.plan.device, passes.plan.points, passes.plan.protocol, outside.sampler)
    probe = Probe(point=None, tried=()) if strangers else _probe(passes)
    excluded = (*strangers, *_excluded(passes))
    run = BenchmarkRun(
        origin=bench.origin,
        signature=bench.signature,
        plan=passes.plan,
        probe=probe,
        launches=(),
        outcomes=(*probe.tried, *excluded),
        memory=(),
        profiles=(),
    )
    if probe.point is not None:
        run = _measured(passes, probe, run)
    passes.tell("measured", step=passes.total - passes.done)
    return run


def _measured(passes: Passes, probe: Probe, run: BenchmarkRun) -> BenchmarkRun:
    """The run with what the passes after the probe gave."""
    assert probe.point is not None  # noqa: S101  asked by the caller
    passes.plan = rebase(passes.plan, passes.bench.signature, probe.point, probe.constraints, probe.explored)
    plan = passes.plan
    explored_ns = {each.sizes: each.call_ns for each in probe.explored if each.call_ns is not None}
    passes.calls_ns |= {point: explored_ns[point.sizes] for point in plan.points if point.sizes in explored_ns}
    passes.total = 2 + len(plan.points) * plan.spec.launches + sum(p.is_plain for p in plan.points) * plan.spec.memory
    memory, failed = read_memories(passes) if plan.spec.memory else ((), ())
    hopeless = {skip.point for skip in failed}
    beside = read_beside(passes, memory)
    cold = tuple(read_levels(passes)) if plan.spec.cold else ()
    timings, timed = time_points(passes, [point for point in plan.points if point not in hopeless])
    span_s = passes.launches_span_s()
    profiles = _profile(passes) if plan.spec.profile and plan.base in timed else ()
    usual = next((reading for reading in memory if reading.point == plan.base), None)
    minima = find_minimum(passes, usual) if plan.spec.true_minimum and plan.base in timed else ()
    return replace(
        run,
        plan=plan,
        launches=tuple(timings.readings),
        outcomes=(*_excluded(passes), *failed, *timings.outcomes),
        memory=memory,
        profiles=profiles,
        cold=cold,
        beside=beside,
        minima=minima,
        launches_span_s=span_s,
    )


def _excluded(passes: Passes) -> tuple[Skipped, ...]:
    return tuple(
        Skipped(point=each.point, launch=None, state=PointState.NOT_APPLICABLE, reason=each.reason)
        for each in passes.plan.excluded
    )


def _probe(passes: Passes) -> Probe:
    """The first candidate that runs; also the first idea of what a call and a session cost."""
    passes.tell("looking for sizes that run", step=0)
    kept = passes.pieces.probe()
    if kept is not None:
        passes.tell("sizes known from before", step=1)
        return kept
    signature = passes.bench.signature
    is_searching = has_default_sweeps(passes.plan, signature)

    def ask(history: History, explored: tuple[Explored, ...]) -> Iterator[Answer]:
        return _probed(passes, history, explored, is_searching=is_searching)

    found = find_base(ask, passes.plan, signature, is_searching=is_searching, clock=passes.outside.clock)
    passes.load_ns = found.load_ns or passes.load_ns
    passes.pieces.keep_probe(found.probe)
    passes.tell("sizes found", step=1)
    return found.probe


def _probed(
    passes: Passes, history: History, explored: tuple[Explored, ...], *, is_searching: bool
) -> Iterator[Answer]:
    """Answers of one probing process; what a call takes counts at once, for how long the next may be silent.

    Only default sweeps are moved to the sizes found, so only for them it matters what other sizes do.
    """
    budget_ns = passes.plan.spec.budget_s * 1e9
    turns = tuple(Turn(point=point, budget_ns=round(budget_ns * SEARCH_SHARE)) for point in passes.plan.base_candidates)
    asked = replace(
        passes.assignment(Pass.PROBE, turns, 0),
        signature=passes.bench.signature if is_searching else None,
        history=history,
        spec=passes.plan.spec if is_searching else None,
        explored=explored,
        explore_ns=round(budget_ns * EXPLORE_SHARE),
    )
    for answer in passes.answers(asked):
        if isinstance(answer, Ran):
            passes.calls_ns[answer.point] = answer.run_ns
        elif isinstance(answer, Explored):
            passes.tell(f"exploring {describe(answer.sizes)}", step=0)
        yield answer


def _profile(passes: Passes) -> tuple[Profile, ...]:
    passes.tell("profile", step=0)
    answers = list(passes.answered(Pass.PROFILE, (Turn(point=passes.plan.base, budget_ns=0),), 0))
    passes.tell("profile", step=1)
    return tuple(answer for answer in answers if isinstance(answer, Profile))
