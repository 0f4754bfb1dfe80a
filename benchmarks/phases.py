"""Where the wall time of a bench goes: `python -m benchmarks.phases OUT.json bench MODEL [options of onnxdyno]`.

The command line as it is, with a recorder around what starts its measuring processes: when each was started, when each
event came, when it was reaped. Nothing is added inside a measuring process. OUT.json gets the phases, in seconds.
"""

import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onnxdyno import wire
from onnxdyno.adapters.processes import ProcessLauncher
from onnxdyno.domain.devices import Device
from onnxdyno.domain.outcomes import Explored, LaunchReading, Measured
from onnxdyno.ports import Exit, Launch

Phases = dict[str, dict[str, float]]
COLUMNS = ("processes", "start", "session", "work", "end", "total")


@dataclass(slots=True, kw_only=True)
class Seen:
    """One measuring process: its assignment, and what it said when, on the clock of `time.perf_counter`."""

    assignment: bytes
    started_s: float
    lines: list[tuple[float, bytes]] = field(default_factory=list)
    reaped_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedLaunch:
    """A launch that passes everything through and notes when it came."""

    launch: Launch
    seen: Seen

    def events(self, silence_s: Callable[[], float]) -> Generator[bytes, None, None]:
        """As the launch's."""
        with closing(self.launch.events(silence_s)) as lines:
            for line in lines:
                self.seen.lines.append((time.perf_counter(), line))
                yield line

    def stop(self) -> Exit:
        """As the launch's."""
        ended = self.launch.stop()
        self.seen.reaped_s = time.perf_counter()
        return ended


def main() -> None:
    """Run the command line, then write the phases."""
    began_s = time.perf_counter()
    out, sys.argv = Path(sys.argv[1]), ["onnxdyno", *sys.argv[2:]]
    seen: list[Seen] = []
    start = ProcessLauncher.start

    def watched(launcher: ProcessLauncher, device: Device, assignment: bytes) -> WatchedLaunch:
        seen.append(Seen(assignment=assignment, started_s=time.perf_counter()))
        return WatchedLaunch(launch=start(launcher, device, assignment), seen=seen[-1])

    ProcessLauncher.start = watched  # type: ignore[method-assign, assignment]  # passes everything through
    from onnxdyno import cli

    try:
        cli.main()
    finally:
        out.write_text(json.dumps(phases(seen, began_s, time.perf_counter())), encoding="utf-8")


def phases(seen: list[Seen], began_s: float, ended_s: float) -> Phases:
    """Seconds by pass and step; then those of the timing pass and of exploring by what was done; then outside."""
    found: Phases = {}
    detail: dict[str, float] = defaultdict(float)
    for each in seen:
        kind = wire.decode_assignment(each.assignment).kind
        row = found.setdefault(kind.value, dict.fromkeys(COLUMNS, 0.0))
        for name, value in _steps(each).items():
            row[name] += value
        for name, value in _within(each):
            detail[name] += value
    inside = sum(each.reaped_s - each.started_s for each in seen)
    first = seen[0].started_s if seen else ended_s
    last = seen[-1].reaped_s if seen else ended_s
    outside = {"before the first process": first - began_s, "after the last": ended_s - last}
    outside["between processes"] = last - first - inside
    return {**found, "detail": dict(detail), "outside": outside, "all": {"total": ended_s - began_s}}


def _steps(seen: Seen) -> dict[str, float]:
    """`start`: the interpreter, imports and reading, all that is not yet the session; `work`: from then to the last
    event; `end`: until it was reaped."""
    first_s = seen.lines[0][0] if seen.lines else seen.reaped_s
    last_s = seen.lines[-1][0] if seen.lines else seen.reaped_s
    session_s, loaded_s = 0.0, first_s
    for at_s, line in seen.lines:
        event = wire.decode(line)
        if isinstance(event, LaunchReading):
            session_s, loaded_s = event.session_ns / 1e9, at_s
            break
    return {
        "processes": 1,
        "start": loaded_s - session_s - seen.started_s,
        "session": session_s,
        "work": last_s - loaded_s,
        "end": seen.reaped_s - last_s,
        "total": seen.reaped_s - seen.started_s,
    }


def _within(seen: Seen) -> Iterator[tuple[str, float]]:
    before_s: float | None = None
    for at_s, line in seen.lines:
        event = wire.decode(line)
        if isinstance(event, Measured):
            steady = sum(span.wall_ns for span in event.spans) / 1e9
            warm_up = sum(event.warm_up_ns) / 1e9
            yield "timing: steady samples", steady
            yield "timing: warm-up", warm_up
            if before_s is not None:
                yield "timing: inputs, binding, first run, outputs", at_s - before_s - steady - warm_up
        if isinstance(event, Explored) and before_s is not None:
            yield "probe: exploring", at_s - before_s
        before_s = at_s


def table(found: Phases) -> str:
    """The phases as text."""
    lines = [f"{'pass':10s}" + "".join(f"{name:>10s}" for name in COLUMNS) + "   seconds"]
    for name, row in found.items():
        if name not in ("detail", "outside", "all"):
            cells = [f"{row['processes']:10.0f}", *(f"{row[column]:10.2f}" for column in COLUMNS[1:])]
            lines.append(f"{name:10s}" + "".join(cells))
    for name, value in {**found["detail"], **found["outside"], "all": found["all"]["total"]}.items():
        lines.append(f"{name:50s}{value:10.2f}")
    return "\n".join(lines)


def read(path: Path) -> Phases:
    """What `main` wrote."""
    found: Any = json.loads(path.read_text(encoding="utf-8"))
    return {str(name): {str(key): float(value) for key, value in row.items()} for name, row in found.items()}


if __name__ == "__main__":
    main()
