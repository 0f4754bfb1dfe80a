"""Plots of the documentation: files of their own, drawn with the parts of the project's pages."""

from collections.abc import Iterable
from pathlib import Path

from onnxdyno.reporting import svg

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
STYLE = """
svg { font: 12px system-ui, sans-serif; background: #fff }
.axis-title, .named { fill: #333 } .tick { fill: #666; font-size: 11px }
.grid { stroke: #ddd } .truth { stroke: #333 } .band { fill: #e7f3ea }
.curve { fill: none; stroke-width: 2 } .ours, .ours-five { stroke: #1a7f4b } .naive, .pooled { stroke: #c4472b }
.ours-five, .pooled { stroke-dasharray: 5 3 }
.hit, .miss { stroke: #888; stroke-width: 2 } .miss { stroke: #c4472b }
.sample { fill: #1a7f4b } .cold { fill: #c4472b } .other { fill: #888 } .window { stroke: #bbb }
"""


def across(y: float, label: str, left: float, right: float) -> list[str]:
    """A grid line with its label."""
    return [svg.line(left, y, right, y, "grid"), svg.text(left - 6, y + 4, label, "tick", "end")]


def spot(x: float, y: float, css: str, radius: float = 2.0) -> str:
    """A small dot without a tooltip."""
    return f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" class="{css}"/>'


def write(name: str, width: float, height: float, title: str, parts: Iterable[str]) -> Path:
    """A file of its own in docs/images: `svg.picture` is for a page that has the styles."""
    size = f'viewBox="-8 0 {width + 8:g} {height:g}" width="{width + 8:g}" height="{height:g}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
    body = "\n".join(parts)
    IMAGES.mkdir(parents=True, exist_ok=True)
    path = IMAGES / f"{name}.svg"
    path.write_text(f"{head}\n<title>{title}</title>\n<style>{STYLE}</style>\n{body}\n</svg>\n", encoding="utf-8")
    return path
