"""How well latency is predicted on a GPU or for a model that was left out: `python benchmarks/prediction.py [FOLDER]`.

FOLDER holds `*per_node*.csv` with columns model, device, kind, flops, bytes, latency_ms (default ../shared/validation).
Rows are never split at random: the GPU that is predicted is in neither fit nor calibration, or the model family is in
neither. `--fit` writes the numbers that the package ships; `--dtype` says what contractions ran in. Seconds.
"""

import argparse
import csv
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from math import comb, exp, log
from pathlib import Path
from statistics import fmean, median

import numpy as np

from onnxdyno.analysis import prediction as package
from onnxdyno.analysis.prediction import Calibration, Prediction, ProfileNode, predict, predict_from, predict_memory
from onnxdyno.analysis.prediction.calibration import PRIOR, to_document
from onnxdyno.analysis.prediction.ceilings import Ceilings, ceilings, peak
from onnxdyno.analysis.prediction.fitting import MeasuredProfile, fit
from onnxdyno.analysis.prediction.leaving_out import calibrate, log_error
from onnxdyno.analysis.prediction.physics import columns
from onnxdyno.hardware.lookup import Catalogue, shipped
from onnxdyno.hardware.records import Accelerator

FOLDER = Path(__file__).parents[2] / "shared" / "validation"
SHIPPED = Path(package.__file__).parent / "calibration.json"
SOURCE = (
    "fitted by benchmarks/prediction.py --fit to neusight_per_node_latency_fp32_torch21.csv: per-node latencies of "
    "NeuSight (Lee et al., ASPLOS 2025, github.com/sitar-lab/NeuSight, MIT licence)"
)
Nodes = tuple[ProfileNode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Profiles by model and device id; ceilings and records of the devices."""

    profiles: dict[tuple[str, str], Nodes]
    devices: dict[str, Accelerator]
    at: dict[str, Ceilings]
    dtype: str

    def measured(self, *, without_device: str = "", without_family: str = "") -> list[MeasuredProfile]:
        """Profiles as the fit takes them, some left out."""
        return [
            MeasuredProfile(model=model, device_id=device, nodes=columns(nodes))
            for (model, device), nodes in self.profiles.items()
            if device != without_device and family(model) != without_family
        ]

    def total_ns(self, model: str, device: str) -> float:
        """What was measured."""
        return sum(node.latency_ns or 0.0 for node in self.profiles[model, device])

    def cases(self) -> Iterator[tuple[str, str, str]]:
        """(model, source, target) of every ordered pair of devices that both ran the model."""
        for (model, source), (other, target) in permutations(self.profiles, 2):
            if model == other:
                yield model, source, target


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One prediction beside its measurement; `is_covered` None where the method states no interval."""

    model: str
    source: str
    target: str
    predicted_ns: float
    measured_ns: float
    is_covered: bool | None = None
    width: float | None = None

    @property
    def error(self) -> float:
        """|predicted / measured - 1|."""
        return abs(self.predicted_ns / self.measured_ns - 1)


def family(model: str) -> str:
    """`bert_large` of `bert_large-inf-512-16`: other batches of a model are not another model."""
    return model.split("-", maxsplit=1)[0]


def read(folder: Path, dtype: str) -> Data:
    """Every per-node file of the folder; devices that the catalogue does not know end the run."""
    known = shipped()
    profiles: dict[tuple[str, str], list[ProfileNode]] = {}
    devices: dict[str, Accelerator] = {}
    for path in sorted(folder.glob("*per_node*.csv")):
        with path.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                device = known.find(row["device"])
                if not isinstance(device, Accelerator):
                    sys.exit(f"{path.name}: {device.id} is not a GPU")
                devices[device.id] = device
                profiles.setdefault((row["model"], device.id), []).append(
                    ProfileNode(
                        kind=row["kind"],
                        flops=float(row["flops"]),
                        bytes=float(row["bytes"]),
                        latency_ns=1e6 * float(row["latency_ms"]),
                    )
                )
    at = {each: found for each, device in devices.items() if (found := ceilings(device, dtype, known)) is not None}
    if not profiles or len(at) < len(devices):
        sys.exit(f"{folder}: no *per_node*.csv there, or a device without a known {dtype} peak")
    return Data(profiles={key: tuple(nodes) for key, nodes in profiles.items()}, devices=devices, at=at, dtype=dtype)


def ours(data: Data, *, hidden: bool = False, profiled: bool = True) -> list[Case]:
    """By a calibration without the target GPU. `hidden`: its sustained rates are taken away as well."""
    found = []
    for target in data.devices:
        known = _without_sustained(shipped(), target) if hidden else shipped()
        calibration = calibrate(data.measured(without_device=target), data.at, data.devices)
        found += [
            _case(data, case, known, calibration, profiled=profiled) for case in data.cases() if case[2] == target
        ]
    return found


def ours_from_all(data: Data) -> list[Case]:
    """From the profiles of all other GPUs together; one case per model and target."""
    found = []
    for target in data.devices:
        calibration = calibrate(data.measured(without_device=target), data.at, data.devices)
        for model in dict.fromkeys(model for model, device in data.profiles if device == target):
            profiles = {at: nodes for (of, at), nodes in data.profiles.items() if of == model and at != target}
            if profiles:
                pinned = predict_from(profiles, [target], dtype=data.dtype, calibration=calibration)[0]
                found.append(_beside(pinned, (model, "all others", target), data.total_ns(model, target)))
    return found


def ours_by_model(data: Data) -> list[Case]:
    """By a calibration without any profile of the model's family."""
    found = []
    for each in dict.fromkeys(family(model) for model, _ in data.profiles):
        calibration = calibrate(data.measured(without_family=each), data.at, data.devices)
        found += [_case(data, case, shipped(), calibration) for case in data.cases() if family(case[0]) == each]
    return found


def _without_sustained(known: Catalogue, device: str) -> Catalogue:
    return replace(known, sustained=tuple(each for each in known.sustained if each.accelerator_id != device))


def _case(
    data: Data, case: tuple[str, str, str], known: Catalogue, calibration: Calibration, *, profiled: bool = True
) -> Case:
    model, source, target = case
    found = predict(
        data.profiles[model, source],
        source if profiled else None,
        [target],
        dtype=data.dtype,
        catalogue=known,
        calibration=calibration,
    )[0]
    return _beside(found, case, data.total_ns(model, target))


def _beside(found: Prediction, case: tuple[str, str, str], measured_ns: float) -> Case:
    if found.latency_ns is None or found.low_ns is None or found.high_ns is None:
        sys.exit(f"{case}: nothing was predicted: {found.reason}")
    model, source, target = case
    return Case(
        model=model,
        source=source,
        target=target,
        predicted_ns=found.latency_ns,
        measured_ns=measured_ns,
        is_covered=found.low_ns <= measured_ns <= found.high_ns,
        width=found.high_ns / found.latency_ns,
    )


def baseline(data: Data, guess: Callable[[str, str, str], float]) -> list[Case]:
    """A method that states no interval."""
    return [
        Case(
            model=model,
            source=source,
            target=target,
            predicted_ns=guess(model, source, target),
            measured_ns=data.total_ns(model, target),
        )
        for model, source, target in data.cases()
    ]


def baselines(data: Data) -> dict[str, list[Case]]:
    """What a person would do on the back of an envelope, with datasheet peaks."""
    flops = {each: peak(device, data.dtype) or 1.0 for each, device in data.devices.items()}
    moved = {each: device.memory_bytes_per_s for each, device in data.devices.items()}

    def by_flops(model: str, source: str, target: str) -> float:
        return data.total_ns(model, source) * flops[source] / flops[target]

    def by_bandwidth(model: str, source: str, target: str) -> float:
        return data.total_ns(model, source) * moved[source] / moved[target]

    def by_roofline(model: str, source: str, target: str) -> float:
        nodes = data.profiles[model, source]
        return sum(max(node.flops / flops[target], node.bytes / moved[target]) for node in nodes) * 1e9

    return {
        "FLOP ratio": baseline(data, by_flops),
        "bandwidth ratio": baseline(data, by_bandwidth),
        "plain roofline": baseline(data, by_roofline),
    }


def one_scalar(data: Data) -> list[Case]:
    """Target = source × the mean ratio of the other families on this pair: it needs the target GPU's measurements."""

    def guess(model: str, source: str, target: str) -> float:
        ratios = [
            log(data.total_ns(other, target) / data.total_ns(other, source))
            for other, here, there in data.cases()
            if (here, there) == (source, target) and family(other) != family(model)
        ]
        return data.total_ns(model, source) * exp(fmean(ratios))

    return baseline(data, guess)


def clopper_pearson(hits: int, n: int) -> tuple[float, float]:
    """The exact 95 % interval of a share (Clopper & Pearson 1934), by bisection of the binomial distribution."""

    def tail(p: float, ranks: range) -> float:
        return sum(comb(n, k) * p**k * (1 - p) ** (n - k) for k in ranks)

    def solve(is_below: Callable[[float], bool]) -> float:
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if is_below(middle) else (low, middle)
        return low

    low = solve(lambda p: tail(p, range(hits, n + 1)) < 0.025) if hits else 0.0
    high = solve(lambda p: tail(p, range(hits + 1)) > 0.025) if hits < n else 1.0
    return low, high


def order(cases: Sequence[Case]) -> str:
    """Spearman's rank correlation over targets where 8 or more devices ran a model, else pairs of targets in order."""
    groups: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.model, case.source), []).append(case)
    ranked = [_spearman(group) for group in groups.values() if len(group) >= 7]  # the source is the eighth
    if ranked:
        return f"{fmean(ranked):.2f} Spearman"
    pairs = [pair for group in groups.values() for pair in combinations(group, 2)]
    right = sum((a.predicted_ns < b.predicted_ns) == (a.measured_ns < b.measured_ns) for a, b in pairs)
    return f"{right}/{len(pairs)}"


def _spearman(group: Sequence[Case]) -> float:
    ranks = [
        np.argsort(np.argsort(values)) for values in zip(*((c.predicted_ns, c.measured_ns) for c in group), strict=True)
    ]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def line(name: str, cases: Sequence[Case], devices: Sequence[str]) -> str:
    """One row of the table."""
    errors = [case.error for case in cases]
    cells = [name, f"{100 * fmean(errors):.1f} %", f"{100 * median(errors):.1f} %", f"{100 * max(errors):.0f} %"]
    for device in devices:
        own = [case.error for case in cases if case.target == device]
        cells.append(f"{100 * fmean(own):.1f} %" if own else "–")
    known = [case.is_covered for case in cases if case.is_covered is not None]
    if known:
        low, high = clopper_pearson(sum(known), len(known))
        cells.append(f"{sum(known)}/{len(known)} = {100 * fmean(known):.0f} % [{100 * low:.0f}, {100 * high:.0f}]")
        cells.append(f"×/÷ {median(case.width or 1.0 for case in cases):.2f}")
    else:
        cells += ["–", "–"]
    return "| " + " | ".join([*cells, order(cases)]) + " |"


def header(devices: Sequence[str]) -> str:
    """The head of both tables."""
    titles = ["method", "MAPE", "median", "worst", *devices, "90 % interval held", "interval", "order"]
    return "| " + " | ".join(titles) + " |\n|" + "---|" * len(titles)


def by_target(cases: Sequence[Case], devices: Sequence[str]) -> str:
    """How many intervals held on each GPU: rows of one share its errors, so the pooled binomial interval flatters."""
    counts = []
    for device in devices:
        own = [case for case in cases if case.target == device]
        counts.append(f"{device} {sum(bool(case.is_covered) for case in own)}/{len(own)}")
    return ", ".join(counts)


def memory(folder: Path) -> str:
    """Peaks that were reported for one model on two GPUs: is the other's within the upper bound, by more than -5 %?"""
    path = folder / "ort_stable_diffusion_latency_memory.csv"
    if not path.is_file():
        return "no reports in the folder"
    with path.open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["engine"].startswith("onnxruntime")]
    held, ratios = [], []
    for here, there in permutations(rows, 2):
        if here["batch"] == there["batch"] and here["gpu"] != there["gpu"]:
            measured, wanted = (1e6 * float(row["second_run_peak_memory_mb"]) for row in (here, there))
            found = predict_memory(
                "v100-pcie-32gb", weights_bytes=2_130_000_000, activation_bytes=0, measured_bytes=round(measured)
            )
            held.append(found.high_bytes >= 0.95 * wanted and found.low_bytes <= wanted)
            ratios.append(found.high_bytes / wanted)
    return f"{sum(held)}/{len(held)} intervals held; upper bound over reported: {min(ratios):.2f} to {max(ratios):.2f}"


def nested(data: Data) -> str:
    """Whether hyper-parameters that are chosen without the held-out GPU do as well as those that the package has."""
    choices = [
        (gpus, replace(PRIOR, wave_flop_per_unit=PRIOR.wave_flop_per_unit * wave, floor_transfer=floor))
        for gpus in (1.0, 3.0, 10.0)
        for wave in (0.5, 1.0, 2.0)
        for floor in (0.0, 0.5, 1.0)
    ]
    default, chosen, best = [], [], [[] for _ in choices]  # type: tuple[list[float], list[float], list[list[float]]]
    for target in data.devices:
        others = [each for each in data.devices if each != target]
        inner = [fmean(_errors(data, others, choice)) for choice in choices]
        picked = choices[int(np.argmin(inner))]
        chosen += _target_errors(data, list(data.devices), target, picked)
        default += _target_errors(data, list(data.devices), target, (3.0, PRIOR))
        for at, choice in enumerate(choices):
            best[at] += _target_errors(data, list(data.devices), target, choice)
    means = [fmean(each) for each in best]
    return (
        f"{len(choices)} settings of prior weight, wave and floor sharing: MAPE {100 * min(means):.1f} to "
        f"{100 * max(means):.1f} %. The package's: {100 * fmean(default):.1f} %. "
        f"Chosen anew without each held-out GPU: {100 * fmean(chosen):.1f} %."
    )


Choice = tuple[float, Calibration]


def _errors(data: Data, devices: Sequence[str], choice: Choice) -> list[float]:
    return [error for target in devices for error in _target_errors(data, devices, target, choice)]


def _target_errors(data: Data, devices: Sequence[str], target: str, choice: Choice) -> list[float]:
    """Errors at `target` by a fit to the other `devices` alone."""
    measured = [each for each in data.measured() if each.device_id in devices]
    gpus, prior = choice
    fitted = fit([each for each in measured if each.device_id != target], data.at, prior=prior, prior_gpus=gpus)
    return [
        abs(exp(log_error(source, there, at=data.at, calibration=fitted)) - 1)
        for source, there in permutations(measured, 2)
        if there.device_id == target and source.model == there.model
    ]


def report(data: Data, folder: Path) -> None:
    """Both tables and the nested check."""
    devices = list(data.devices)
    count = len(list(data.cases()))
    print(
        f"{len(data.profiles)} profiles of {len({m for m, _ in data.profiles})} models on {len(devices)} GPUs: ", end=""
    )
    print(f"{count} cases (model, source, target). Errors are of the total latency of a model.\n")
    print("Leave one GPU out (columns: the target)\n")
    print(header(devices))
    found = ours(data)
    print(line("onnxdyno", found, devices))
    print(line("onnxdyno, from all other GPUs", ours_from_all(data), devices))
    print(line("onnxdyno, target's sustained rates hidden", ours(data, hidden=True), devices))
    print(line("onnxdyno, no profile at all", ours(data, profiled=False), devices))
    for name, cases in baselines(data).items():
        print(line(name, cases, devices))
    print(f"\nIntervals that held, by target left out: {by_target(found, devices)}.")
    print("\nLeave one model family out\n")
    print(header(devices))
    print(line("onnxdyno", ours_by_model(data), devices))
    print(line("one scalar per pair of GPUs", one_scalar(data), devices))
    print(f"\nNested check: {nested(data)}")
    print(f"\nMemory, stable diffusion on ONNX Runtime, RTX 3060 and V100: {memory(folder)}")


def main() -> None:
    """Print the tables, or write the shipped numbers."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--dtype", default="fp32")
    parser.add_argument("--fit", action="store_true", help="write calibration.json into the package")
    asked = parser.parse_args()
    data = read(asked.folder, asked.dtype)
    if asked.fit:
        found = replace(calibrate(data.measured(), data.at, data.devices), source=SOURCE)
        SHIPPED.write_text(json.dumps(to_document(found), indent=2) + "\n", encoding="utf-8")
        print(f"wrote {SHIPPED.name}")
    report(data, asked.folder)


if __name__ == "__main__":
    main()
