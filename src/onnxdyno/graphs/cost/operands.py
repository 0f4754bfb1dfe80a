"""One node with all that is known of its operands: what every formula is given."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from onnx import AttributeProto, NodeProto

from onnxdyno.graphs.cost.values import NotCounted, Value


@dataclass(slots=True, kw_only=True)
class Operands:
    """A node, its inputs (None where left out) and its outputs. Asking for what is not known raises `NotCounted`."""

    node: NodeProto
    inputs: Sequence[Value | None]
    outputs: Sequence[Value | None]
    attributes: dict[str, AttributeProto]

    def has(self, place: int) -> bool:
        """Whether input number `place` is given."""
        return place < len(self.inputs) and self.inputs[place] is not None

    def makes(self, place: int) -> bool:
        """Whether output number `place` is asked for."""
        return place < len(self.node.output) and bool(self.node.output[place])

    def shape(self, place: int) -> tuple[int, ...]:
        """Sizes of an input."""
        return _whole(self.inputs[place] if place < len(self.inputs) else None, "input", place)

    def made(self, place: int = 0) -> tuple[int, ...]:
        """Sizes of an output."""
        return _whole(self.outputs[place] if place < len(self.outputs) else None, "output", place)

    def elements(self, place: int = 0) -> int:
        """Number of elements of an input."""
        return prod(self.shape(place))

    def made_elements(self, place: int = 0) -> int:
        """Number of elements of an output."""
        return prod(self.made(place))

    def integer(self, name: str, default: int = 0) -> int:
        """An integer attribute."""
        return int(self.attributes[name].i) if name in self.attributes else default

    def integers(self, name: str) -> tuple[int, ...] | None:
        """An attribute that lists integers, or None."""
        return tuple(int(i) for i in self.attributes[name].ints) if name in self.attributes else None

    def text(self, name: str, default: str = "") -> str:
        """A text attribute."""
        return self.attributes[name].s.decode("utf-8", "replace") if name in self.attributes else default

    def known(self, place: int) -> tuple[int, ...]:
        """Elements of a small integer input."""
        value = self.inputs[place] if place < len(self.inputs) else None
        if value is None or value.known is None:
            raise NotCounted(f"the elements of input {place} depend on data")
        return tuple(int(element) for element in value.known.reshape(-1))


Formula = Callable[[Operands], int]
"""FLOPs of one execution. Raises `NotCounted`."""


def attributes_of(node: NodeProto) -> dict[str, AttributeProto]:
    """Attributes by name."""
    return {attribute.name: attribute for attribute in node.attribute}


def at(sizes: Sequence[int], dimension: int) -> int:
    """One size. Raises `NotCounted` if the tensor has no such dimension."""
    if not -len(sizes) <= dimension < len(sizes):
        raise NotCounted(f"a tensor of rank {len(sizes)} has no dimension {dimension}")
    return sizes[dimension]


def _whole(value: Value | None, what: str, place: int) -> tuple[int, ...]:
    if value is None:
        raise NotCounted(f"{what} {place} is missing")
    if value.elements is None or value.shape is None:
        raise NotCounted(value.why_unknown(f"{what} {place}"))
    return tuple(size or 0 for size in value.shape)
