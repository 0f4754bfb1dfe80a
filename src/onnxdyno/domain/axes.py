"""Axes: the named dimensions of a model's inputs that can be varied, and the sizes chosen for them."""

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What a dimension means to the model."""

    BATCH = "batch"
    HEIGHT = "height"
    WIDTH = "width"
    CHANNELS = "channels"
    SEQUENCE = "sequence"
    PAST = "past"
    TIME = "time"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One free (or, for batch/height/width/sequence, fixed) dimension; `size` is None when it is dynamic.

    `name` is the model's own symbol where it has one, else the role, else `<input>:<dimension>`.
    `symbols` are the dimension parameters of the file that this axis stands for.
    """

    name: str
    role: Role
    size: int | None
    symbols: tuple[str, ...] = ()


AxisSizes = tuple[tuple[str, int], ...]
"""Sizes of all axes, fixed ones too, (name, size) sorted by name."""


def axis_sizes(sizes: dict[str, int]) -> AxisSizes:
    """The canonical, hashable form of a mapping from axis name to size."""
    return tuple(sorted(sizes.items()))


def describe(sizes: AxisSizes) -> str:
    """`batch=1 height=224 width=224`, or `fixed` for a model without dynamic axes."""
    return " ".join(f"{name}={size}" for name, size in sizes) or "fixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisRule:
    """What sizes one axis takes, as tries showed: multiples of `multiple` from `least` to `most`, or just `only`.

    None = nothing was found. A size that was never tried may still fail.
    """

    axis: str
    multiple: int = 1
    least: int | None = None
    most: int | None = None
    only: tuple[int, ...] = ()

    def allows(self, size: int) -> bool:
        """Whether a size agrees with what was found."""
        if self.only:
            return size in self.only
        return size % self.multiple == 0 and (self.least or 0) <= size and (self.most is None or size <= self.most)

    def describe(self) -> str:
        """`multiples of 32, at least 64`; empty when any size will do."""
        if self.only:
            return f"only {', '.join(str(size) for size in self.only)}"
        found = [f"multiples of {self.multiple}"] if self.multiple > 1 else []
        found += [f"at least {self.least}"] if self.least is not None and self.least > self.multiple else []
        return ", ".join(found + ([f"at most {self.most}"] if self.most is not None else []))


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """What real tries showed of the sizes that a model takes. `squares`: (height, width) axes that must be equal."""

    rules: tuple[AxisRule, ...] = ()
    squares: tuple[tuple[str, str], ...] = ()
    tries: int = 0

    def rule(self, axis: str) -> AxisRule:
        """What was found of one axis; a rule that allows everything if nothing was."""
        return next((rule for rule in self.rules if rule.axis == axis), AxisRule(axis=axis))

    def describe(self) -> tuple[str, ...]:
        """One line for each finding, for people."""
        lines = [f"{rule.axis}: {text}" for rule in self.rules if (text := rule.describe())]
        return (*lines, *(f"{height} and {width} must be equal" for height, width in self.squares))
