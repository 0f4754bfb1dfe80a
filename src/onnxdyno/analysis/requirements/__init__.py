"""Requirement tiers: which single device of the catalogue a model needs, and what each answer rests on.

docs/requirements.md has how a tier is reached, with an example by hand.
"""

from collections.abc import Sequence
from dataclasses import replace

from onnxdyno.analysis.requirements.choosing import abstention, minimum, optimal, recommended
from onnxdyno.analysis.requirements.records import (
    CPU,
    MARKETS,
    USABLE_SHARE,
    Aim,
    Goal,
    Load,
    MeasuredOn,
    Standing,
    Target,
)
from onnxdyno.analysis.requirements.standings import candidates, standings
from onnxdyno.domain.findings import Tier

__all__ = [
    "MARKETS",
    "USABLE_SHARE",
    "Aim",
    "Goal",
    "Load",
    "MeasuredOn",
    "Standing",
    "Target",
    "candidates",
    "standings",
    "tiers",
]

_NAMES = ("minimum", "recommended", "optimal")
_NO_CPU = (
    "a CPU gets no tier: how well one CPU predicts another was never checked; a run on it says what was measured there"
)


def tiers(base: Load, wanted: Load, goal: Goal) -> tuple[Tier, ...]:
    """Minimum at the base (batch 1, or the model's fixed batch), recommended and optimal at the wanted point."""
    if set(goal.markets) == {CPU}:
        return (*without(_NAMES[:1], _NO_CPU, base), *without(_NAMES[1:], _NO_CPU, wanted))
    devices = candidates(goal)
    at_wanted = standings(wanted, devices, goal)
    least = minimum(base, standings(base, devices, goal), goal)
    advised = recommended(wanted, at_wanted, goal)
    found = (least, _said_if_same(least, advised), optimal(wanted, at_wanted, goal))
    return tuple(_with_cpus_left_out(each) for each in found) if CPU in goal.markets else found


def _with_cpus_left_out(tier: Tier) -> Tier:
    return replace(tier, reason=f"{tier.reason}; {_NO_CPU}")


def _said_if_same(least: Tier, advised: Tier) -> Tier:
    if advised.device_id is None or advised.device_id != least.device_id:
        return advised
    return replace(advised, reason=f"the minimum suffices: the same device; {advised.reason}")


def without(names: Sequence[str], reason: str, load: Load) -> tuple[Tier, ...]:
    """Abstentions of these tiers, with one reason."""
    return tuple(abstention(name, load, (), reason) for name in names)
