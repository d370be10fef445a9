"""The figures of a run that served, worked out by hand."""

from __future__ import annotations

import polars as pl
import pytest

from gpuyard.core.service import Service
from gpuyard.results import TABLES, summarise_serving
from gpuyard.results.serving import nearest_rank

SERVICES = [Service("eyes", "resnet50", 10.0, 100.0), Service("ears", "bert", 10.0, 50.0)]


def requests(*rows: tuple[str, float, float | None, str]) -> pl.DataFrame:
    """Service, arrival, latency in milliseconds, and what became of it."""
    found = [
        {"service": name, "arrival_s": arrival, "finish_s": None if ms is None else arrival + ms / 1000, "outcome": end}
        for name, arrival, ms, end in rows
    ]
    return pl.DataFrame(found, schema=TABLES["requests"].columns)


def slices(*rows: tuple[int, float, list[str], float, float, float]) -> pl.DataFrame:
    """GPU, share, services, start, end and busy seconds."""
    names = ("gpu", "share", "services", "start_s", "end_s", "busy_s")
    found = [dict(zip(names, row, strict=True)) | {"batches_run": 2} for row in rows]
    return pl.DataFrame(found, schema=TABLES["slices"].columns)


NONE = slices()


def test_all_that_is_not_answered_in_time_is_a_violation() -> None:
    table = requests(
        ("eyes", 0.0, 20.0, "served"), ("eyes", 0.1, 120.0, "late"), ("ears", 0.2, None, "dropped"),
        ("ears", 0.3, None, "refused"), ("ears", 0.4, 40.0, "served"),
    )  # fmt: skip
    figures, services = summarise_serving(table, NONE, SERVICES, seconds=2.0)
    assert figures["violations"] == pytest.approx(3 / 5)
    assert (figures["goodput_per_s"], figures["throughput_per_s"]) == (1.0, 1.5)
    assert figures["worst_p99_of_slo"] == pytest.approx(1.2)
    rows = {row["service"]: row for row in services.to_dicts()}
    assert (rows["eyes"]["violations"], rows["ears"]["violations"]) == pytest.approx((1 / 2, 2 / 3))
    assert [rows["ears"][name] for name in ("requests", "served", "late", "dropped", "refused")] == [3, 1, 0, 1, 1]
    assert [rows["eyes"][name] for name in ("p50_ms", "p99_ms", "max_ms")] == pytest.approx([20, 120, 120])


def test_a_service_without_requests_has_no_figures_but_is_there() -> None:
    figures, services = summarise_serving(requests(), NONE, SERVICES, seconds=1.0)
    assert figures["violations"] is None
    assert services["requests"].to_list() == [0, 0]
    assert services["p99_ms"].to_list() == [None, None]


def test_percentiles_are_by_nearest_rank() -> None:
    values = pl.Series(range(1, 201)).cast(pl.Float64).to_numpy()
    assert [nearest_rank(values, percent) for percent in (50, 99, 99.9, 100)] == [100, 198, 200, 200]


def test_gpus_in_use_are_those_with_a_slice_that_serves() -> None:
    table = slices(
        (0, 0.6, ["eyes"], 0.0, 10.0, 5.0), (0, 0.4, ["ears"], 0.0, 4.0, 4.0), (1, 1.0, ["eyes"], 5.0, 10.0, 0.0),
        (2, 1.0, [], 0.0, 10.0, 0.0),
    )  # fmt: skip
    figures, _ = summarise_serving(requests(), table, SERVICES, seconds=10.0)
    assert figures["gpus_in_use"] == pytest.approx((10 + 5) / 10)
    assert figures["gpu_share_in_use"] == pytest.approx((6 + 1.6 + 5) / 10)
    assert figures["busy"] == pytest.approx((5 * 0.6 + 4 * 0.4) / 12.6)


def test_gpulet_leaves_out_the_first_second_and_the_first_requests() -> None:
    first = [("eyes", 0.001 * n, None, "dropped") for n in range(200)]
    early = [("eyes", 0.9, None, "dropped")]
    rest = [("eyes", 1.0 + n, 10.0 * (n + 1), "served") for n in range(3)] + [("eyes", 9.0, None, "dropped")]
    figures, _ = summarise_serving(requests(*first, *early, *rest), NONE, SERVICES, seconds=10.0)
    assert figures["published_violations"] == pytest.approx(1 / 4)
    assert figures["published_mean_ms"] == pytest.approx(15.0)  # without the slowest
    assert figures["published_throughput_per_s"] == pytest.approx(2 / 2.02)
