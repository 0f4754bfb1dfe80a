"""The parent's side of measuring a device's ceilings: fresh processes over the same micro-models."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from onnxdyno.analysis.ceilings import ceilings_from, lacking, links, merged
from onnxdyno.domain.assignments import Assignment, Pass, Turn
from onnxdyno.domain.ceilings import CeilingKind, CeilingReading, Ceilings, MicroOutcome, fingerprint_sha256
from onnxdyno.domain.devices import Device
from onnxdyno.domain.micros import micros
from onnxdyno.domain.outcomes import Skipped
from onnxdyno.domain.plan import Point, Protocol, Variant
from onnxdyno.domain.runs import Progress
from onnxdyno.launching.driving import Limits, drive
from onnxdyno.launching.telemetry import undisturbed
from onnxdyno.ports import Launcher, Sampler

LAUNCHES = 3
MOST_S = 60.0
"""How long one micro-model may take, its session included."""
LIMITS = Limits(load_s=MOST_S, turn_s=lambda _: MOST_S)


def measure_ceilings(
    device: Device,
    threads: int,
    *,
    cache_bytes: tuple[int, ...],
    runtime_version: str,
    launcher: Launcher,
    memory_limit_bytes: int | None,
    tell: Callable[[Progress], None],
    sampler: Sampler,
    standing: Ceilings | None = None,
) -> Ceilings:
    """Ceilings of one device at one number of threads, over three launches. Raises as `drive` and `undisturbed` do.

    Of those `standing` what is good is kept, and what they lack is measured, with the dispatch that it is told by.
    """
    known = micros(device.kind, cache_bytes)
    entries = standing.entries if standing is not None else ()
    keys = lacking(known, entries)
    places = [at for at, micro in enumerate(known) if micro.key in keys or micro.kind is CeilingKind.DISPATCH]
    launches: list[list[MicroOutcome]] = []
    asked = _assignment(device, threads, cache_bytes, memory_limit_bytes, places)
    for launch in range(1, LAUNCHES + 1):
        answers: list[MicroOutcome] = []
        own = replace(asked, launch=launch)
        for answer in undisturbed(partial(drive, launcher, own, LIMITS), own, sampler):
            if isinstance(answer, CeilingReading | Skipped):
                name = known[places[len(answers)]].name
                answers.append(answer)
                done = (launch - 1) * len(places) + len(answers)
                tell(Progress(done=done, total=LAUNCHES * len(places), text=f"ceilings {launch}/{LAUNCHES}  {name}"))
        launches.append(answers)
    return Ceilings(
        device_id=device.id,
        device_class=device.device_class,
        threads=threads,
        fingerprint_sha256=fingerprint_sha256(device, threads),
        runtime_version=runtime_version,
        entries=merged(entries, (*ceilings_from(known, launches), *links(device.kind)), keys),
    )


def _assignment(
    device: Device, threads: int, cache_bytes: tuple[int, ...], limit_bytes: int | None, places: Sequence[int]
) -> Assignment:
    points = (Point(sizes=(("micro", place),), variant=Variant.DEVICE) for place in places)
    return Assignment(
        kind=Pass.CEILINGS,
        launch=1,
        launches=LAUNCHES,
        model_path="",
        device=device,
        threads=threads,
        recipes=(),
        turns=tuple(Turn(point=point, budget_ns=0) for point in points),
        seed=0,
        protocol=Protocol(),
        memory_limit_bytes=limit_bytes,
        cache_bytes=cache_bytes,
    )
