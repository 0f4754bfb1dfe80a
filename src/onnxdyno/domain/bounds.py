"""What the time of a node or a model follows."""

from enum import StrEnum


class Bound(StrEnum):
    """What the time follows. `balanced`: two of them lie within each other's intervals.

    `copy`: between host and device. `fallback`: on the CPU in a GPU's session. `occupancy`: too little parallel work.
    """

    COMPUTE = "compute"
    MEMORY = "memory"
    LAUNCH = "launch"
    COPY = "copy"
    FALLBACK = "fallback"
    OCCUPANCY = "occupancy"
    BALANCED = "balanced"
