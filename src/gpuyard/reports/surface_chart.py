"""A picture of how fast a model is by the CPUs and the memory beside each of its GPUs: a field for each point."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuyard.core.errors import InputError
from gpuyard.reports.chart_style import INK, MUTED, PAPER, SERIES, new_figure, plain_number, to_png, to_svg_alone

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gpuyard.profiles import ModelProfile

KINDS = {".png": to_png, ".svg": to_svg_alone}
FIELD = (0.46, 0.36)
"""Inches of a field across and upwards."""
DARK = 0.6
"""Part of the best speed above which a field is dark enough for light letters."""


def check_picture(path: Path) -> None:
    """Raise InputError unless a picture can be written there."""
    if path.suffix.lower() not in KINDS:
        raise InputError("must end with .png or .svg", field="picture", value=str(path))
    if not path.parent.is_dir():
        raise InputError("is in a folder that does not exist", field="picture", value=str(path))


def draw_surface(profile: ModelProfile, path: Path) -> None:
    """Write the picture, as PNG or SVG by the name of the file."""
    from gpuyard.profiles.step_files import write_whole

    check_picture(path)
    title = f"{profile.title} on {profile.gpu_type}: speed by the CPUs and the memory of each GPU"
    write_whole(path, KINDS[path.suffix.lower()](surface_chart(profile), title))


def surface_chart(profile: ModelProfile) -> Figure:
    """Draw a field for each point of the grid: the darker the faster, 1.0 at the reference share."""
    rows, columns = profile.throughput.shape
    figure, [axes] = new_figure(max(4.5, 1.4 + FIELD[0] * columns), max(1.6, 1.1 + FIELD[1] * rows))
    axes.imshow(profile.throughput, origin="lower", aspect="auto", cmap="Blues", vmin=0, vmax=profile.top_speed)
    axes.set_xticks(range(columns), [plain_number(each) for each in profile.memory_grid], rotation=45 * (columns > 8))
    axes.set_yticks(range(rows), [plain_number(each) for each in profile.cpu_grid])
    axes.set_xlabel("GB per GPU")
    axes.set_ylabel("CPUs per GPU")
    axes.grid(visible=False)
    _numbers(axes, profile)
    _mark_best(axes, profile)
    return figure


def _numbers(axes: Axes, profile: ModelProfile) -> None:
    for row, speeds in enumerate(profile.throughput):
        for column, speed in enumerate(speeds):
            color = PAPER if speed > DARK * profile.top_speed else INK
            axes.text(column, row, f"{speed:.2f}", ha="center", va="center", fontsize=7.5, color=color)


def _mark_best(axes: Axes, profile: ModelProfile) -> None:
    """Frame the cheapest of the fastest points: what the model asks for."""
    from matplotlib.patches import Rectangle

    row, column = profile.cheapest(profile.top_speed)
    frame: dict[str, Any] = {"fill": False, "edgecolor": SERIES[1], "linewidth": 2.4, "clip_on": False}
    axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **frame))
    text = "speed, 1 at 3 CPUs and 62.5 GB; framed: the cheapest of the fastest"
    axes.set_title(text, loc="left", fontsize=8.5, color=MUTED)
