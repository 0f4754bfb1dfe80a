"""Where a total differs from what was published, group by group: `python -m benchmarks.cost_differences`.

For each model that differs by about 2 % or more (docs/cost.md has the tables). Products (convolutions and matrix
products) are taken in the order of the file; what others say of a group is from the paper's own table (Inception v1) or
counted by hand from the paper's description (ShuffleNet, the head of YOLOv8n). Numbers are millions of
multiply-accumulates; operators between the products are half their FLOPs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.cost_check import PUBLISHED, counted, path_of
from onnxdyno.domain.cost import Cost, NodeCost

PRODUCTS = ("Conv", "Gemm", "MatMul")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One group: what we count and what others say, in millions of multiply-accumulates."""

    name: str
    ours: float
    published: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A model's groups. `of` names the group of a product by its place among the products and by its node."""

    total: float
    groups: tuple[tuple[str, float], ...]
    of: Callable[[int, NodeCost], int]
    remainder: str = "the published total, against the sum of its groups"


def rows(difference: Difference, cost: Cost) -> tuple[Row, ...]:
    """The groups, then what lies between the products, then what the published total leaves over."""
    ours = [0.0] * len(difference.groups)
    between, place = 0.0, 0
    for node in cost.nodes:
        mmacs = (node.flops or 0) / 2e6
        if node.op_type in PRODUCTS and node.runs:
            ours[difference.of(place, node)] += mmacs
            place += 1
        else:
            between += mmacs
    named = [
        Row(name=name, ours=own, published=said) for (name, said), own in zip(difference.groups, ours, strict=True)
    ]
    left = difference.total - sum(said for _, said in difference.groups)
    rest = Row(name="between the products: pooling, normalisation, activations, sums", ours=between, published=0.0)
    over = [Row(name=difference.remainder, ours=0.0, published=left)] if abs(left) > 1e-9 else []
    return (*named, rest, *over)


def table(found: Sequence[Row]) -> str:
    """Markdown; the last line is the sum of the others."""
    every = [*found, Row(name="all", ours=sum(r.ours for r in found), published=sum(r.published for r in found))]
    lines = [
        f"| {r.name} | {r.ours:,.2f} | {r.published:,.2f} | {round(r.ours - r.published, 2) + 0.0:+,.2f} |"
        for r in every
    ]
    return "\n".join(("| group | ours | published | differs |", "|---|---:|---:|---:|", *lines))


def in_order(counts: Sequence[int]) -> Callable[[int, NodeCost], int]:
    """Groups of so many products each, in the order of the file."""
    ends = [sum(counts[: i + 1]) for i in range(len(counts))]
    return lambda place, _: next(i for i, end in enumerate(ends) if place < end)


def shuffle_unit(into: int, bottleneck: int, out: int, size_in: int, size: int, *, first_groups: int = 4) -> float:
    """Two 1 × 1 convolutions of 4 groups around a depthwise 3 × 3."""
    first = into * bottleneck // first_groups * size_in**2
    return (first + bottleneck * 9 * size**2 + bottleneck * out // 4 * size**2) / 1e6


def class_branch(classes: int) -> float:
    """YOLOv8n's three branches at 320 pixels: two 3 × 3 convolutions of max(64, classes) channels, then 1 × 1."""
    wide = max(64, classes)
    scales = ((64, 40), (128, 20), (256, 10))
    return sum((9 * into * wide + 9 * wide * wide + wide * classes) * size**2 for into, size in scales) / 1e6


YOLO_AT_640 = 8.7e3
"""Ultralytics' figure for YOLOv8n at 640, millions of FLOPs, 80 classes; a quarter of it at 320."""

DIFFERENCES = {
    "light_inception_v1.onnx": Difference(
        total=1_502,
        groups=(
            ("first convolution, 7 × 7", 34),
            ("convolutions 1 × 1 and 3 × 3", 360),
            *zip("3a 3b 4a 4b 4c 4d 4e 5a 5b".split(), (128, 304, 73, 88, 100, 119, 170, 54, 71), strict=True),
            ("linear", 1),
        ),
        of=in_order((1, 2, *(6,) * 9, 1)),
    ),
    "light_shufflenet.onnx": Difference(
        total=133,
        groups=(
            ("first convolution", 24 * 3 * 9 * 112**2 / 1e6),
            ("stage 2, first unit", shuffle_unit(24, 68, 272 - 24, 56, 28, first_groups=1)),
            ("stage 2, 3 units", 3 * shuffle_unit(272, 68, 272, 28, 28)),
            ("stage 3, first unit", shuffle_unit(272, 136, 544 - 272, 28, 14)),
            ("stage 3, 7 units", 7 * shuffle_unit(544, 136, 544, 14, 14)),
            ("stage 4, first unit", shuffle_unit(544, 272, 1088 - 544, 14, 7)),
            ("stage 4, 3 units", 3 * shuffle_unit(1088, 272, 1088, 7, 7)),
            ("linear", 1.088),
        ),
        of=in_order((1, 3, 9, 3, 21, 3, 9, 1)),
    ),
    "nudenet-320n.onnx": Difference(
        total=1_000,
        groups=(
            ("branches for 18 classes (80 published)", class_branch(80)),
            ("all other convolutions", YOLO_AT_640 / 4 / 2 - class_branch(80)),
        ),
        of=lambda _, node: 0 if ".cv3" in node.name or "/cv3." in node.name else 1,
        remainder="2.0 GFLOPs, said of this file, against 8.7 / 4 of the published network",
    ),
}


def main() -> None:
    """A table a model."""
    for published in PUBLISHED:
        path = path_of(published.file)
        if published.file in DIFFERENCES and path is not None:
            print(f"**{published.name}**, millions of multiply-accumulates\n")
            print(table(rows(DIFFERENCES[published.file], counted(published, path))), end="\n\n")


if __name__ == "__main__":
    main()
