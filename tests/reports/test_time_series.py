"""Series over time: exact means, checked against a slow and plain calculation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.results.builder import HOUR, build, job, span, three_jobs

from gpuyard.reports.time_series import binned, held_gpus, raster, series

instants = st.floats(0, 1000, allow_nan=False)


@given(st.lists(st.tuples(instants, instants, st.floats(0, 8)), max_size=20), st.integers(1, 12))
def test_bins_hold_the_exact_mean(intervals: list[tuple[float, float, float]], bins: int) -> None:
    edges = np.linspace(0, 800, bins + 1)
    rows = [(min(a, b), max(a, b), weight) for a, b, weight in intervals]
    columns = np.array(rows, dtype=np.float64).reshape(-1, 3)
    got = binned(columns[:, 0], columns[:, 1], columns[:, 2], edges)
    for low, high, mean in zip(edges[:-1], edges[1:], got, strict=True):
        want = sum(weight * max(0.0, min(b, high) - max(a, low)) for a, b, weight in rows) / (high - low)
        assert mean == pytest.approx(want, abs=1e-6)


def test_series_of_three_jobs() -> None:
    data = series(three_jobs(), bins=4)
    assert data.edges_h.tolist() == [0, 1, 2, 3, 4]
    assert data.gpus_held == pytest.approx([0.5, 1, 1, 1])
    assert data.cpus_held == pytest.approx([3 / 8, 6 / 8, 3 / 8, 2 / 8])
    assert data.cpus_used == pytest.approx([2 / 8, 6 / 8, 3 / 8, 2 / 8])
    assert data.gpu_demand == pytest.approx([(1 + 2 + 1) / 2, 2, 2, 1])
    assert data.runnable == pytest.approx([2.5, 2, 2, 1])


def test_jobs_after_the_end_of_the_run_want_nothing() -> None:
    late = job(2, arrival_s=50 * HOUR, finish_s=None, start_s=None, held_s=0.0)
    data = series(build([job(1), late], [span(1, 0, 1, [0])]), bins=2)
    assert data.runnable == pytest.approx([1, 1])


def test_jobs_that_never_started_want_gpus_to_the_end() -> None:
    waiting = job(2, arrival_s=0.5 * HOUR, finish_s=None, start_s=None, held_s=0.0)
    data = series(build([job(1), waiting], [span(1, 0, 1, [0])]), bins=2)
    assert data.runnable == pytest.approx([1, 2])
    assert data.gpu_demand == pytest.approx([0.5, 1])


def test_the_raster_says_who_held_each_gpu() -> None:
    run = three_jobs()
    grid = raster(held_gpus(run), 2, np.linspace(0, 4 * HOUR, 5))
    assert grid.tolist() == [[0, 1, 2, 1], [-1, 1, 2, 1]]
