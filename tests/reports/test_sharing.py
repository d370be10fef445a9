"""The charts of sharing a GPU: lines that can be told apart, names that do not lie on each other, and what is drawn."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import polars as pl
import pytest
from tests.results.test_sharing_figures import completions
from tests.simulation.device.builders import MS, job

from gpuyard.core.sharing import SharingExperiment
from gpuyard.reports import sharing, sharing_details
from gpuyard.reports.page import build_report
from gpuyard.results import Run
from gpuyard.results.sharing import fitted_line, sync_overhead
from gpuyard.simulation.device.engine import simulate_sharing

LOW = job("low", 60, 0.3, sync_s=0.0115 * MS, launch_s=0.003 * MS)
HIGH = job("high", 30, 0.1, priority=1, thinks_s=(200 * MS,))


def simulated(*policies: str, seconds: float = 1.0) -> list[Run]:
    return [simulate_sharing(SharingExperiment((LOW, HIGH), seconds, policy=each)) for each in policies]


def test_no_two_lines_of_a_panel_look_alike() -> None:
    runs = simulated("none", *(f"priority:sync={every}" for every in range(1, 12)), seconds=0.1)
    for panel in sharing.completion_cdf(runs).axes:
        looks = [(line.get_color(), line.get_linestyle(), str(line._dash_pattern)) for line in panel.lines]  # type: ignore[attr-defined]
        assert len(looks) == 12
        assert len(set(looks)) == 12


def test_names_of_a_trade_off_lie_on_nobody() -> None:
    """`reef` is next to a synchronisation every 4 launches, of which it is one."""
    figure = sharing.trade_off(simulated("none", "reef", *(f"priority:sync={every}" for every in (1, 3, 4, 5, 6, 20))))
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert len(boxes) > 4
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def test_only_what_differs_in_an_option_makes_a_curve() -> None:
    runs = simulated("none", "reef", "priority:sync=1", "priority:sync=20", "priority:sync=50")
    (curve,) = sharing.trade_off(runs).axes[0].lines
    assert np.shape(curve.get_xydata()) == (3, 2)


def test_points_of_a_trade_off_are_where_they_are() -> None:
    runs = simulated("none", "priority:sync=1", "priority:sync=4")
    (dots,) = sharing.trade_off(runs).axes[0].collections
    found = {tuple(each) for each in np.asarray(dots.get_offsets()).tolist()}
    assert found == {(run.summary["urgent_p50_ms"], run.summary["background_slowdown"]) for run in runs}


def test_a_page_says_which_runs_it_draws() -> None:
    page, pictures = build_report(simulated("none", "reef", seconds=0.1), details=1)
    assert "Drawn for the first 1 of 2 runs" in page
    assert {"none-jct.png", "trade-off.png"} <= set(pictures)
    assert "reef-jct.png" not in pictures


def test_queues_are_what_was_launched_and_is_not_done() -> None:
    """The first job: 60 launches within 0.18 ms without a cap, of 0.3 ms each; with one, never more than 4."""
    free, capped = simulated("none", "priority:sync=4")
    assert free["queues"].filter(pl.col("job") == "low")["queued"].max() == 60
    assert capped["queues"].filter(pl.col("job") == "low")["queued"].max() == 4
    for run in (free, capped):
        for (_,), own in run["queues"].group_by(["job"]):
            assert (own["time_s"].diff().drop_nulls() >= 0).all()
            assert (own["queued"].diff().drop_nulls().abs() == 1).all(), "one at a time"
    figure = sharing_details.queues_over_time(free)
    lengths, jobs = figure.axes
    assert max(line.get_ydata().max() for line in lengths.lines) == 60  # type: ignore[union-attr]
    assert [text.get_text() for text in jobs.get_yticklabels()] == ["low", "high"]


def test_a_synchronisation_costs_what_was_paid_for_it() -> None:
    """11.5 us for the wait, and 3 us for the launch that no kernel hides any more; nothing beside."""
    runs = simulated(*(f"priority:sync={every}" for every in (1, 2, 5, 20)), seconds=4.0)
    points = sharing_details.overhead_points(runs)
    assert [syncs for syncs, _ in points] == [60, 30, 12, 3]
    line = fitted_line(points)
    assert line == pytest.approx((0.0145, -0.003), abs=2e-4)
    assert sharing_details.overhead_title(points) == "A synchronisation costs 0.0145 ms, and a job 0.00 ms less"
    assert {"sync-overhead.png", "trade-off.png", "priority-sync-2-queues.png"} <= set(build_report(runs)[1])


def test_a_line_is_fitted_by_least_squares() -> None:
    assert fitted_line([(0, 1), (1, 3), (2, 5)]) == pytest.approx((2, 1))
    assert fitted_line([(0, 0), (1, 1), (2, 0)]) == pytest.approx((0, 1 / 3))
    assert fitted_line([(1, 0), (1, 1)]) is None
    assert fitted_line([]) is None


def test_only_jobs_that_nobody_disturbed_tell_what_synchronising_costs() -> None:
    done = completions(("low", 0, 12), ("low", 12, 40), ("high", 20, 30)).with_columns(syncs=pl.Series([4, 9, 0]))
    facts = {"gpu": [0, 0], "priority": [0, 1], "alone_ms_mean": [10.0, 10.0]}
    run = Run({}, {"completions": done, "processes": pl.DataFrame({"job": ["low", "high"], **facts})}, {})
    (point,) = sync_overhead(run)
    assert point == pytest.approx((4, 2))
