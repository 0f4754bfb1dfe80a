"""Numbers as people read them: few digits, no exponent."""

from math import floor, isfinite, log10


def decimals(value: float, significant: int = 4) -> int:
    """How many decimals show this many significant digits."""
    if value == 0 or not isfinite(value):
        return 0
    return max(0, significant - 1 - floor(log10(abs(value))))


def percent(share: float) -> str:
    """`56 %`, for running text; what rounds to nothing and is not is `under 1 %`."""
    return "under 1 %" if 0 < share < 0.005 else f"{100 * share:.0f} %"


def plain(value: float, significant: int = 4) -> str:
    """`35,812`, `12.31`, `20`: significant digits where decimals are needed, whole numbers never cut, no exponent."""
    text = f"{value:,.{decimals(value, significant)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
