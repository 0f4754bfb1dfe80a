"""A run -> its findings. The one place that puts the parts of the analysis together."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from onnxdyno.analysis.choices import choose
from onnxdyno.analysis.cold import cold_findings
from onnxdyno.analysis.energy import energy_per_call_mj, energy_per_item_mj, telemetry_gaps
from onnxdyno.analysis.fronts import front, knee, operating_points
from onnxdyno.analysis.latency import over_launches, point_finding
from onnxdyno.analysis.memory import memory_findings
from onnxdyno.analysis.nodes import compute_on_cpu, profile_finding
from onnxdyno.analysis.on_device import with_device_times
from onnxdyno.analysis.outputs import differ_unlawfully
from onnxdyno.analysis.requirements.elsewhere import others_of
from onnxdyno.analysis.requirements.of_run import here_of, tiers_of
from onnxdyno.domain.cost import Cost
from onnxdyno.domain.findings import NO_ENERGY, Estimate, Findings, PointFinding
from onnxdyno.domain.outcomes import Flag, Measured, Outcome, PointState, Skipped
from onnxdyno.domain.plan import BenchmarkPlan, Point
from onnxdyno.domain.runs import BenchmarkRun
from onnxdyno.hardware.lookup import shipped


def analyse(run: BenchmarkRun) -> Findings:
    """Pure: the same run gives the same findings."""
    run = _without_fallen_back(run)
    points = _points(run)
    choices = choose(points, run.signature, run.plan)
    by_point = {finding.point: finding for finding in points}
    operating = operating_points(points, run.plan)
    on_front = front(operating)
    sessions = [launch.session_ns for launch in run.launches]
    profiles = tuple(
        profile_finding(profile, by_point.get(profile.point), run.plan.device, work)
        for profile, work in zip(run.profiles, run.work or ((),) * len(run.profiles), strict=True)
    )
    tiers = tiers_of(run, points, profiles, choices.best_batch, shipped())
    return Findings(
        points=points,
        session_ns=over_launches(sessions, run.plan.confidence_of(len(sessions)))
        if sessions
        else Estimate(value=None, reason="no launch got a session"),
        best_batch=choices.best_batch,
        largest_batch=choices.largest_batch,
        largest_resolution=choices.largest_resolution,
        largest_sequence=choices.largest_sequence,
        profiles=profiles,
        tiers=tiers,
        warnings=tuple(_warnings(run, points)),
        front=on_front,
        knee=knee(operating, on_front),
        cold=cold_findings(run, points),
        here=here_of(run, points, choices.best_batch),
        others=others_of(run, points, profiles, tiers, shipped()),
    )


def _without_fallen_back(run: BenchmarkRun) -> BenchmarkRun:
    """No latency of a GPU run counts if its profile shows compute on the CPU; the samples stay in the run."""
    found = (compute_on_cpu(profile, run.plan.device) for profile in run.profiles)
    reason = next((each for each in found if each is not None), None)
    if reason is None:
        return run
    outcomes = (
        Skipped(
            point=outcome.point,
            launch=outcome.launch,
            state=PointState.EP_FALLBACK,
            reason=reason,
            remedy="Export the model with operators that the GPU runs.",
        )
        if isinstance(outcome, Measured)
        else outcome
        for outcome in run.outcomes
    )
    return replace(run, outcomes=tuple(outcomes))


def _points(run: BenchmarkRun) -> tuple[PointFinding, ...]:
    """One finding for each point that was planned, tried or left out, small sizes first within each sweep."""
    measured: dict[Point, list[Measured]] = defaultdict(list)
    skipped: dict[Point, list[Skipped]] = defaultdict(list)
    for outcome in run.outcomes:
        _file(outcome, measured, skipped)
    memory = {reading.point: reading for reading in run.memory}
    reference = _reference(run, measured)
    everything = {*measured, *skipped}
    costs = {cost.sizes: cost for cost in run.costs}
    read = memory_findings(run)
    casts = (Flag.CASTS_INSERTED,) if inserted_casts(run) else ()
    unlawful = {point for point, launches in measured.items() if differ_unlawfully(launches, run.signature)}
    differs = (Flag.OUTPUT_SHAPE_DIFFERS,)
    found = (
        point_finding(
            point,
            measured=sorted(measured[point], key=lambda each: each.launch),
            skipped=skipped[point],
            memory=memory.get(point),
            plan=run.plan,
            reference=reference,
        )
        for point in sorted(everything, key=_in_order)
    )
    on_device = (with_device_times(each, measured[each.point], run.plan.device.kind) for each in found)
    return tuple(
        _marked(
            replace(
                _with_energy(_with_cost(finding, costs.get(finding.point.sizes)), measured[finding.point], run.plan),
                memory=read.get(finding.point),
            ),
            (*casts, *(differs if finding.point in unlawful else ())),
        )
        for finding in on_device
    )


def inserted_casts(run: BenchmarkRun) -> int:
    """Cast nodes that ran beyond those of the file: the runtime computes a part in another precision."""
    own = dict(run.signature.op_types).get("Cast", 0)
    ran = max((sum(node.op_type == "Cast" for node in profile.nodes) for profile in run.profiles), default=0)
    return max(0, ran - own)


def _marked(finding: PointFinding, flags: tuple[Flag, ...]) -> PointFinding:
    if not flags or not finding.state.is_measured:
        return finding
    return replace(finding, flags=tuple(sorted({*finding.flags, *flags})))


def _with_cost(finding: PointFinding, cost: Cost | None) -> PointFinding:
    if cost is None:
        return finding
    return replace(finding, flops=cost.flops, activation_peak_bytes=cost.activation_peak_bytes)


def _with_energy(finding: PointFinding, measured: list[Measured], plan: BenchmarkPlan) -> PointFinding:
    if not measured:
        nothing = replace(NO_ENERGY, reason=finding.p50_ns.reason)
        return replace(finding, energy_per_item_mj=nothing, energy_per_call_mj=nothing)
    confidence = plan.confidence_of(len(measured))
    return replace(
        finding,
        energy_per_item_mj=energy_per_item_mj(measured, finding.items, confidence),
        energy_per_call_mj=energy_per_call_mj(measured, confidence),
    )


def _file(outcome: Outcome, measured: dict[Point, list[Measured]], skipped: dict[Point, list[Skipped]]) -> None:
    match outcome:
        case Measured():
            measured[outcome.point].append(outcome)
        case Skipped():
            skipped[outcome.point].append(outcome)


def _in_order(point: Point) -> tuple[str, int, int, tuple[int, ...]]:
    """Sweeps of sizes first, then other threads and calls in flight."""
    return point.variant, point.threads or 0, point.concurrency, tuple(size for _, size in point.sizes)


def _reference(run: BenchmarkRun, measured: dict[Point, list[Measured]]) -> tuple[str, ...]:
    """What came out at the base point: as measured, else as probed."""
    base = measured.get(run.plan.base)
    return base[0].outputs if base else run.probe.outputs


def _warnings(run: BenchmarkRun, points: Iterable[PointFinding]) -> Iterable[str]:
    flags = {flag for point in points for flag in point.flags}
    if run.plan.model.ref.copy_how is not None:
        yield f"Measured is {run.plan.model.ref.copy_how}"
    yield from run.signature.notes
    if Flag.NON_FINITE in flags:
        yield "Some outputs are NaN or infinite: the time is measured, the result of the model is not usable."
    if Flag.EVENTS_DISAGREE in flags:
        yield "Clock and device events differ at some points: there the host's time is a large part of a call, or more."
    if Flag.BATCH_NOT_SCALED in flags:
        yield "The output does not grow with the batch: no throughput per item is claimed there."
    if Flag.OUTPUT_SHAPE_DIFFERS in flags:
        yield "Outputs of one point differ in shape where the model declares a fixed size: calls do unequal work there."
    if Flag.CFS_THROTTLED in flags:
        yield "A CPU quota of the cgroup held the process back: samples of those moments are left out."
    if casts := inserted_casts(run):
        precision = run.signature.precision
        yield f"The runtime inserted {casts} Cast nodes: part of this {precision} model ran in another type."
    yield from telemetry_gaps(run)
    if run.plan.spec.launches == 1:
        yield "One launch only: no interval can be given."
