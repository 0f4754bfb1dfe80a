"""Write docs/models.md: `python -m benchmarks.models_table [--budget S] [--launches N] [--only NAME ...]`.

Every real model of `real_models.py` is fetched (pinned sha256), inspected and benchmarked without a spec or hints by
the command line itself; what it prints as JSON becomes a row. Run it on a quiet machine: half an hour by default.
Exit status 1 if the base of a model is not `ok`.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.real_models import REAL_MODELS, RealModel, cache_folder, fetch
from onnxdyno.domain.text import printable
from onnxdyno.graphs.signature import read_signature

PAGE = Path(__file__).resolve().parent.parent / "docs" / "models.md"
Document = dict[str, Any]


def said(*arguments: str) -> Document:
    """What `onnxdyno ... --json` prints. Exit 3 and 6 print a document too."""
    command = [sys.executable, "-m", "onnxdyno.cli", *arguments, "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        document: Document = json.loads(ended.stdout)
    except json.JSONDecodeError:
        sys.exit(f"onnxdyno {' '.join(arguments)}: exit {ended.returncode}: {ended.stderr.strip()[-300:]}")
    return document


def cell(text: str) -> str:
    """Text of a model as one Markdown cell."""
    return printable(text, 400).replace("|", "\\|").replace("<", "&lt;").replace("[", "\\[")


def axes_of(document: Document) -> str:
    """`batch · height · width`; a fixed one with its size."""
    named = [
        f"{axis['name']}" + (f" ({axis['role']})" if axis["role"] != axis["name"] else "")
        + (f" = {axis['size']}" if axis["size"] is not None else "")
        for axis in document["axes"]
    ]  # fmt: skip
    return " · ".join(named) or "none"


def sizes_of(sizes: dict[str, int]) -> str:
    """`batch 1, height 224`."""
    return ", ".join(f"{name} {size}" for name, size in sizes.items()) or "fixed"


def points_of(document: Document) -> str:
    """How many points carry numbers, by state, and the others with their reasons."""
    points = document["points"]
    measured = Counter(point["state"] for point in points if point["p50_ms"] is not None)
    left = Counter((point["state"], reason_of(point)) for point in points if point["p50_ms"] is None)
    parts = [f"{count} {state}" for state, count in measured.most_common()]
    parts += [f"{count} {state}: {reason}" for (state, reason), count in left.most_common()]
    return "; ".join(parts) or "none"


def reason_of(point: Document) -> str:
    """The first sentence of a reason; numbers differ from point to point and are left out."""
    sentence = re.split(r"[.;] |, too", str(point["reason"] or ""), maxsplit=1)[0]
    return printable(re.sub(r"\d[\d.,]*", "…", sentence.removeprefix("not tried: ").rstrip(".")), 90)


def base_of(document: Document) -> Document:
    """The point that everything is swept around: batch 1, or the model's own."""
    points: list[Document] = document["points"]
    return next((point for point in points if point["axes"] == document["base"]), points[0])


def row(model: RealModel, path: Path, budget: float, launches: int) -> tuple[str, bool]:
    """One model as a Markdown row, and whether its base is ok."""
    inspected = said("inspect", str(path))
    measured = said("bench", str(path), "--budget", str(budget), "--launches", str(launches))
    recipes = "; ".join(f"{recipe.name}: {recipe.why}" for recipe in read_signature(path).recipes)
    flops, first = inspected["cost"]["flops"], base_of(measured)
    gflops = "unknown" if flops is None else f"{flops / 1e9:.3g} at {sizes_of(inspected['cost']['axes'])}"
    median = "none" if first["p50_ms"] is None else f"{first['p50_ms']:.3g} ms ({first['state']})"
    cells = [
        f"{model.name.removesuffix('.onnx')} ({model.package.requirement}, {model.package.licence})",
        axes_of(inspected),
        sizes_of(first["axes"]),
        "; ".join(measured.get("constraints") or ()) or "none found",
        recipes,
        points_of(measured),
        median,
        gflops,
        f"{inspected['model']['parameters'] / 1e6:.2f} M {inspected['model']['precision']}",
    ]
    return "| " + " | ".join(cell(each) for each in cells) + " |", first["state"] == "ok"


HEAD = """# Models: how they are read, and what was found in real ones

## What is read, and how

- **Axes.** Every dimension of every input is followed through the graph (through computed shapes, local functions and
  branches). What the graph does with it says what it is; names come second, position last. Dimensions that must be
  equal are one axis; one name for two roles is taken apart, with a note.
- **Inputs.** Ids lie in the table that they index, masks are ones, lengths and caches agree with their sequence. Before
  a call, every value is held against the model's shapes and relations: a mask that would only broadcast is refused.
- **Sizes.** Up to 14 cheap tries around the first size that runs find multiples, squares, smallest and largest sizes;
  tables of positions set limits without a try. Default sweeps move to what is allowed; what a spec asks is tried as is.
- **A fixed batch stays fixed**, unless `--rebatch` is given: a copy with a dynamic batch is made, proven equal to the
  original item by item (with seeded random weights where a model's own make all items equal), and labelled.
- **Reading runs nothing.** Weights in external files are hashed, since they are part of a model's identity, and not
  otherwise read. Time and memory grow with the number of nodes and not faster, and the peak beyond
  the parsed protobuf stays small: `python benchmarks/reading_speed.py` (docs/cost.md has its numbers).
- **Hostile files** end in one line: `python benchmarks/fuzz_reading.py --minutes 10 tests/cases` mutates models for as
  long as you like.

## Real models

Generated by `python -m benchmarks.models_table`: each model below as `onnxdyno bench MODEL` measures it, without a spec
and without hints, on {device}; {launches} launches, {budget:g} s a model. The files are fetched by
`python benchmarks/real_models.py FOLDER --all` (pinned by sha256) and never leave the machine. 1 MAC = 2 FLOPs.

The table shows what is read (axes, inputs, cost) and what is tried (sizes, points), not how fast a model is: a median
here is one machine's.

| model | axes | base | sizes it takes | inputs | points | median | GFLOPs | parameters |
|---|---|---|---|---|---|---|---|---|
"""


def main() -> int:
    """Write the page; 1 if some model's base is not ok."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=60.0, help="seconds a model (default 60)")
    parser.add_argument("--launches", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="names without .onnx; the page is printed, not written")
    given = parser.parse_args()
    wanted = [m for m in REAL_MODELS if not given.only or m.name.removesuffix(".onnx") in given.only]
    rows, bad = [], []
    with tempfile.TemporaryDirectory() as folder:
        for number, model in enumerate(wanted, start=1):
            print(f"[{number}/{len(wanted)}] {model.name}", file=sys.stderr, flush=True)
            line, is_good = row(model, fetch(model, Path(folder), cache_folder()), given.budget, given.launches)
            rows.append(line)
            if not is_good:
                bad.append(model.name)
    device = next(each for each in said("devices")["devices"] if each["id"] == "cpu")["name"]
    head = HEAD.format(device=cell(device), launches=given.launches, budget=given.budget)
    page = head + "\n".join(rows) + "\n"
    if given.only:
        print(page)
    else:
        PAGE.write_text(page, encoding="utf-8")
        print(f"wrote {PAGE.name}: {len(rows)} models", file=sys.stderr)
    if bad:
        print(f"the base is not ok: {', '.join(bad)}", file=sys.stderr)
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
