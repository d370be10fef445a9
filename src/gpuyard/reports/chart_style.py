"""One look for every chart: figures without pyplot's global state, as SVG that follows the page's theme or as PNG."""

from __future__ import annotations

import io
import re
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, GRID, PAPER = "#1d2430", "#5c6675", "#e3e7ec", "#ffffff"
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a6ff0", "#8a8f98")
"""Okabe and Ito's palette, safe for colour-blind readers, and two more that keep their distance from it."""

FIXED = ("#268bbf", "#db7226", "#26ad88", "#d48db3", "#e9ad26", "#6fbfec", "#8e84f2", "#9c9fa7")
"""The same colours, softened, for pictures that cannot follow the page's theme: legible on light and on dark."""

DASHES = ("solid", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
"""A second way to tell lines apart, for print and for any eye."""

WIDTH = 7.6
"""Inches of a chart, unless it has much to show."""
TITLE_LETTERS = 78
LEGEND_LETTERS = 96
"""Roughly how many letters fit beside each other on a chart."""

MARGIN = 0.1
"""Inches left free on either side, or long names touch the edge."""

_VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--grid", PAPER: "--paper"} | {
    color: f"--s{number}" for number, color in enumerate(SERIES, start=1)
}
_SCALE = 1.6
"""Pixels of PNG to points of layout: sharp on today's screens, small on disk."""


def new_figure(width: float = WIDTH, height: float = 3.4, rows: int = 1, **options: Any) -> tuple[Figure, list[Axes]]:
    """Return a figure and its panels, one above the other, in gpuyard's look."""
    from matplotlib.figure import Figure

    with _settings():
        figure = Figure(figsize=(width, height), facecolor=PAPER)
        figure.set_layout_engine("constrained", w_pad=MARGIN)
        grid = figure.subplots(rows, 1, squeeze=False, sharex=rows > 1, **options)
        axes = [row[0] for row in grid]
        for panel in axes:
            _calm(panel)
    return figure, axes


def legend_above(axes: Axes, handles: list[Any], labels: list[str], width: float = WIDTH) -> None:
    """Put the legend above the panel, flush left, out of the data's way, in as many columns as there is room for."""
    # A leading underscore would hide an entry, and labels are the user's text.
    shown = [f" {label}" if label.startswith("_") else label for label in map(shorten, labels)]
    columns = max(1, min(len(shown), int(LEGEND_LETTERS * width / WIDTH) // (max(map(len, shown), default=0) + 7)))
    axes.legend(
        handles, shown, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=columns, frameon=False, borderaxespad=0.2,
        handlelength=1.8, columnspacing=1.6, labelcolor=INK, fontsize=9,
    )  # fmt: skip


def shorten(text: str, length: int = 40) -> str:
    """Cut a long text, so that a name cannot push the data off the chart."""
    return text if len(text) <= length else text[: length - 1] + "…"


def plain_log_numbers(axis: Any) -> None:
    """Write the numbers of a logarithmic axis without exponents, and enough of them."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    if high / low < 100:  # decades alone would leave one number on the axis
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(plain_number)
    axis.set_minor_formatter(NullFormatter())


def plain_number(value: float, _: object = None) -> str:
    """Write a number as people do."""
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def to_svg(figure: Figure, name: str) -> str:
    """Draw as SVG for a page: text stays text, and colours are the page's variables."""
    buffer = io.StringIO()
    with _settings(name):
        _settle(figure)
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", text)  # numbered groups: the same in every chart of the page
    text = re.sub(r'^<svg [^>]*?(viewBox="[^"]*")[^>]*>', _svg_opening(name), text, count=1)
    text = re.sub(r'(?<= d=")[^"]*', _round_path, text)
    for color, variable in _VARIABLES.items():
        text = text.replace(color, f"var({variable})")
    return text


def to_png(figure: Figure, title: str) -> bytes:
    """Draw as a PNG on paper white, with its title in the picture since it travels alone."""
    return _alone(figure, title, format="png", dpi=100 * _SCALE, metadata={"Software": "gpuyard"})


def to_svg_alone(figure: Figure, title: str) -> bytes:
    """Draw as an SVG that needs no page: the same picture as the PNG."""
    return _alone(figure, title, format="svg", metadata={"Date": None, "Creator": "gpuyard"})


def _alone(figure: Figure, title: str, **options: Any) -> bytes:
    from matplotlib.transforms import Bbox

    width, height = figure.get_size_inches()
    lines = textwrap.wrap(title, TITLE_LETTERS)
    space = 0.14 + 0.22 * len(lines)
    with _settings():
        _settle(figure)
        # The title goes above the figure's edge, so that the layout need not be worked out again for it.
        heading = figure.text(MARGIN / width, 1 + (space - 0.09) / height, "\n".join(lines), va="top")
        heading.set(fontsize=12, fontweight="bold", color=INK)
        buffer = io.BytesIO()
        page = Bbox.from_bounds(0, 0, width, height + space)
        figure.savefig(buffer, bbox_inches=page, **options)
        heading.remove()
    return buffer.getvalue()


def _settle(figure: Figure) -> None:
    """Work out the layout once: it takes longer than drawing, and a figure is drawn twice."""
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()
        figure.set_layout_engine("none")


def _round_path(match: re.Match[str]) -> str:
    return re.sub(r"(\.\d\d)\d+", r"\1", match.group())  # a hundredth of a pixel is enough


def _svg_opening(name: str) -> str:
    return (
        rf'<svg class="chart" role="img" aria-labelledby="{name}-title" xmlns:xlink="http://www.w3.org/1999/xlink" \1>'
    )


@contextmanager
def _settings(salt: str = "gpuyard") -> Iterator[None]:
    import matplotlib as mpl

    look: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": salt,
        "font.family": ["DejaVu Sans"],
        "font.size": 9.5,
    }
    look |= {"text.parse_math": False, "path.simplify_threshold": 0.2, "axes.unicode_minus": False}
    with mpl.rc_context(look), warnings.catch_warnings():
        # A user's text may have letters that the bundled font lacks; browsers have them.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def _calm(axes: Axes) -> None:
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)
    axes.grid(visible=True, axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=MUTED, length=3, width=0.8, labelcolor=MUTED)
    axes.tick_params(axis="y", length=0)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_color(MUTED)
    axes.set_facecolor("none")
