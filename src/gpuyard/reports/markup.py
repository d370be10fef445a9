"""Pieces of HTML. Whatever comes from a run is the user's text and is escaped here, in one place."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from importlib.resources import files

_SCRIPT = """
const root = document.documentElement, button = document.getElementById("theme");
const system = matchMedia("(prefers-color-scheme: dark)");
const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
const name = () => { button.textContent = dark() ? "Light" : "Dark"; };
button.onclick = () => { root.dataset.theme = dark() ? "light" : "dark"; name(); };
button.hidden = false; name();
""".strip()


def text(value: object) -> str:
    """Escape a value for any place in a page."""
    return html.escape(str(value), quote=True)


def document(title: str, body: str) -> str:
    """Wrap a body into a page that needs nothing but itself."""
    style = files("gpuyard.reports").joinpath("page.css").read_text(encoding="utf-8")
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{text(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        f"<script>\n{_SCRIPT}\n</script>\n</body>\n</html>\n"
    )


def figure(name: str, title: str, caption: str, svg: str) -> str:
    """Return a chart with its finding as title and how to read it below."""
    return (
        f'<figure id="{name}">\n<figcaption><h3 id="{name}-title">{text(title)}</h3>'
        f"<p>{text(caption)}</p></figcaption>\n{svg}</figure>\n"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, prose: bool = False) -> str:
    """Return a table of cells that are HTML already; `prose` aligns them left and lets them wrap."""
    heading = "".join(f'<th scope="col">{text(name)}</th>' for name in head)
    body = "\n".join("<tr>" + "".join(_cell(cell) for cell in row) + "</tr>" for row in rows)
    kind = ' class="text"' if prose else ""
    rows_html = f"<thead><tr>{heading}</tr></thead>\n<tbody>\n{body}\n</tbody>"
    return f'<div class="scroll"><table{kind}>\n{rows_html}\n</table></div>\n'


def _cell(cell: str) -> str:
    return f'<td class="best">{cell[1:]}</td>' if cell.startswith(BEST) else f"<td>{cell}</td>"


BEST = "\x01"
"""Put before a cell to set it bold: the best of its column."""
