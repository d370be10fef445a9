"""Charts: what is drawn is the data."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.lines import Line2D
from tests.results.builder import HOUR, build, job, span, three_jobs

from benchmarks.paper.charts import load_panels
from gpuyard.reports import charts, time_charts
from gpuyard.reports.chart_style import to_png, to_svg
from gpuyard.results import Run


def at_load(load: float, hours: float, policy: str = "fifo+tune") -> Run:
    return build([job(1, finish_s=hours * HOUR)], [span(1, 0, hours, [0])], policy=policy, load=load)


def drawn(line: Line2D) -> tuple[list[float], list[float]]:
    return np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist()


def test_the_cdf_rises_by_a_third_at_each_of_three_jobs() -> None:
    (axes,) = charts.jct_cdf([three_jobs()]).axes
    (line,) = axes.lines
    hours, share = drawn(line)
    assert hours == pytest.approx([1, 1, 2.5, 4])
    assert share == pytest.approx([0, 100 / 3, 200 / 3, 100])
    assert axes.get_xscale() == "log"


def test_long_curves_are_thinned_but_keep_their_ends() -> None:
    jobs = [job(number, finish_s=(number + 1) * HOUR) for number in range(5000)]
    hours, share = charts.completion_curve(build(jobs, [span(0, 0, 1, [0])]))
    assert len(hours) == charts.CURVE_POINTS
    assert (hours[0], hours[-1], share[-1]) == (1, 5000, 100)
    assert np.interp(50, share, hours) == pytest.approx(2500.5, rel=1e-3)


def test_bars_are_as_long_as_the_figures() -> None:
    (axes,) = charts.policy_bars([three_jobs()]).axes
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([2.5, 2.5 + 1.5 * 0.98])  # type: ignore[attr-defined]


def test_mean_against_load_has_a_line_a_policy_in_order_of_load() -> None:
    runs = [at_load(8, 5), at_load(2, 1), at_load(2, 3, "fifo+proportional")]
    (axes,) = charts.mean_against_load(runs).axes
    tune, proportional = (drawn(line) for line in axes.lines)
    assert tune[0] == [2, 8]
    assert tune[1] == pytest.approx([1, 5])
    assert proportional[0] == [2]
    assert proportional[1] == pytest.approx([3])


def test_waits_add_up_to_the_mean_wait() -> None:
    (axes,) = charts.wait_reasons([three_jobs()]).axes
    bars = {round(float(bar.get_x()), 6): float(bar.get_width()) for bar in axes.patches}  # type: ignore[attr-defined]
    assert sum(bars.values()) == pytest.approx((1 + 1 + 1.4 + 0.1) / 3)
    assert bars[0.0] == pytest.approx(2.4 / 3), "the wait for GPUs comes first"


def test_utilisation_draws_the_series() -> None:
    gpus, cpus = time_charts.utilisation(three_jobs()).axes
    held = gpus.patches[-1].get_data()  # type: ignore[attr-defined]
    assert held.values[[0, -1]] == pytest.approx([50, 100])
    assert held.edges[-1] == pytest.approx(4)
    assert cpus.get_xlabel() == "time since the start, hours"


def test_who_ran_where_has_a_row_a_gpu_and_blank_where_idle() -> None:
    (axes,) = time_charts.who_ran_where(three_jobs()).axes
    picture = np.asarray(axes.images[0].get_array())
    assert picture.shape[0] == 2
    first_hour = time_charts.COLUMNS // 4 - 1
    assert picture[0, first_hour, 3] == 1.0
    assert picture[1, first_hour, 3] == 0.0, "GPU 1 is idle in the first hour"
    assert {text.get_text().strip() for text in axes.texts} == {"1", "2", "3"}


def test_a_large_cluster_shows_how_much_of_each_node_is_held() -> None:
    run = build([job(1, gpus=4.0)], [span(1, 0, 1, [8, 9, 10, 11])], cluster="100x8")
    (axes,) = time_charts.who_ran_where(run).axes
    picture = np.asarray(axes.images[0].get_array())
    assert picture.shape[0] == 100
    assert picture[1, :, 3] == pytest.approx(0.5, abs=0.01)
    assert picture[0, :, 3].max() == 0.0


def test_a_huge_cluster_puts_several_nodes_on_a_row() -> None:
    run = build([job(1)], [span(1, 0, 1, [7999])], cluster="1000x8")
    (axes,) = time_charts.who_ran_where(run).axes
    picture = np.asarray(axes.images[0].get_array())
    assert picture.shape[0] == 250
    assert picture[-1, 0, 3] == pytest.approx(1 / 32, abs=0.01)


def test_svg_follows_the_page_and_parses() -> None:
    svg = to_svg(charts.jct_cdf([three_jobs(policy="<script>$x$ & _y")]), "cdf")
    ElementTree.fromstring(svg)
    assert "var(--s1)" in svg
    assert "<script" not in svg
    assert svg == to_svg(charts.jct_cdf([three_jobs(policy="<script>$x$ & _y")]), "cdf")


def test_text_of_any_script_can_be_drawn() -> None:
    run = build([job("作业_$")], [span("作业_$", 0, 1, [0])], policy="_策略+tune")
    assert "策略" in to_svg(charts.jct_cdf([run]), "cdf")
    assert to_png(time_charts.who_ran_where(run), "$\\frac 策略").startswith(b"\x89PNG")


def test_png_has_its_title_on_white() -> None:
    content = to_png(charts.jct_cdf([three_jobs()]), "A finding")
    assert content == to_png(charts.jct_cdf([three_jobs()]), "A finding")
    pixels = imread(BytesIO(content))
    assert pixels.shape[1] == 1216
    assert pixels[0, 0, :3].tolist() == [1, 1, 1]
    assert pixels[:40, :400, 0].min() < 0.5, "the title is at the top left"


@pytest.mark.parametrize(
    "drawing",
    [
        lambda: charts.jct_cdf([three_jobs()]),
        lambda: charts.wait_reasons([three_jobs()]),
        lambda: time_charts.utilisation(three_jobs()),
        lambda: load_panels([6.0, 9.0], {order: [[17.0, 80.0], [15.0, 22.0]] for order in ("fifo", "srtf")}),
    ],
    ids=["cdf", "waits", "utilisation", "panels"],
)
def test_a_title_of_many_lines_moves_and_covers_nothing(drawing: Callable[[], Figure]) -> None:
    short = imread(BytesIO(to_png(drawing(), "A finding")))
    long = imread(BytesIO(to_png(drawing(), "A finding " * 42)))
    added = len(long) - len(short)
    assert added == 5 * 0.22 * 160, "five more lines"
    heading = 56
    assert np.array_equal(long[added + heading :], short[heading:])


@pytest.mark.parametrize("cluster", ["1x8", "4x8", "16x8", "300x8"])
def test_numbers_of_gpus_and_nodes_keep_apart(cluster: str) -> None:
    figure = time_charts.who_ran_where(build([job(1)], [span(1, 0, 1, [0])], cluster=cluster))
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
    assert all(upper.y0 > lower.y1 + 1 for upper, lower in pairwise(boxes))
