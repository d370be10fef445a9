"""Generated parts of hand-written pages, between markers, and figures beside them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOCS = Path(__file__).resolve().parents[1] / "docs"


def fill(page: str, part: str, text: str, docs: Path = DOCS) -> None:
    """Put text between `<!-- part -->` and `<!-- /part -->` of a page; the rest stays as it is."""
    path = docs / page
    start, end = f"<!-- {part} -->", f"<!-- /{part} -->"
    old = path.read_text(encoding="utf-8")
    if start not in old or end not in old:
        raise ValueError(f"{path} has no part {start} … {end}")
    new = re.sub(f"{re.escape(start)}.*?{re.escape(end)}", lambda _: f"{start}\n{text}\n{end}", old, flags=re.DOTALL)
    path.write_text(new, encoding="utf-8")


def draw(figure: Figure, name: str, title: str, docs: Path = DOCS) -> str:
    """Save a figure and return the Markdown that shows it."""
    from gpuyard.reports.chart_style import to_png

    folder = docs / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.png").write_bytes(to_png(figure, title))
    return f"![{title}](figures/{name}.png)"


def rows(heads: list[str], content: list[list[str]]) -> str:
    """Write a Markdown table."""
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in content])
