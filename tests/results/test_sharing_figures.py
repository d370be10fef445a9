"""The figures of a run in which jobs shared GPUs, from tables written by hand."""

from dataclasses import replace

import polars as pl
import pytest

from gpuyard.results.sharing import SharerFacts, study_log, summarise_sharing, undisturbed


def completions(*rows: tuple[str, float, float]) -> pl.DataFrame:
    """Jobs by process, arrival and end in milliseconds."""
    return pl.DataFrame(
        [
            {"job": job, "arrival_s": start / 1e3, "start_s": start / 1e3, "finish_s": end / 1e3, "waited_s": 0.001,
             "preemptions": 1, "syncs": 2, "measured": True}
            for job, start, end in rows
        ]
    )  # fmt: skip


SHARED = completions(("a", 0, 10), ("b", 12, 16), ("a", 10, 24), ("a", 24, 34), ("b", 40, 46), ("a", 34, 60))
ALONE = completions(("a", 0, 10), ("b", 0, 4))
FACTS = [
    SharerFacts("a", 0, 0, None, 10, 0.001, "given", 0.6, 10),
    SharerFacts("b", 0, 1, 0.005, 4, 0.001, "given", 0.1, 4),
]


def test_times_are_compared_with_those_alone() -> None:
    figures, processes = summarise_sharing(SHARED, ALONE, FACTS, "priority")
    a, b = processes.to_dicts()
    # a: 10, 14, 10 and 26 ms, against 10 alone; b: 4 and 6, against 4.
    assert (a["jobs_done"], a["jct_ms_p50"], a["jct_ms_mean"]) == (4, pytest.approx(12), pytest.approx(15))
    assert (a["slowdown"], a["inflation"]) == (pytest.approx(1.2), pytest.approx(0.5))
    assert (b["jct_ms_p50"], b["slowdown"]) == (pytest.approx(5), pytest.approx(1.25))
    # The SLO of b is its own, 5 ms; that of a the study's, 1.6 times 10.
    assert (a["slo_ms"], a["late"], b["slo_ms"], b["late"]) == (pytest.approx(16), 1, pytest.approx(5), 1)
    # Of a's jobs the first and third overlap no job of b: 10 ms each.
    assert a["undisturbed_ms_mean"] == pytest.approx(10)
    assert figures["violations"] == pytest.approx(2 / 6)
    assert (figures["urgent_p50_ms"], figures["background_slowdown"]) == (pytest.approx(5), pytest.approx(1.2))
    assert figures["gpu_use"] == pytest.approx(0.7)


def test_warm_up_counts_neither_shared_nor_alone() -> None:
    cold = completions(("a", 0, 1000), ("b", 0, 1000)).with_columns(measured=False)
    warm = summarise_sharing(SHARED, ALONE, FACTS, "priority")
    figures, processes = summarise_sharing(pl.concat([cold, SHARED]), pl.concat([cold, ALONE]), FACTS, "priority")
    assert (figures, processes.to_dicts()) == (warm[0], warm[1].to_dicts())


def test_a_higher_priority_disturbs_only_those_on_its_gpu() -> None:
    elsewhere = [FACTS[0], replace(FACTS[1], gpu=1)]
    _, processes = summarise_sharing(SHARED, ALONE, elsewhere, "priority")
    assert processes["undisturbed_ms_mean"][0] == pytest.approx(15)  # all four of a's jobs


def test_jobs_that_overlap_none_of_others() -> None:
    a, b = (SHARED.filter(pl.col("job") == job) for job in ("a", "b"))
    assert (undisturbed(a, [b])["arrival_s"] * 1e3).to_list() == pytest.approx([0, 24])
    assert undisturbed(a, []).height == 4


def test_a_process_without_a_job_has_no_times() -> None:
    figures, processes = summarise_sharing(SHARED.clear(), ALONE.clear(), FACTS, "none")
    assert processes["jct_ms_p50"].to_list() == [None, None]
    assert figures["violations"] is None


def test_a_log_is_the_study_s() -> None:
    log = study_log(SHARED, "b")
    assert log["start_timestamp_ns"].to_list() == [12_000_000, 40_000_000]
    assert log["end_timestamp_ns"].to_list() == [16_000_000, 46_000_000]
    assert log["jct_ms"].to_list() == pytest.approx([4, 6])
