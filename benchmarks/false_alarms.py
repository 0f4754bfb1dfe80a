"""How often a clean run is called anything but clean: `PYTHONPATH=tests python -m benchmarks.false_alarms [REPEATS]`.

**Synthetic**: 1,000 runs of three launches on each clean machine of tests/simulated.py, through the real loop with its
stop rules, on a core of which interrupts take 0.5 %. An alarm is a run that does not end `ok`. Beside them one machine
with noise of ± 15 % that no budget of seconds averages out; there `noisy` and `unconverged` are true and no alarms.

**Real**: `onnxdyno bench` of three small models, in turn, REPEATS times each (default 20; about 12 s a run). A run is
*clean* by this rule, which was fixed before the first was looked at: between its start and its end, the CPU time of all
other processes on all cores together (busy time of /proc/stat less that of the bench and all its children, by their
rusage, and of this script), plus the time that the hypervisor took (`steal`), plus 20 ms for the grain of
/proc/stat, is less than 1 % of the run's wall time. Clocks do not enter: a fall of the clock must be found by the tool.
An alarm is a clean run with a point that ends other than `ok`, or `unconverged` for lack of budget. Runs that are not
clean are shown, and prove nothing either way.

Aim: at most 2 %. Shares have 95 % Wilson intervals: 0 of 20 says no more than "below 16 %", 0 of 190 "below 2 %".
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

import numpy as np
import onnx

from benchmarks.neighbours import others_s, spent
from onnxdyno.domain.outcomes import WORST_FIRST
from simulated import CLEAN, WIDE, Machine, timed_launches

ROOT = Path(__file__).parents[1]
LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
MODELS = (
    (LIGHT / "light_squeezenet.onnx", ()),
    (LIGHT / "light_shufflenet.onnx", ()),
    (ROOT / "tests/cases/unet_multiple_of_8.onnx", ("--batch", "1", "--resolution", "256x256")),
)
RUNS = 1_000
LAUNCHES = 3
OTHERS_SHARE = 0.01
GRAIN_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How one real run ended: the states of its points, and what others had of the machine, relative to wall time."""

    states: tuple[str, ...]
    others: float

    @property
    def is_clean(self) -> bool:
        """By the rule above."""
        return self.others < OTHERS_SHARE

    @property
    def is_alarm(self) -> bool:
        """Something was said to be wrong."""
        return not set(self.states) <= {"ok", "unconverged", "not_applicable"}


def main(repeats: int) -> None:
    print(f"Synthetic: {RUNS:,} runs of {LAUNCHES} launches each; alarms are runs that are not `ok`.\n")
    for machine, true in (*((each, {"ok"}) for each in CLEAN), (WIDE, {"ok", "noisy", "unconverged"})):
        alarms = synthetic(machine, true)
        print(f"  {machine.name:<28} {shown(sum(alarms.values()), RUNS)}  {told(alarms)}", flush=True)
    print(f"\nReal: {repeats} runs a model; others on the machine: least, median, most (% of one core).\n")
    runs: dict[str, list[Ended]] = {path.stem: [] for path, _ in MODELS}
    for _ in range(repeats):
        for path, options in MODELS:
            runs[path.stem].append(real(path, options))
    for name, ended in runs.items():
        show(name, ended)
    if repeats:
        show("all", [each for ended in runs.values() for each in ended])


def synthetic(machine: Machine, true: Set[str]) -> Counter[str]:
    """State -> how many runs ended in it, where that is none of the true ones."""
    found = timed_launches(machine, np.random.default_rng(11), runs=RUNS, launches=LAUNCHES)
    worst = (next(state for state in WORST_FIRST if state in {each.state for each in run}) for run in found)
    return Counter(state.value for state in worst if state.value not in true)


def real(path: Path, options: Sequence[str]) -> Ended:
    """One bench, with what the host counted meanwhile."""
    command = [sys.executable, "-m", "onnxdyno.cli", "bench", str(path), "--json", "--budget", "10", *options]
    before = spent()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    after = spent()
    return Ended(
        states=tuple(point["state"] for point in json.loads(done.stdout)["points"]),
        others=(others_s(before, after) + GRAIN_S) / (after.wall_s - before.wall_s),
    )


def show(name: str, ended: Sequence[Ended]) -> None:
    """One line: clean runs and their alarms; runs that were not clean beside them."""
    if not ended:
        return
    clean, unclean = ([each for each in ended if each.is_clean is is_clean] for is_clean in (True, False))
    alarms = [each for each in clean if each.is_alarm]
    others = sorted(100 * each.others for each in ended)
    spread = f"{others[0]:.1f} {others[len(others) // 2]:.1f} {others[-1]:.1f}"
    states = Counter(state for each in alarms for state in each.states)
    print(f"  {name:<28} {shown(len(alarms), len(clean))}  others {spread}  {told(states)}", end="")
    print(f"  not clean: {len(unclean)}, of which told {sum(each.is_alarm for each in unclean)}", flush=True)


def shown(alarms: int, runs: int) -> str:
    """`  3 of 1,000 =  0.3 % (0.1 to 0.9)`."""
    if not runs:
        return "no clean run"
    low, high = wilson(alarms, runs)
    return f"{alarms:>3} of {runs:>5,} = {100 * alarms / runs:4.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def told(states: Counter[str]) -> str:
    return " ".join(f"{state} {count}" for state, count in states.most_common())


def wilson(hits: int, runs: int, z: float = 1.959964) -> tuple[float, float]:
    """Score interval of a share (E. B. Wilson, 1927, JASA 22:209)."""
    share, scale = hits / runs, 1 + z * z / runs
    middle = (share + z * z / (2 * runs)) / scale
    reach = z * sqrt(share * (1 - share) / runs + z * z / (4 * runs * runs)) / scale
    return max(0.0, middle - reach), min(1.0, middle + reach)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
