"""A picture of GPUs cut into slices: who takes turns where, and how much more each could take."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpuyard.core.errors import InputError
from gpuyard.policies.partition.deployment import Deployment
from gpuyard.policies.partition.interface import Slice
from gpuyard.policies.partition.rooms import Rooms
from gpuyard.reports.chart_style import (
    FIXED,
    GRID,
    INK,
    MUTED,
    PAPER,
    legend_above,
    new_figure,
    shorten,
    to_png,
    to_svg_alone,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GAP = 16.0
"""Between columns of GPUs, in percent of a GPU's width; its number stands there."""
LONGEST_TYPE = 10
"""Letters of a GPU type that have room there."""
BAR = 0.84
"""How high a GPU is drawn, of the room that it has."""
PALE = 0.35
"""How much of its colour is left where a turn has room for more requests."""
LETTER = 0.62
"""How wide a letter is, of the size of its font."""
SHADES = (1.0, 0.7, 0.5)
"""Of a colour that is used again for further services."""


class _Look(NamedTuple):
    """How so many GPUs are drawn."""

    gpus: float
    """At most."""
    columns: int
    font: float
    width: float
    height: float
    """Of one GPU, in inches."""

    def fits(self, text: str, box: _Box) -> bool:
        """Whether a text stays within a turn."""
        inches = self.width / (self.columns * (100 + GAP)) * box.width
        return (len(text) + 1) * LETTER * self.font <= 72 * inches

    def is_high_enough(self, box: _Box) -> bool:
        """Whether there is room for a line of text in a turn."""
        return 72 * self.height * BAR * box.height >= 1.05 * self.font


LOOKS = (_Look(8, 1, 9.0, 7.6, 0.62), _Look(24, 2, 7.5, 11.0, 0.52), _Look(inf, 4, 6.5, 15.0, 0.44))


class _Box(NamedTuple):
    """A turn as it is drawn: percent of a GPU across, parts of its height upwards."""

    left: float
    bottom: float
    width: float
    height: float
    service: int | str
    load: float
    labels: tuple[str, ...]
    """From the longest to the shortest."""


def draw_slices(of: Deployment, path: Path) -> None:
    """Write the picture, as PNG or SVG by the name of the file."""
    from gpuyard.profiles.step_files import write_whole

    kinds = {".png": to_png, ".svg": to_svg_alone}
    if path.suffix.lower() not in kinds:
        raise InputError("must end with .png or .svg", field="picture", value=str(path))
    write_whole(path, kinds[path.suffix.lower()](slices_chart(of), _title(of)))


def _title(of: Deployment) -> str:
    used, there = of.plan.gpus, of.cluster.total_gpus
    rate = sum(each.rate_per_s for each in of.services)
    many = "" if len(of.services) == 1 else "s"
    return f"{len(of.services)} service{many}, {rate:,.0f} requests/s on {used} of {there} GPUs"


def slices_chart(of: Deployment) -> Figure:
    """Draw every GPU as a bar: slices beside each other, turns above each other, headroom pale."""
    look = next(each for each in LOOKS if of.cluster.total_gpus <= each.gpus)
    rows = -(-of.cluster.total_gpus // look.columns)
    figure, [axes] = new_figure(look.width, 0.75 + look.height * rows)
    colors, names = _colors(of), _names(of)
    for number, slices in enumerate(_by_gpu(of)):
        column, row = divmod(number, rows)
        corner = (column * (100 + GAP), rows - 1 - row + (1 - BAR) / 2)
        _frame(axes, corner, names[number], slices, look.font)
        for box in _boxes(of, slices):
            _turn(axes, corner, box, colors[box.service], look)
    _finish(axes, rows, colors, look)
    return figure


def _colors(of: Deployment) -> dict[int | str, str]:
    from matplotlib.colors import to_hex, to_rgb

    def shade(number: int) -> str:
        strength = SHADES[(number // len(FIXED)) % len(SHADES)]
        red, green, blue = to_rgb(FIXED[number % len(FIXED)])
        return to_hex((strength * red, strength * green, strength * blue))

    return {each.service_id: shade(number) for number, each in enumerate(of.services)}


def _by_gpu(of: Deployment) -> list[list[Slice]]:
    found: list[list[Slice]] = [[] for _ in range(of.cluster.total_gpus)]
    for part in of.plan.slices:
        found[of.gpu_number(part)].append(part)
    return found


def _names(of: Deployment) -> list[str]:
    """Of every GPU, its number and its type."""
    cluster = of.cluster
    types = [
        cluster.kinds[kind].gpu_type
        for kind, count in zip(cluster.node_kind, cluster.node_gpus, strict=True) for _ in range(int(count))
    ]  # fmt: skip
    return [f"GPU {number}\n{shorten(gpu_type, LONGEST_TYPE)}" for number, gpu_type in enumerate(types)]


def _boxes(of: Deployment, slices: list[Slice]) -> Iterator[_Box]:
    loads = {(each.part, each.turn): each.rate / each.able if each.able else 1.0 for each in Rooms(of).turns}
    left = 0.0
    for part in slices:
        busy, bottom = sum(turn.takes_s for turn in part.turns), 0.0
        for turn in part.turns:
            height = turn.takes_s / busy
            load = loads[part, turn]
            name, batch, duty = turn.service, f"batch {turn.batch}", f"{part.period_s * 1000:.0f} ms"
            labels = (f"{name} · {batch} every {duty}", f"{name} · {batch}", f"{name} ×{turn.batch}", f"×{turn.batch}")
            yield _Box(left, bottom, part.thousandths / 10, height, turn.service, load, labels)
            bottom += height
        left += part.thousandths / 10


def _frame(axes: Axes, corner: tuple[float, float], name: str, slices: list[Slice], font: float) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle(corner, 100, BAR, facecolor=GRID, alpha=0.45, linewidth=0))
    x, y = corner
    axes.text(x - 1.5, y + BAR / 2, name, ha="right", va="center", fontsize=font, color=MUTED)
    if not any(part.turns for part in slices):
        axes.text(x + 50, y + BAR / 2, "free", ha="center", va="center", fontsize=font, color=MUTED)


def _turn(axes: Axes, corner: tuple[float, float], box: _Box, color: str, look: _Look) -> None:
    from matplotlib.patches import Rectangle

    x, y = corner[0] + box.left, corner[1] + box.bottom * BAR
    height = box.height * BAR
    axes.add_patch(Rectangle((x, y), box.width, height, facecolor=color, alpha=PALE, linewidth=0))
    axes.add_patch(Rectangle((x, y), box.width * box.load, height, facecolor=color, linewidth=0))
    axes.add_patch(Rectangle((x, y), box.width, height, fill=False, edgecolor=PAPER, linewidth=1.6))
    fitting = [text for text in box.labels if look.fits(text, box)]
    if fitting and look.is_high_enough(box):
        label = axes.text(x + 1.2, y + height / 2, fitting[0], va="center_baseline", fontsize=look.font, color=INK)
        label.set_bbox({"boxstyle": "round,pad=0.14", "facecolor": PAPER, "alpha": 0.62, "linewidth": 0})


def _finish(axes: Axes, rows: int, colors: dict[int | str, str], look: _Look) -> None:
    from matplotlib.patches import Patch

    axes.set_xlim(-GAP * 0.8, look.columns * (100 + GAP) - GAP)
    axes.set_ylim(0, rows)
    axes.set_axis_off()
    handles = [Patch(facecolor=color, linewidth=0) for color in colors.values()]
    pale = Patch(facecolor=MUTED, alpha=PALE, linewidth=0)
    legend_above(axes, [*handles, pale], [*map(str, colors), "room for more requests"], look.width)
