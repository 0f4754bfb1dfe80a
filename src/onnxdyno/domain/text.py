"""Foreign text (names, messages, paths) made safe to print: models and object keys are hostile."""


def printable(text: str, most: int = 120) -> str:
    """`text` on one line without control, format or surrogate characters (escaped), cut to `most` characters."""
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut)
